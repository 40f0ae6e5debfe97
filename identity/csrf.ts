import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** Tokens that only those know who may read our answers, each bound to one session: a keyed hash of its id. */
export class CsrfTokens {
  readonly #key: Buffer;

  /** `secret` is that of the service. */
  constructor(secret: string) {
    this.#key = createHmac("sha256", secret).update("csrf").digest();
  }

  of(session: string): string {
    return createHmac("sha256", this.#key).update(session).digest("base64url");
  }

  isOf(token: string, session: string): boolean {
    const expected = Buffer.from(this.of(session));
    const given = Buffer.from(token);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

/**
 * What a request says it is: in `X-CSRF-Token`, `X-XSRF-TOKEN`, or for those who can't set headers the parameter `_csrf`;
 * null when it says nothing.
 */
export function csrfTokenIn({ headers, url = "" }: Pick<IncomingMessage, "headers" | "url">): string | null {
  const token = headers["x-csrf-token"] || headers["x-xsrf-token"] || PARAMETER.exec(url)?.[1];
  return token ? String(token) : null;
}

/** Tokens are made of letters that stand in addresses as they are. */
const PARAMETER = /[?&]_csrf=([\w-]+)(?:&|$)/;

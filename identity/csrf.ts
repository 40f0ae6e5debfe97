import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** CSRF tokens: a keyed hash of the session's id, known only to pages that may read responses of this service. */
export class CsrfTokens {
  readonly #key: Buffer;

  /** `secret` is the secret of the service. */
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

/** The CSRF token of a request: `X-CSRF-Token`, `X-XSRF-TOKEN`, or the parameter `_csrf` of clients that cannot set headers. */
export function csrfTokenIn({ headers, url = "" }: Pick<IncomingMessage, "headers" | "url">): string | null {
  const token = headers["x-csrf-token"] || headers["x-xsrf-token"] || PARAMETER.exec(url)?.[1];
  return token ? String(token) : null;
}

/** Tokens are base64url, which is not escaped in a URL. */
const PARAMETER = /[?&]_csrf=([\w-]+)(?:&|$)/;

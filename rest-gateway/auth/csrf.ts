import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

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

/** The headers that may bear it; null when none does. Forms send it as `_csrf`, which only routes that read forms know. */
export function csrfTokenIn(headers: IncomingHttpHeaders): string | null {
  const token = headers["x-csrf-token"] ?? headers["x-xsrf-token"];
  return token ? String(token) : null;
}

import { type Caller, nobody } from "../../db/caller.ts";
import { TokenError, type Verifier } from "./verified-tokens.ts";

/** `"Bearer eyJ…"` → `"eyJ…"`, a token perhaps; null for another scheme. */
export function bearerToken(authorization: string): string | null {
  const scheme = /^Bearer +/i.exec(authorization);
  return scheme && (authorization.slice(scheme[0].length).trimEnd() || null);
}

/**
 * `Authorization: Bearer <token>` → who asks. Without a token, or with one that is not good, it is nobody; whether that
 * will do is for each interface to say.
 */
export class BearerResolver {
  readonly #tokens: Verifier;
  readonly #anonymousRole: string;
  readonly #nobody: Caller;

  constructor(tokens: Verifier, anonymousRole: string) {
    this.#tokens = tokens;
    this.#anonymousRole = anonymousRole;
    this.#nobody = nobody(anonymousRole);
  }

  resolve(authorization: unknown): Caller {
    if (authorization === undefined || authorization === null || authorization === "") return this.#nobody;
    const token = typeof authorization === "string" ? bearerToken(authorization) : null;
    if (token === null) return nobody(this.#anonymousRole, "invalid");
    try {
      return this.#tokens.verify(token);
    } catch (error) {
      if (error instanceof TokenError) return nobody(this.#anonymousRole, error.reason);
      throw error;
    }
  }
}

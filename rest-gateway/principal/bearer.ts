import { type Caller, nobody } from "../../db/caller.ts";
import { type Claims, TokenError, type Tokens } from "./tokens.ts";

/**
 * `Authorization: Bearer <token>` → who asks. Without a token, or with one that is not good, it is nobody; whether that
 * will do is for each interface to say.
 */
export class BearerResolver {
  readonly #tokens: Tokens;
  readonly #anonymousRole: string;
  readonly #callers = new WeakMap<Claims, Caller>();
  readonly #nobody: Caller;

  constructor(tokens: Tokens, anonymousRole: string) {
    this.#tokens = tokens;
    this.#anonymousRole = anonymousRole;
    this.#nobody = nobody(anonymousRole);
  }

  resolve(authorization: unknown): Caller {
    if (authorization === undefined || authorization === null || authorization === "") return this.#nobody;
    const token = typeof authorization === "string" ? /^Bearer +([\w.~+/=-]+) *$/i.exec(authorization)?.[1] : undefined;
    if (token === undefined) return nobody(this.#anonymousRole, "invalid");
    try {
      return this.#callerOf(this.#tokens.verify(token));
    } catch (error) {
      if (error instanceof TokenError) return nobody(this.#anonymousRole, error.reason);
      throw error;
    }
  }

  #callerOf(claims: Claims): Caller {
    const known = this.#callers.get(claims);
    if (known) return known;
    const role = claims.role === "anon" ? this.#anonymousRole : claims.role;
    const caller: Caller = { role, claims, expiresAt: claims.exp * 1000, refused: null };
    this.#callers.set(claims, caller);
    return caller;
  }
}

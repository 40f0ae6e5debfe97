import type { Caller } from "../db/caller.ts";

/** Why a token is refused. */
export class TokenError extends Error {
  readonly reason: "expired" | "invalid";
  constructor(reason: "expired" | "invalid") {
    super(`token ${reason}`);
    this.reason = reason;
  }
}

/** Tells who the caller with a token is. The first two throw TokenError. */
export type Verifier = {
  verify(token: string): Caller;
  /** The same for what stands in the header `apikey`. */
  verifyKey(token: string): Caller;
  /** The same of a token that was verified before and has not ended; null for every other. */
  known(token: string): Caller | null;
};

const MAX_CACHED = 10_000;

/** Remembers who the callers are until their tokens end: to check a signature takes longer than most requests. */
export class VerifiedTokens {
  readonly #check: (token: string) => Caller;
  readonly #callers = new Map<string, Caller>();

  constructor(check: (token: string) => Caller) {
    this.#check = check;
  }

  /** Throws TokenError. */
  callerOf(token: string): Caller {
    const known = this.#callers.get(token);
    if (known === undefined) return this.#remember(token, this.#check(token));
    if (known.expiresAt === null || known.expiresAt > Date.now()) return known;
    this.#callers.delete(token);
    throw new TokenError("expired");
  }

  known(token: string): Caller | null {
    const known = this.#callers.get(token);
    return known && (known.expiresAt === null || known.expiresAt > Date.now()) ? known : null;
  }

  #remember(token: string, caller: Caller): Caller {
    if (this.#callers.size >= MAX_CACHED) this.#callers.delete(this.#callers.keys().next().value as string);
    this.#callers.set(token, caller);
    return caller;
  }
}

import { createHash } from "node:crypto";
import { RefusedError } from "../principal/refused.ts";
import type { AuthStore } from "./store.ts";

export type ThrottleLimits = {
  /** Failures of one name at one address within the window. */
  readonly attempts: number;
  /** Failures from one address, whatever the names. */
  readonly attemptsPerAddress: number;
  /** Seconds. */
  readonly window: number;
};

/** An attempt that has been counted before it is made; one that does not fail is taken back. */
export type Attempt = { forgive(): Promise<void> };

/** Holds up those who guess: the key is a name and an address, so that nobody can lock somebody else out. */
export class Throttle {
  readonly #store: AuthStore;
  readonly #limits: ThrottleLimits;

  constructor(store: AuthStore, limits: ThrottleLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Rejects with RefusedError "too many attempts". `what` is a login, or a user's second factor. */
  async attempt(what: string, address: string): Promise<Attempt> {
    const { attempts, attemptsPerAddress, window } = this.#limits;
    const keys = [
      [keyOf("name", what.toLowerCase(), address), attempts],
      [keyOf("address", address), attemptsPerAddress],
    ] as const;
    const reserved = await this.#store.reserveAttempt(keys, window);
    if ("retryAfter" in reserved) throw new RefusedError("too many attempts", { retryAfter: reserved.retryAfter });
    return { forgive: () => this.#store.forgiveAttempt(reserved.ids) };
  }
}

/** Names of any length, and of people, are kept as hashes. */
const keyOf = (...parts: readonly string[]) => createHash("sha256").update(JSON.stringify(parts)).digest();

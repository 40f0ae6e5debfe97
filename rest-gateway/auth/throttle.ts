import { createHash } from "node:crypto";
import { RefusedError } from "../principal/refused.ts";
import type { Account, AuthStore } from "./store.ts";

export type ThrottleLimits = {
  /** Failures of one name at one address within the window. */
  readonly attempts: number;
  /** Failures from one address, whatever the names. */
  readonly attemptsPerAddress: number;
  /** Accounts that may be made from one address. */
  readonly registrationsPerAddress: number;
  /** Seconds. */
  readonly window: number;
};

/** An attempt that has been counted before it is made; one that does not fail is taken back. */
export type Attempt = { forgive(): Promise<void> };

/** What `comparing` gives; an attempt that there was no time for has not failed. */
export async function unlessBusy<Result>(attempt: Attempt, comparing: Promise<Result>): Promise<Result> {
  try {
    return await comparing;
  } catch (error) {
    if (error instanceof RefusedError && error.reason === "busy") await attempt.forgive();
    throw error;
  }
}

/** Holds up those who guess: the key is a name and an address, so that nobody can lock somebody else out. */
export class Throttle {
  readonly #store: AuthStore;
  readonly #limits: ThrottleLimits;

  constructor(store: AuthStore, limits: ThrottleLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /**
   * Rejects with RefusedError "too many attempts". `who` is an account, by whichever of its names it was found, or a name
   * that is nobody's.
   */
  async attempt(who: Pick<Account, "id"> | string, address: string): Promise<Attempt> {
    const { attempts, attemptsPerAddress } = this.#limits;
    const name = typeof who === "string" ? ["name", who.toLowerCase()] : ["user", who.id];
    return this.#reserve([
      [keyOf(...name, address), attempts],
      [keyOf("address", address), attemptsPerAddress],
    ]);
  }

  /** The same for who signs up: every one counts, whether it fails or not. */
  registration(address: string): Promise<Attempt> {
    return this.#reserve([[keyOf("registration", address), this.#limits.registrationsPerAddress]]);
  }

  async #reserve(keys: readonly (readonly [key: Buffer, limit: number])[]): Promise<Attempt> {
    const reserved = await this.#store.reserveAttempt(keys, this.#limits.window);
    if ("retryAfter" in reserved) throw new RefusedError("too many attempts", { retryAfter: reserved.retryAfter });
    return { forgive: () => this.#store.forgiveAttempt(reserved.ids) };
  }
}

/** Names of any length, and of people, are kept as hashes. */
const keyOf = (...parts: readonly string[]) => createHash("sha256").update(JSON.stringify(parts)).digest();

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { CancelSignal } from "../../db/transaction.ts";
import type { Account } from "../../identity/account.ts";
import { type RefusalReason, RefusedError } from "../../identity/refused.ts";
import type { AuthStore, SecurityEvent } from "./repository.ts";

export type ThrottleLimits = {
  /** Failures of one name at one address within the window. */
  readonly attempts: number;
  /** Failures from one address, whatever the names. */
  readonly attemptsPerAddress: number;
  /** Wrong codes of one user. */
  readonly codeAttempts: number;
  /** Accounts that may be made from one address. */
  readonly registrationsPerAddress: number;
  /** Seconds. */
  readonly window: number;
};

/** Who attempts something. */
export type Client = {
  readonly address: string;
  /** Aborted when nobody waits for the outcome any more. */
  readonly signal?: CancelSignal | undefined;
};

/** What is attempted. It says itself when it counts, before it ends; one that has not said so is taken back. */
export type Attempt<Result> = (count: () => void) => Promise<Result>;

/** What becomes of one too many; the event is noted. */
type Refusal = { readonly reason: RefusalReason; readonly event?: SecurityEvent };
const TOO_MANY: Refusal = { reason: "too many attempts" };

type Key = readonly [key: Buffer, limit: number];

/** Milliseconds between two looks whether others are decided, and from the first look to the last. */
const LOOK_AGAIN = 100;
const WAIT = 5000;
/** More at once would only keep the database busy. */
const MAX_WAITING = 64;

/**
 * Holds up those who guess. An attempt has its place before it is made, so that of many at once no more are made than may
 * fail; those for whom no place is left while others are not decided wait for them.
 */
export class Throttle {
  readonly #store: AuthStore;
  readonly #limits: ThrottleLimits;
  #waiting = 0;

  constructor(store: AuthStore, limits: ThrottleLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /**
   * To say who one is, which counts for the name and the address: nobody can lock somebody else out from another one.
   * `who` is an account, by whichever of its names it was found, or a name that is nobody's. Rejects with RefusedError "too
   * many attempts", and "busy" when those before it are not decided in time.
   */
  login<Result>(who: Account | string, { address, signal }: Client, attempt: Attempt<Result>): Promise<Result> {
    const { attempts, attemptsPerAddress } = this.#limits;
    const name = typeof who === "string" ? ["name", who.toLowerCase()] : ["user", who.id];
    const keys: Key[] = [
      [keyOf(...name, address), attempts],
      [keyOf("address", address), attemptsPerAddress],
    ];
    const userId = typeof who === "string" ? null : who.id;
    return this.#make(attempt, keys, signal, { ...TOO_MANY, event: { event: "login_throttled", userId, address } });
  }

  /** A code of a user. Who guesses it knows the password already: the user alone counts, and no address helps. */
  code<Result>(userId: string, { signal }: Client, attempt: Attempt<Result>): Promise<Result> {
    return this.#make(attempt, [[factorKeyOf(userId), this.#limits.codeAttempts]], signal, TOO_MANY);
  }

  /** What was guessed before is of another secret. */
  async forgetCodes(userId: string): Promise<void> {
    await this.#store.forgetAttempts(factorKeyOf(userId));
  }

  /** To sign up. */
  registration<Result>({ address, signal }: Client, attempt: Attempt<Result>): Promise<Result> {
    const keys: Key[] = [[keyOf("registration", address), this.#limits.registrationsPerAddress]];
    return this.#make(attempt, keys, signal, { reason: "too many registrations" });
  }

  async #make<Result>(
    attempt: Attempt<Result>,
    keys: readonly Key[],
    signal: CancelSignal | undefined,
    refusal: Refusal,
  ): Promise<Result> {
    const look = () => this.#reserve(keys, refusal);
    const ids = (await look()) ?? (await this.#await(look, signal));
    let counts = false;
    try {
      return await attempt(() => {
        counts = true;
      });
    } finally {
      await (counts ? this.#store.countAttempt(ids) : this.#store.forgiveAttempt(ids));
    }
  }

  /** Null while those that are not decided yet have the last places. */
  async #reserve(keys: readonly Key[], { reason, event }: Refusal): Promise<readonly number[] | null> {
    const reserved = await this.#store.reserveAttempt(keys, this.#limits.window);
    if (reserved === null) return null;
    if ("ids" in reserved) return reserved.ids;
    if (event) await this.#store.note(event);
    throw new RefusedError(reason, { retryAfter: reserved.retryAfter });
  }

  async #await<Found>(look: () => Promise<Found | null>, signal: CancelSignal | undefined): Promise<Found> {
    if (this.#waiting >= MAX_WAITING) throw tooManyAtOnce();
    this.#waiting++;
    try {
      for (const until = performance.now() + WAIT; performance.now() < until; ) {
        await sleep(LOOK_AGAIN);
        if (signal?.aborted) break;
        const found = await look();
        if (found !== null) return found;
      }
    } finally {
      this.#waiting--;
    }
    throw tooManyAtOnce();
  }
}

const tooManyAtOnce = () => new RefusedError("busy", { retryAfter: 1 });

/** Names of any length, and of people, are kept as hashes. */
const keyOf = (...parts: readonly string[]) => createHash("sha256").update(JSON.stringify(parts)).digest();

const factorKeyOf = (userId: string) => keyOf("factor", userId);

import { setTimeout as sleep } from "node:timers/promises";
import type { CancelSignal } from "../../db/transaction.ts";
import type { Account } from "../../identity/account.ts";
import { type RefusalReason, RefusedError } from "../../identity/refused.ts";
import type { AuthRepository, SecurityEvent } from "./repository.ts";

export type ThrottleLimits = {
  /** Failed logins of one name at one IP address within the window. */
  readonly attempts: number;
  /** Failed logins from one IP address, whatever the names. */
  readonly attemptsPerAddress: number;
  /** Wrong codes of one user. */
  readonly codeAttempts: number;
  /** Accounts created from one IP address. */
  readonly registrationsPerAddress: number;
  /** Seconds. */
  readonly window: number;
};

/** The ids of a reserved attempt, which has to be settled. */
export type Attempt = readonly number[];

/** Null while other attempts that are undecided hold the last places. */
export type Reservation = { readonly ids: Attempt } | { /** Seconds. */ readonly retryAfter: number } | null;

/** Who attempts to sign in: a username or an e-mail, or the id of a user whose account is known. */
export type Login = { readonly login: string } | { readonly userId: string };

/** `window` is seconds. */
export type LoginLimits = {
  readonly attempts: number;
  readonly attemptsPerAddress: number;
  readonly window: number;
};

export type BegunLogin = {
  readonly account: Account | null;
  /** The encrypted secret of the second factor, in hex. */
  readonly factor: string | null;
  readonly attempt: Reservation;
};

/** `window` is seconds. */
export type CodeLimits = { readonly codeAttempts: number; readonly window: number };

/** A code of the app is its step, null if it is wrong; a backup code is its possible hashes. */
export type CodeToTry = {
  readonly secret: string | null;
  readonly step: number | null;
  readonly hashes: readonly Buffer[];
  /** The id of the challenge that is spent with the code. */
  readonly challenge: string | null;
  readonly address: string;
};

/** "spent": the challenge was used before. */
export type CodeOutcome =
  | { readonly outcome: "accepted" | "wrong" | "spent" }
  | { /** Seconds. */ readonly retryAfter: number };

/** The client that makes an attempt. */
export type Client = {
  /** The IP address. */
  readonly address: string;
  /** Aborted when the client has disconnected. */
  readonly signal?: CancelSignal | undefined;
};

/** A login that has reserved its attempt. */
export type ReservedLogin = {
  /** Null for an unknown login. */
  readonly account: Account | null;
  /** The encrypted secret of the second factor, in hex. */
  readonly factor: string | null;
  readonly attempt: Attempt;
};

/** Milliseconds between two looks whether other attempts are decided, and until the client is sent away. */
const LOOK_AGAIN = 100;
const WAIT = 5000;
/** More at once would only keep the database busy. */
const MAX_WAITING = 64;

/**
 * Limits guessing: reserve an attempt, verify what was sent, settle the attempt. An attempt is reserved before it is
 * verified, so that parallel attempts can't exceed the limit. Those without a place wait while others are undecided.
 */
export class Throttle {
  readonly #repository: AuthRepository;
  readonly #limits: ThrottleLimits;
  #waiting = 0;

  constructor(repository: AuthRepository, limits: ThrottleLimits) {
    this.#repository = repository;
    this.#limits = limits;
  }

  /**
   * Finds the account and reserves an attempt for it at the IP address: a user can't be locked out from another one. Rejects
   * with RefusedError "too many attempts", and "busy" when earlier attempts are not decided in time.
   */
  async reserveLogin(who: Login, { address, signal }: Client): Promise<ReservedLogin> {
    return this.#whenDecided(async () => {
      const begun = await this.#repository.beginLogin(who, address, this.#limits);
      const attempt = attemptOf(begun.attempt, "too many attempts");
      return attempt && { ...begun, attempt };
    }, signal);
  }

  /** For a code of a user, without the IP address: the client knows the password already. Rejects as reserveLogin does. */
  async reserveCode(userId: string, { signal }: Client): Promise<Attempt> {
    const { codeAttempts, window } = this.#limits;
    const reserve = () => this.#repository.reserveCode(userId, codeAttempts, window);
    return this.#whenDecided(async () => attemptOf(await reserve(), "too many attempts"), signal);
  }

  /** For a new account. Rejects with RefusedError "too many registrations" and "busy". */
  async reserveRegistration({ address, signal }: Client): Promise<Attempt> {
    const { registrationsPerAddress, window } = this.#limits;
    const reserve = () => this.#repository.reserveRegistration(address, registrationsPerAddress, window);
    return this.#whenDecided(async () => attemptOf(await reserve(), "too many registrations"), signal);
  }

  /** Reserves, spends a code of a user and settles, in one transaction. Rejects as reserveLogin does. */
  tryCode(userId: string, code: CodeToTry, { signal }: Client): Promise<"accepted" | "wrong" | "spent"> {
    return this.#whenDecided(async () => {
      const tried = await this.#repository.tryCode(userId, code, this.#limits);
      if (tried !== null && "retryAfter" in tried) throw tooMany("too many attempts", tried.retryAfter);
      return tried?.outcome ?? null;
    }, signal);
  }

  /** Decides whether the attempt counts, and records the event with it. */
  settle(attempt: Attempt, counts: boolean, event?: SecurityEvent): Promise<void> {
    return this.#repository.settle(attempt, counts, event);
  }

  /** Waits for a verification; if it fails by a fault of the service, the attempt does not count. */
  async guard<Result>(attempt: Attempt, verification: Promise<Result>): Promise<Result> {
    try {
      return await verification;
    } catch (error) {
      await this.settle(attempt, false);
      throw error;
    }
  }

  /** Asks until the answer is not null. */
  async #whenDecided<Found>(look: () => Promise<Found | null>, signal: CancelSignal | undefined): Promise<Found> {
    const found = await look();
    if (found !== null) return found;
    if (this.#waiting >= MAX_WAITING) throw busy();
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
    throw busy();
  }
}

/** Null while others are undecided. Throws RefusedError when the limit is reached. */
function attemptOf(reservation: Reservation, reason: RefusalReason): Attempt | null {
  if (reservation === null) return null;
  if ("ids" in reservation) return reservation.ids;
  throw tooMany(reason, reservation.retryAfter);
}

const tooMany = (reason: RefusalReason, retryAfter: number) => new RefusedError(reason, { retryAfter });

const busy = () => new RefusedError("busy", { retryAfter: 1 });

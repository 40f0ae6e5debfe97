import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../config/config.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import type { Account } from "../../identity/account.ts";
import type { Refusal } from "../../problems/credentials.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import type { AuthLimits } from "./limits.ts";
import type { Signed } from "./passkeys/passkeys.ts";
import type { AuthRepository, SecurityEvent } from "./repository.ts";

export type ThrottleLimits = LoginLimits & CodeLimits & Pick<AuthLimits, "registrationsPerAddress">;

/** What all clients share. */
export type ThrottleState = {
  limits: ThrottleLimits;
  /** The attempts that wait for others. */
  waiting: number;
  /** Called with the name of the setting whose limit has rejected an attempt. */
  readonly onLimit: (setting: string) => void;
};

/** The ids of a reserved attempt. It must be settled. */
export type ReservedAttempt = readonly number[];

/** `retryAfter` is seconds. Null while undecided attempts take up the rest of the limit. */
export type Reservation = { readonly ids: ReservedAttempt } | { readonly retryAfter: number } | null;

/** The account to sign in to: by username or e-mail, or by the id of its user. */
export type Login = { readonly login: string } | { readonly userId: string };

export type LoginLimits = Pick<Config, "loginAttempts"> & Pick<AuthLimits, "loginAttemptsPerAddress" | "loginWindow">;

export type BegunLogin = {
  readonly account: Account | null;
  /** The encrypted secrets of the enabled second factors, in hex. */
  readonly factors: readonly string[];
  /** For an unknown login: the hash of another account, so that its verification takes as long. */
  readonly decoy: string | null;
  readonly attempt: Reservation;
};

export type CodeLimits = Pick<AuthLimits, "loginWindow" | "mfaAttempts">;

/** A code of the app is sent as its step, null if it is wrong; a backup code as its possible hashes. */
export type CodeToTry = {
  readonly secret: string | null;
  readonly step: number | null;
  readonly hashes: readonly Buffer[];
  /** In place of a code: what a passkey has signed; null if it is not valid. */
  readonly passkey?: Signed | null;
  readonly address: string;
};

/**
 * The outcome of a code, and the result of the change that it confirms if it was accepted. `retryAfter` is seconds.
 * - "refused": the passkey is not accepted.
 * - "spent": the challenge was used before.
 * - "missing": a factor is enabled, and no code was sent. "none": no factor is enabled.
 * - "changed": the password has changed since it was verified, or the account is disabled.
 */
export type CodeOutcome<Result = unknown> = TriedCode<Result> | { readonly retryAfter: number };
export type TriedCode<Result = unknown> =
  | AcceptedCode<Result>
  | { readonly outcome: "wrong" | "refused" | "spent" | "missing" | "none" | "changed" };
export type AcceptedCode<Result = unknown> = { readonly outcome: "accepted" } & Result;

/** The client that makes an attempt. */
export type Client = {
  /** The IP address. */
  readonly address: string;
  /** Aborted when the client has disconnected. */
  readonly signal?: CancelSignal | undefined;
};

/** A login with a reserved attempt. */
export type ReservedLogin = {
  /** Null for an unknown login. */
  readonly account: Account | null;
  /** The encrypted secrets of the enabled second factors, in hex. */
  readonly factors: readonly string[];
  /** For an unknown login: the hash of another account, so that its verification takes as long. */
  readonly decoy: string | null;
  readonly attempt: ReservedAttempt;
};

/** Milliseconds between two checks whether other attempts are decided. */
const POLL_INTERVAL = 100;
/** Milliseconds after which an attempt that still waits is rejected. */
const MAX_WAIT = 5000;
/** Maximum number of waiting attempts: more would only load the database with checks. */
const MAX_WAITING = 64;

/**
 * Limits the guessing of passwords and codes: reserve an attempt, verify, settle the attempt. An attempt is reserved before it
 * is verified, so that parallel attempts cannot exceed the limit. If undecided attempts take up the limit, others wait for them.
 */
export class Throttle {
  readonly #repository: AuthRepository;
  readonly #state: ThrottleState;

  constructor(repository: AuthRepository, state: ThrottleState) {
    this.#repository = repository;
    this.#state = state;
  }

  /**
   * Finds the account and reserves an attempt for it in the network of the IP address, so that a user cannot be locked out from
   * another network. Rejects with Problem "too many attempts", and with "busy" if earlier attempts are not decided in time.
   */
  async reserveLogin(who: Login, { address, signal }: Client): Promise<ReservedLogin> {
    return this.#whenDecided(async () => {
      const begun = await this.#repository.beginLogin(who, address, this.#state.limits);
      const attempt = this.#attemptOf(begun.attempt, "LOGIN_ATTEMPTS");
      return attempt && { ...begun, attempt };
    }, signal);
  }

  /** Reserves an attempt at a code, from any network: the client already knows the password. Rejects as reserveLogin does. */
  async reserveCode(userId: string, { signal }: Client): Promise<ReservedAttempt> {
    const { mfaAttempts, loginWindow } = this.#state.limits;
    const reserve = () => this.#repository.reserveCode(userId, mfaAttempts, loginWindow);
    return this.#whenDecided(async () => this.#attemptOf(await reserve(), "wrong_codes"), signal);
  }

  /** Reserves a new account. Rejects with Problem "too many registrations" and "busy". */
  async reserveRegistration({ address, signal }: Client): Promise<ReservedAttempt> {
    const { registrationsPerAddress, loginWindow } = this.#state.limits;
    const reserve = () => this.#repository.reserveRegistration(address, registrationsPerAddress, loginWindow);
    return this.#whenDecided(async () => this.#attemptOf(await reserve(), "address_registrations"), signal);
  }

  /** Reserves the verification of a provider's response, which counts like a login. Rejects as reserveLogin does. */
  async reserveResponse({ address, signal }: Client): Promise<ReservedAttempt> {
    const { loginAttemptsPerAddress, loginWindow } = this.#state.limits;
    const reserve = () => this.#repository.reserveResponse(address, loginAttemptsPerAddress, loginWindow);
    return this.#whenDecided(async () => this.#attemptOf(await reserve(), "address_logins"), signal);
  }

  /**
   * Reserves an attempt, spends a code and settles the attempt, in the transaction of the change that the code confirms.
   * Rejects as reserveLogin does.
   */
  spendCode<Result>(
    change: (limits: CodeLimits) => Promise<CodeOutcome<Result> | null>,
    { signal }: Client,
  ): Promise<TriedCode<Result>> {
    return this.#whenDecided(async () => {
      const tried = await change(this.#state.limits);
      if (tried !== null && "retryAfter" in tried) throw this.#tooMany("wrong_codes", tried.retryAfter);
      return tried;
    }, signal);
  }

  /** Decides whether the attempt counts, and records the event with it. */
  settle(attempt: ReservedAttempt, counts: boolean, event?: SecurityEvent): Promise<void> {
    return this.#repository.settle(attempt, counts, event);
  }

  /** Returns the result of a verification. If it rejects, the service is at fault and the attempt does not count. */
  async guard<Result>(attempt: ReservedAttempt, verification: Promise<Result>): Promise<Result> {
    try {
      return await verification;
    } catch (error) {
      await this.settle(attempt, false);
      throw error;
    }
  }

  /** Null while other attempts are undecided. Throws Problem if the limit is reached. */
  #attemptOf(reservation: Reservation, limit: keyof typeof REASONS): ReservedAttempt | null {
    if (reservation === null) return null;
    if ("ids" in reservation) return reservation.ids;
    throw this.#tooMany(limit, reservation.retryAfter);
  }

  #tooMany(limit: keyof typeof REASONS, retryAfter: number): Problem {
    this.#state.onLimit(limit);
    return problem(REASONS[limit], { retryAfter });
  }

  /** Repeats `look` until it returns a value: null means that other attempts are undecided. */
  async #whenDecided<Found>(look: () => Promise<Found | null>, signal: CancelSignal | undefined): Promise<Found> {
    const found = await look();
    if (found !== null) return found;
    if (this.#state.waiting >= MAX_WAITING) throw busy();
    this.#state.waiting++;
    try {
      for (const until = performance.now() + MAX_WAIT; performance.now() < until; ) {
        await sleep(POLL_INTERVAL);
        if (signal?.aborted) break;
        const found = await look();
        if (found !== null) return found;
      }
    } finally {
      this.#state.waiting--;
    }
    throw busy();
  }
}

/** Of each limit, which a metric counts by its name. */
const REASONS = {
  LOGIN_ATTEMPTS: "too many attempts",
  address_logins: "too many attempts",
  wrong_codes: "too many attempts",
  address_registrations: "too many registrations",
} as const satisfies Record<string, Refusal>;

const busy = () => problem("busy", { retryAfter: 1 });

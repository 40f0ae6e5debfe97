import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../config/config.ts";
import { countedNetworksOf } from "../../db/network.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import type { Account } from "../../identity/account.ts";
import type { Refusal } from "../../problems/credentials.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import { type Call, type Database, seconds } from "./functions.ts";
import type { AuthLimits } from "./limits.ts";
import type { Signed } from "./passkeys/passkeys.ts";
import { wrongCode } from "./problem.ts";
import { noting, type SecurityEvent, settling } from "./repository.ts";

export type ThrottleLimits = Pick<Config, "loginAttempts"> &
  Pick<AuthLimits, "loginWindow" | "loginAttemptsPerAddress" | "mfaAttempts" | "registrationsPerAddress">;

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

/** Limits the guessing of passwords and codes. */
export type Throttled = Database & { readonly throttle: ThrottleState };

// Reserve an attempt, verify, settle the attempt. An attempt is reserved before it is verified, so that parallel attempts cannot exceed the
// limit. If undecided attempts take up the limit, others wait for them.

/**
 * Finds the account and reserves an attempt for it in the network of the IP address, so that a user cannot be locked out from another
 * network. An unknown login takes the same statements as a known one. Rejects with Problem "too many attempts", and with "busy" if earlier
 * attempts are not decided in time.
 */
export const reserveLogin = (auth: Throttled, who: Login, { address, signal }: Client): Promise<ReservedLogin> =>
  whenDecided(auth, signal, async ({ loginAttempts, loginAttemptsPerAddress, loginWindow }) => {
    const { functions } = auth;
    const [login, userId] = "login" in who ? [who.login, null] : [null, who.userId];
    const networks = perNetwork(address, loginAttempts, loginAttemptsPerAddress);
    const values = [login, userId, address, ...networks, functions.now(), seconds(loginWindow)];
    const types = "$1, $2, $3, $4::text[], $5::integer[], $6::integer[], $7::timestamptz, $8::interval";
    type Begun = Omit<ReservedLogin, "attempt"> & { readonly attempt: Reservation };
    const begun = await functions.call<Begun>(`begin_login(${types})`, values);
    const attempt = attemptOf(auth, begun.attempt, "LOGIN_ATTEMPTS");
    return attempt && { ...begun, attempt };
  });

/** Reserves an attempt at a code, from any network: the client already knows the password. Rejects as reserveLogin does. */
export const reserveCode = (auth: Throttled, userId: string, { signal }: Client): Promise<ReservedAttempt> =>
  reserve(auth, signal, "wrong_codes", "reserve_code($1, $2::integer, $3::timestamptz, $4::interval)", (limits) => [
    ...[userId, String(limits.mfaAttempts)],
  ]);

/** Reserves a new account. Rejects with Problem "too many registrations" and "busy". */
export const reserveRegistration = (auth: Throttled, { address, signal }: Client): Promise<ReservedAttempt> =>
  reserve(auth, signal, "address_registrations", `reserve_registration(${IN_NETWORKS})`, (limits) =>
    perNetwork(address, limits.registrationsPerAddress),
  );

/** Reserves the verification of a provider's response, which counts like a login. Rejects as reserveLogin does. */
export const reserveResponse = (auth: Throttled, { address, signal }: Client): Promise<ReservedAttempt> =>
  reserve(auth, signal, "address_logins", `reserve_response(${IN_NETWORKS})`, (limits) =>
    perNetwork(address, limits.loginAttemptsPerAddress),
  );

const IN_NETWORKS = "$1::text[], $2::integer[], $3::timestamptz, $4::interval";

const reserve = (
  auth: Throttled,
  signal: Client["signal"],
  limit: Limit,
  call: string,
  valuesOf: (limits: ThrottleLimits) => Call["values"],
): Promise<ReservedAttempt> =>
  whenDecided(auth, signal, async (limits) => {
    const values = [...valuesOf(limits), auth.functions.now(), seconds(limits.loginWindow)];
    return attemptOf(auth, await auth.functions.call(call, values), limit);
  });

/**
 * Reserves an attempt, spends a code and settles the attempt, in the transaction of the change that the code confirms. The change gets the
 * code as an argument. Rejects as reserveLogin does.
 */
export const spendCode = <Result>(
  auth: Throttled,
  code: CodeToTry | null,
  change: (sent: string | null) => Promise<CodeOutcome<Result> | null>,
  { signal }: Client,
): Promise<TriedCode<Result>> =>
  whenDecided(auth, signal, async (limits) => {
    const tried = await change(code && argumentOf(auth, code, limits));
    if (tried !== null && "retryAfter" in tried) throw tooMany(auth, "wrong_codes", tried.retryAfter);
    return tried;
  });

/** Throws Problem unless the code was accepted and its change made. */
export function requireAccepted<Result>(tried: TriedCode<Result>): AcceptedCode<Result> {
  switch (tried.outcome) {
    case "accepted":
      return tried;
    case "none":
      throw problem("no factor enabled");
    case "missing":
      throw problem("second factor needed");
    case "changed":
      throw problem("revoked token");
    case "refused":
      throw problem("passkey refused", { faults: [{ field: "passkey", message: "not accepted" }] });
    default:
      throw wrongCode();
  }
}

/** The argument `sent` of the functions that spend a code. */
function argumentOf(
  { functions }: Throttled,
  { secret, step, hashes, passkey, address }: CodeToTry,
  { mfaAttempts, loginWindow }: ThrottleLimits,
): string {
  return JSON.stringify({
    ...{ secret, step, passkey, hashes: hashes.map((hash) => hash.toString("hex")) },
    ...{ address: address || null, attempts: mfaAttempts, now: functions.now(), span: seconds(loginWindow) },
  });
}

/** Decides whether the attempt counts, and records the event with it. */
export async function settle(
  { functions }: Database,
  attempt: ReservedAttempt,
  counts: boolean,
  event?: SecurityEvent,
): Promise<void> {
  await functions.run(settling(attempt, counts), ...(event ? [noting(event, functions.now())] : []));
}

/** Returns the result of a verification. If it rejects, the service is at fault and the attempt does not count. */
export async function guard<Result>(
  database: Database,
  attempt: ReservedAttempt,
  verification: Promise<Result>,
): Promise<Result> {
  try {
    return await verification;
  } catch (error) {
    await settle(database, attempt, false);
    throw error;
  }
}

/** Null while other attempts are undecided. Throws Problem if the limit is reached. */
function attemptOf(auth: Throttled, reservation: Reservation, limit: Limit): ReservedAttempt | null {
  if (reservation === null) return null;
  if ("ids" in reservation) return reservation.ids;
  throw tooMany(auth, limit, reservation.retryAfter);
}

function tooMany({ throttle }: Throttled, limit: Limit, retryAfter: number): Problem {
  throttle.onLimit(limit);
  return problem(REASONS[limit], { retryAfter });
}

/** Repeats `look` until it returns a value: null means that other attempts are undecided. */
async function whenDecided<Found>(
  { throttle }: Throttled,
  signal: Client["signal"],
  look: (limits: ThrottleLimits) => Promise<Found | null>,
): Promise<Found> {
  const found = await look(throttle.limits);
  if (found !== null) return found;
  if (throttle.waiting >= MAX_WAITING) throw busy();
  throttle.waiting++;
  try {
    for (const until = performance.now() + MAX_WAIT; performance.now() < until; ) {
      await sleep(POLL_INTERVAL);
      if (signal?.aborted) break;
      const found = await look(throttle.limits);
      if (found !== null) return found;
    }
  } finally {
    throttle.waiting--;
  }
  throw busy();
}

type Limit = keyof typeof REASONS;

/** Of each limit, which a metric counts by its name. */
const REASONS = {
  LOGIN_ATTEMPTS: "too many attempts",
  address_logins: "too many attempts",
  wrong_codes: "too many attempts",
  address_registrations: "too many registrations",
} as const satisfies Record<string, Refusal>;

const busy = () => problem("busy", { retryAfter: 1 });

/** The networks that an attempt from an address counts for, and for each limit its value in each of them; as arrays of Postgres. */
function perNetwork(address: string, ...limits: readonly number[]): string[] {
  const networks = countedNetworksOf(address);
  const names = networks.map(({ name }) => name);
  return [names, ...limits.map((limit) => networks.map(({ factor }) => String(limit * factor)))].map(writeArray);
}

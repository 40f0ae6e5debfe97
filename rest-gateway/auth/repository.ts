import type { Account, Proof } from "../../identity/account.ts";
import type { Call, Database } from "./functions.ts";
import type { ReservedAttempt } from "./throttle.ts";

// Accounts and security events.

/**
 * An attempt whose credentials are right, and the IP address of the client. `factor` is the second factor, unless it was a code.
 */
export type VerifiedAttempt = Proof & {
  readonly attempt: ReservedAttempt;
  readonly address: string;
  readonly factor?: "mfa/webauthn";
  /** The token of an e-mail that was taken, which is valid again if the hook after_sign_in refuses the sign-in. */
  readonly mailToken?: object;
};

/** Events that the gateway records. The database records changes of accounts itself. */
export type EventName =
  | "registered"
  | "registration_repeated"
  | "login_failed"
  | "login_refused"
  | "token_reused"
  | "password_refused"
  | "password_failed"
  | "code_failed"
  | "factor_unreadable"
  | "key_created"
  | "key_revoked"
  | "session_ended"
  | "passkey_failed";

export type SecurityEvent = {
  readonly event: EventName;
  readonly userId: string | null;
  readonly address: string | null;
  readonly detail?: Readonly<Record<string, unknown>>;
};

/** The account that signs in with this username or e-mail. */
export const findAccount = ({ functions }: Database, login: string): Promise<Account | null> =>
  functions.call("find_account($1)", [login]);

export const findAccountOf = ({ functions }: Database, userId: string): Promise<Account | null> =>
  functions.call("account_of($1)", [userId]);

/** Null if the identity is not linked to an account. */
export const findAccountOfIdentity = (
  { functions }: Database,
  issuer: string,
  subject: string,
): Promise<Account | null> => functions.call("account_of_identity($1, $2)", [issuer, subject]);

export async function noteEvent({ functions }: Database, event: SecurityEvent): Promise<void> {
  await functions.run(noting(event, functions.now()));
}

/** Records an event. */
export const noting = ({ event, userId, address, detail = {} }: SecurityEvent, now: string): Call => ({
  call: "note_event($1, $2, $3::inet, $4::jsonb, $5::timestamptz)",
  values: [event, userId, address || null, JSON.stringify(detail), now],
});

/** The event of a sign-in that the hook after_sign_in has refused. */
export const refusedByHook = (userId: string, address: string): SecurityEvent => ({
  ...{ event: "login_refused", userId, address },
  detail: { reason: "hook" },
});

/** Decides a reserved attempt. */
export const settling = (attempt: ReservedAttempt, counts: boolean): Call => ({
  call: "settle_attempt($1::bigint[], $2::boolean)",
  values: [`{${attempt.join()}}`, String(counts)],
});

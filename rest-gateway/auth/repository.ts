import type { Config } from "../../config/config.ts";
import { countedNetworksOf } from "../../db/network.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import type { Account, AccountState, Proof } from "../../identity/account.ts";
import type { Confirmed } from "./confirmation.ts";
import { type AuthFunctions, type Call, seconds } from "./functions.ts";
import type { AuthLimits } from "./limits.ts";
import { normalizedEmail } from "./login-names.ts";
import type { MailData } from "./mail/mails.ts";
import { isSignupOpen, type NewUser } from "./registration.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import type {
  BegunLogin,
  CodeLimits,
  CodeOutcome,
  Login,
  LoginLimits,
  Reservation,
  ReservedAttempt,
} from "./throttle.ts";

type StoredSettings = Pick<Config, "emailConfirm" | "signup" | "usersEmail"> & Pick<AuthLimits, "mailsPerRecipient">;

/** What came of a change of an e-mail; nothing has changed unless it is "changed". "pending": the link of an e-mail changes it. */
export type EmailOutcome = "changed" | "pending" | "taken" | "malformed" | "too often" | "too many" | "ended";

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
  | "login"
  | "logout"
  | "login_failed"
  | "login_throttled"
  | "login_refused"
  | "token_reused"
  | "password_refused"
  | "password_failed"
  | "mfa_enabled"
  | "mfa_disabled"
  | "backup_codes_renewed"
  | "backup_code_used"
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

/** How long housekeeping keeps what has expired. */
export type Retention = {
  /** Seconds for which an attempt counts. */
  readonly attemptSeconds: number;
  /** Seconds for which security events are kept. */
  readonly eventSeconds: number;
  /** Seconds for which the e-mail that an account signed in with before stays reserved for it. */
  readonly emailSeconds: number;
};

/** Accounts, attempts and security events. */
export class AuthRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /**
   * Creates a user with an account, and returns the id of the user. Null if the e-mail is taken and EMAIL_CONFIRM=required: its owner
   * hears of it. Rejects with the errors of the database.
   */
  async register(
    { fields, username, metadata = {}, isByOperator, languages, destination }: NewUser,
    passwordHash: string,
  ): Promise<string | null> {
    const values = [
      JSON.stringify({ ...fields, email: normalizedEmail(fields.email) }),
      username,
      passwordHash,
      JSON.stringify(metadata),
      String(isByOperator),
      JSON.stringify({ ...destination, languages }),
    ];
    const call = "register($1::jsonb, $2, $3, $4::jsonb, $5::boolean, $6::jsonb)";
    const id = await this.#functions.call<string | number | null>(call, values);
    return id === null ? null : String(id);
  }

  /** The account that signs in with this username or e-mail. */
  findAccount(login: string): Promise<Account | null> {
    return this.#functions.call("find_account($1)", [login]);
  }

  accountOf(userId: string): Promise<Account | null> {
    return this.#functions.call("account_of($1)", [userId]);
  }

  /** Null if the identity is not linked to an account. */
  accountOfIdentity(issuer: string, subject: string): Promise<Account | null> {
    return this.#functions.call("account_of_identity($1, $2)", [issuer, subject]);
  }

  /** `revokedFor` is milliseconds: sessions that were revoked longer ago are left out. */
  async accountState(userId: string, revokedFor: number): Promise<AccountState | null> {
    type Found = Pick<Account, "epoch" | "role"> & Record<"revoked" | "kept", readonly string[]>;
    const values = [userId, this.#functions.now(-revokedFor)];
    const found = await this.#functions.call<Found | null>("account_state($1, $2::timestamptz)", values);
    return found && { ...found, revoked: new Set(found.revoked), kept: new Set(found.kept) };
  }

  /**
   * Spends the code, which is required if a factor is enabled, unless the `session`, which stays, has proved it. Returns null while other
   * attempts are undecided.
   */
  changePassword(
    { account: { id, passwordHash }, code }: Confirmed,
    newHash: string,
    session: string | null,
    address: string,
    limits: CodeLimits,
  ): Promise<CodeOutcome<{ readonly account: Account }> | null> {
    const sent = this.#functions.code(code, limits);
    const values = [id, passwordHash, newHash, sent, session, address || null, this.#functions.now()];
    const call = "change_password($1, $2, $3, $4::jsonb, $5::uuid, $6::inet, $7::timestamptz)";
    return this.#functions.change(call, values);
  }

  /** Stores another hash of the same password. Returns false if the password has changed since it was verified. */
  replaceHash({ id, passwordHash }: Account, newHash: string): Promise<boolean> {
    return this.#functions.call("replace_hash($1, $2, $3)", [id, passwordHash, newHash]);
  }

  /** Changes the e-mail of a user, and the e-mail that the user signs in with. `mail` is about the e-mail that confirms it. */
  changeEmail(
    { id, session }: CurrentSignIn,
    given: string,
    address: string,
    mail: MailData = {},
  ): Promise<EmailOutcome> {
    const values = [id, normalizedEmail(given), address || null, session, JSON.stringify(mail)];
    return this.#functions.change("change_email($1, $2, $3::inet, $4::uuid, $5::jsonb)", values);
  }

  /** Finds the account and reserves an attempt for it in the network of the address. An unknown login takes the same statements as a known one. */
  beginLogin(who: Login, address: string, limits: LoginLimits): Promise<BegunLogin> {
    const { loginAttempts, loginAttemptsPerAddress, loginWindow } = limits;
    const [login, userId] = "login" in who ? [who.login, null] : [null, who.userId];
    const values = [
      login,
      userId,
      address,
      ...perNetwork(address, loginAttempts, loginAttemptsPerAddress),
      this.#functions.now(),
      seconds(loginWindow),
    ];
    return this.#functions.call(
      "begin_login($1, $2, $3, $4::text[], $5::integer[], $6::integer[], $7::timestamptz, $8::interval)",
      values,
    );
  }

  reserveCode(userId: string, attempts: number, window: number): Promise<Reservation> {
    const call = "reserve_code($1, $2::integer, $3::timestamptz, $4::interval)";
    return this.#functions.call(call, [userId, String(attempts), this.#functions.now(), seconds(window)]);
  }

  reserveRegistration(address: string, attempts: number, window: number): Promise<Reservation> {
    const values = [...perNetwork(address, attempts), this.#functions.now(), seconds(window)];
    const call = "reserve_registration($1::text[], $2::integer[], $3::timestamptz, $4::interval)";
    return this.#functions.call(call, values);
  }

  /** Limits the users that callers of the interfaces add, in one network and within the window. */
  async limitAddedUsers(registrations: number, window: number): Promise<void> {
    const values = [String(registrations), seconds(window)];
    await this.#functions.call("limit_added_users($1::integer, $2::interval)", values);
  }

  /** Stores settings that functions of the database read, and whether e-mails are sent or kept. */
  async useSettings(settings: StoredSettings, hasMail: boolean): Promise<void> {
    const stored = {
      mail: hasMail ? "on" : "off",
      mails_per_recipient: String(settings.mailsPerRecipient),
      email_confirm: settings.emailConfirm,
      signup: isSignupOpen(settings) ? "open" : settings.signup,
      users_email: settings.usersEmail,
    };
    await this.#functions.call("use_settings($1::jsonb)", [JSON.stringify(stored)]);
  }

  reserveResponse(address: string, attempts: number, window: number): Promise<Reservation> {
    const values = [...perNetwork(address, attempts), this.#functions.now(), seconds(window)];
    return this.#functions.call("reserve_response($1::text[], $2::integer[], $3::timestamptz, $4::interval)", values);
  }

  /**
   * Deletes the attempt of a password that was sent with a request, and calls the hook after_sign_in, whose errors pass through. Then
   * nothing has changed.
   */
  async admit(userId: string, attempt: ReservedAttempt, network: string | null): Promise<void> {
    const signIn = {
      method: "password",
      methods: ["password"],
      aal: 1,
      provider: null,
      session: null,
      kind: "request",
    };
    const values = [userId, JSON.stringify({ ...signIn, device: null, isNewDevice: false, network })];
    await this.#functions.run({ call: "after_sign_in($1, $2::jsonb)", values }, settling(attempt, false));
  }

  /** Counts or deletes the attempt, and records the event in the same transaction. */
  async settle(attempt: ReservedAttempt, counts: boolean, event?: SecurityEvent): Promise<void> {
    await this.#functions.run(settling(attempt, counts), ...(event ? [noting(event, this.#functions.now())] : []));
  }

  async note(event: SecurityEvent): Promise<void> {
    await this.#functions.run(noting(event, this.#functions.now()));
  }

  async purge({ attemptSeconds, eventSeconds, emailSeconds }: Retention): Promise<void> {
    const values = [this.#functions.now(), seconds(attemptSeconds), seconds(eventSeconds), seconds(emailSeconds)];
    await this.#functions.call("purge($1::timestamptz, $2::interval, $3::interval, $4::interval)", values);
  }

  /** Deletes anonymous accounts whose last session ended longer ago than this many seconds. */
  async purgeAnonymous(unused: number): Promise<void> {
    const values = [this.#functions.now(), seconds(unused)];
    await this.#functions.call("purge_anonymous($1::timestamptz, $2::interval)", values);
  }
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

/** The networks that an attempt from an address counts for, and for each limit its value in each of them; as arrays of Postgres. */
function perNetwork(address: string, ...limits: readonly number[]): string[] {
  const networks = countedNetworksOf(address);
  const names = networks.map(({ name }) => name);
  return [names, ...limits.map((limit) => networks.map(({ factor }) => String(limit * factor)))].map(writeArray);
}

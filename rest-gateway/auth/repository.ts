import { anonymous } from "../../db/caller.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";
import type { Transactions } from "../../db/transaction.ts";
import type { Account, AccountState, Clock, FoundKey, Session } from "../../identity/account.ts";
import { emailSkeleton, usernameSkeleton } from "./look-alikes.ts";
import type { NewUser } from "./registration.ts";
import type {
  Attempt,
  BegunLogin,
  CodeLimits,
  CodeOutcome,
  CodeToTry,
  Login,
  LoginLimits,
  Reservation,
} from "./throttle.ts";

export type Rotation =
  | {
      readonly outcome: "rotated";
      readonly userId: string;
      readonly family: string;
      /** When the user signed in, in ISO 8601. */
      readonly startedAt: string;
      readonly account: Account;
    }
  | { readonly outcome: "revoked" | "reused" | "expired"; readonly userId: string }
  | { readonly outcome: "unknown" };

/** What came of a change of an e-mail; nothing has changed unless it is "changed". */
export type EmailOutcome = "changed" | "taken" | "malformed" | "too often";

/** A key as its owner reads it, without the key itself. */
export type KeyDescription = {
  readonly id: string;
  readonly prefix: string;
  readonly name: string;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
};

/** The encrypted secrets, in hex. */
export type Factor = { readonly secret: string | null; readonly pending: string | null };

/** A signed-in user: the token family or the session that signs them in, its hash in hex; both null with Basic credentials. */
export type SignedIn = { readonly id: string; readonly family: string | null; readonly session: string | null };
/** What enables a factor: its encrypted secret, the step of its first code, and the hashes of its backup codes. */
export type NewFactor = { readonly pending: Buffer; readonly step: number; readonly codes: readonly Buffer[] };

/** An attempt whose credentials are right, and the IP address of the client. */
export type Admission = { readonly attempt: Attempt; readonly address: string };
/** `previous` is the hash of the id of the session that the login replaces. */
export type SessionLogin = Admission & { readonly previous: Buffer | null };

/** Events that the gateway records. The database records changes of accounts itself. */
export type EventName =
  | "registered"
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
  | "key_revoked";

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

/** The service itself: "none" keeps the login role of the pool. */
const GATEWAY: Identity = { caller: anonymous("none"), request: NO_REQUEST };

/** Calls the functions of `auth_api`, the only objects of authentication that the login role of the service may use. */
export class AuthRepository {
  readonly #database: Transactions;
  readonly #clock: Clock;

  constructor(database: Transactions, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** Creates a user with an account, and returns the id of the user. Rejects with the errors of the database. */
  async register({ name, email, age, username }: NewUser, passwordHash: string): Promise<string> {
    const looks = [emailSkeleton(email), username, username && usernameSkeleton(username)];
    const values = [name, email, age === null ? null : String(age), ...looks, passwordHash];
    return String(await this.#call("register($1, $2, $3::integer, $4, $5, $6, $7)", values));
  }

  accountOf(userId: string): Promise<Account | null> {
    return this.#call("account_of($1::bigint)", [userId]);
  }

  /** `revokedFor` is milliseconds: token families that were revoked longer ago are left out. */
  async accountState(userId: string, revokedFor: number): Promise<AccountState | null> {
    type Found = Pick<Account, "epoch" | "role"> & Record<"revoked" | "kept", readonly string[]>;
    const values = [userId, time(this.#clock() - revokedFor)];
    const found = await this.#call<Found | null>("account_state($1::bigint, $2::timestamptz)", values);
    return found && { ...found, revoked: new Set(found.revoked), kept: new Set(found.kept) };
  }

  /** Ends all tokens and sessions of the user. */
  async endEpoch(userId: string): Promise<void> {
    await this.#call("end_epoch($1::bigint)", [userId]);
  }

  /** Spends the code, which is required if a factor is enabled. Returns null while other attempts are undecided. */
  changePassword(
    { id, passwordHash }: Account,
    newHash: string,
    code: CodeToTry | null,
    address: string,
    limits: CodeLimits,
  ): Promise<CodeOutcome<{ readonly account: Account }> | null> {
    const values = [id, passwordHash, newHash, this.#sent(code, limits), address || null];
    return this.#call("change_password($1::bigint, $2, $3, $4::jsonb, $5::inet)", values);
  }

  /** Changes the e-mail of a user, and the e-mail that the user signs in with. */
  changeEmail(userId: string, email: string, address: string): Promise<EmailOutcome> {
    const values = [userId, email, emailSkeleton(email), address || null];
    return this.#call("change_email($1::bigint, $2, $3, $4::inet)", values);
  }

  /** Returns the id of the new token family; null if the account has changed since it was found. */
  async startTokens(
    account: Account,
    hash: Buffer,
    { startedAt, expiresAt }: { readonly startedAt: number; readonly expiresAt: number },
    login?: Admission,
  ): Promise<string | null> {
    const values = [account.id, String(account.epoch), bytes(hash), time(startedAt), time(expiresAt)];
    const call = {
      call: "start_tokens($1::bigint, $2::integer, $3::bytea, $4::timestamptz, $5::timestamptz)",
      values,
    };
    const [family] = await this.#run(call, ...(login ? this.#completing(account, login, "token") : []));
    return family as string | null;
  }

  /** A token that was already spent is accepted again for `graceSeconds`. */
  rotateToken(oldHash: Buffer, newHash: Buffer, expiresAt: number, graceSeconds: number): Promise<Rotation> {
    const values = [bytes(oldHash), bytes(newHash), this.#now(), time(expiresAt), seconds(graceSeconds)];
    return this.#call("rotate_token($1::bytea, $2::bytea, $3::timestamptz, $4::timestamptz, $5::interval)", values);
  }

  /** Returns false if the account has changed since it was found. */
  async startSession(
    account: Account,
    idHash: Buffer,
    expiresAt: number,
    login: SessionLogin | null,
  ): Promise<boolean> {
    const values = [account.id, String(account.epoch), bytes(idHash), this.#now(), time(expiresAt)];
    const call = "start_session($1::bigint, $2::integer, $3::bytea, $4::timestamptz, $5::timestamptz)";
    const ended = login?.previous ? [{ call: "end_session($1::bytea)", values: [bytes(login.previous)] }] : [];
    const completed = login ? this.#completing(account, login, "session") : [];
    const [hasBegun] = await this.#run({ call, values }, ...ended, ...completed);
    return hasBegun as boolean;
  }

  /** Postpones the idle timeout. Returns null if the session has ended. */
  touchSession(idHash: Buffer, idleSeconds: number): Promise<Session | null> {
    const call = "touch_session($1::bytea, $2::timestamptz, $3::interval)";
    return this.#call(call, [bytes(idHash), this.#now(), seconds(idleSeconds)]);
  }

  async endSession(idHash: Buffer): Promise<void> {
    await this.#call("end_session($1::bytea)", [bytes(idHash)]);
  }

  /** Returns null if the user already has `maxKeys` valid keys, or has no account. */
  createKey(
    userId: string,
    key: { readonly name: string; readonly prefix: string; readonly hash: Buffer; readonly expiresAt: number | null },
    maxKeys: number,
  ): Promise<KeyDescription | null> {
    const { name, prefix, hash, expiresAt } = key;
    const end = expiresAt === null ? null : time(expiresAt);
    const values = [userId, name, prefix, bytes(hash), this.#now(), end, String(maxKeys)];
    const call = "create_key('user', $1::bigint, $2, $3, $4::bytea, $5::timestamptz, $6::timestamptz, $7::integer)";
    return this.#call(call, values);
  }

  listKeys(userId: string): Promise<readonly KeyDescription[]> {
    return this.#call("list_keys($1::bigint)", [userId]);
  }

  revokeKey(userId: string, id: string): Promise<boolean> {
    return this.#call("revoke_key($1::bigint, $2::uuid)", [userId, id]);
  }

  findKey(hash: Buffer): Promise<FoundKey | null> {
    return this.#call("find_key($1::bytea)", [bytes(hash)]);
  }

  async useKeys(ids: readonly string[]): Promise<void> {
    await this.#call("use_keys($1::uuid[])", [`{${ids.join()}}`]);
  }

  factorOf(userId: string): Promise<Factor | null> {
    return this.#call("factor_of($1::bigint, $2::timestamptz)", [userId, this.#now()]);
  }

  /** Returns false if a factor is enabled. Deletes the attempts at codes. */
  beginFactor(userId: string, pending: Buffer, until: number): Promise<boolean> {
    return this.#call("begin_factor($1::bigint, $2::bytea, $3::timestamptz)", [userId, bytes(pending), time(until)]);
  }

  /**
   * Ends all sign-ins of the user except the given one. Returns false if `pending` has expired or was replaced, or the given
   * sign-in has ended.
   */
  enableFactor({ id, family, session }: SignedIn, factor: NewFactor, address: string): Promise<boolean> {
    const { pending, step, codes } = factor;
    const values = [
      ...[id, family, session && `\\x${session}`, bytes(pending), String(step), byteArray(codes)],
      ...[address || null, this.#now()],
    ];
    const types = ["bigint", "uuid", "bytea", "bytea", "bigint", "bytea[]", "inet", "timestamptz"];
    return this.#call(`enable_factor(${parametersOf(types)})`, values);
  }

  /** Spends the code. Returns null while other attempts are undecided. */
  replaceBackupCodes(
    { id, passwordHash }: Account,
    code: CodeToTry,
    codes: readonly Buffer[],
    limits: CodeLimits,
  ): Promise<CodeOutcome | null> {
    const sent = this.#sent(code, limits);
    const values = [id, passwordHash, sent, byteArray(codes), code.address || null, this.#now()];
    const types = ["bigint", "text", "jsonb", "bytea[]", "inet", "timestamptz"];
    return this.#call(`replace_backup_codes(${parametersOf(types)})`, values);
  }

  /** Spends the code. Returns null while other attempts are undecided. */
  disableFactor({ id, passwordHash }: Account, code: CodeToTry, limits: CodeLimits): Promise<CodeOutcome | null> {
    const values = [id, passwordHash, this.#sent(code, limits), code.address || null, this.#now()];
    return this.#call(`disable_factor(${parametersOf(["bigint", "text", "jsonb", "inet", "timestamptz"])})`, values);
  }

  /** Finds the account and reserves an attempt for it. An unknown login takes the same statements as a known one. */
  beginLogin(who: Login, address: string, limits: LoginLimits): Promise<BegunLogin> {
    const { attempts, attemptsPerAddress, window } = limits;
    const [login, userId] = "login" in who ? [who.login, null] : [null, who.userId];
    const values = [login, userId, address, String(attempts), String(attemptsPerAddress), this.#now(), seconds(window)];
    return this.#call(
      "begin_login($1, $2::bigint, $3, $4::integer, $5::integer, $6::timestamptz, $7::interval)",
      values,
    );
  }

  reserveCode(userId: string, attempts: number, window: number): Promise<Reservation> {
    const call = "reserve_code($1::bigint, $2::integer, $3::timestamptz, $4::interval)";
    return this.#call(call, [userId, String(attempts), this.#now(), seconds(window)]);
  }

  reserveRegistration(address: string, attempts: number, window: number): Promise<Reservation> {
    const values = [address, String(attempts), this.#now(), seconds(window)];
    return this.#call("reserve_registration($1, $2::integer, $3::timestamptz, $4::interval)", values);
  }

  /** Counts or deletes the attempt, and records the event in the same transaction. */
  async settle(attempt: Attempt, counts: boolean, event?: SecurityEvent): Promise<void> {
    await this.#run(settling(attempt, counts), ...(event ? [this.#noting(event)] : []));
  }

  /** Spends a code and its challenge. A wrong code counts as an attempt. Returns null while other attempts are undecided. */
  tryCode(userId: string, code: CodeToTry, challenge: string | null, limits: CodeLimits): Promise<CodeOutcome | null> {
    return this.#call("try_code($1::bigint, $2::jsonb, $3::uuid)", [userId, this.#sent(code, limits), challenge]);
  }

  async note(event: SecurityEvent): Promise<void> {
    await this.#run(this.#noting(event));
  }

  async purge({ attemptSeconds, eventSeconds, emailSeconds }: Retention): Promise<void> {
    const values = [this.#now(), seconds(attemptSeconds), seconds(eventSeconds), seconds(emailSeconds)];
    await this.#call("purge($1::timestamptz, $2::interval, $3::interval, $4::interval)", values);
  }

  #now(): string {
    return time(this.#clock());
  }

  /** The argument `sent` of the functions that spend a code. */
  #sent(code: CodeToTry | null, { codeAttempts, window }: CodeLimits): string | null {
    if (code === null) return null;
    const { secret, step, hashes, address } = code;
    return JSON.stringify({
      secret,
      step,
      hashes: hashes.map((hash) => hash.toString("hex")),
      address: address || null,
      attempts: codeAttempts,
      now: this.#now(),
      span: seconds(window),
    });
  }

  #noting({ event, userId, address, detail = {} }: SecurityEvent): Call {
    const values = [event, userId, address || null, JSON.stringify(detail), this.#now()];
    return { call: "note_event($1, $2::bigint, $3::inet, $4::jsonb, $5::timestamptz)", values };
  }

  /** The calls that complete a login: they delete the attempt and record the login. */
  #completing({ id, epoch }: Account, { attempt, address }: Admission, issued: "token" | "session"): readonly Call[] {
    const values = [id, String(epoch), address || null, issued, this.#now()];
    const call = "note_login($1::bigint, $2::integer, $3::inet, $4, $5::timestamptz)";
    return [settling(attempt, false), { call, values }];
  }

  async #call<T>(call: string, values: Call["values"]): Promise<T> {
    return (await this.#run({ call, values }))[0] as T;
  }

  /** Runs the calls in one transaction and one round trip. */
  async #run(...calls: readonly Call[]): Promise<unknown[]> {
    const statements = calls.map(({ call, values }) => ({ text: `select to_json(auth_api.${call})`, values }));
    const results = await this.#database.run(GATEWAY, statements);
    return results.map(({ rows }) => JSON.parse(rows[0]?.[0]?.toString() ?? "null"));
  }
}

/** `$1::bigint, $2::text`, for a call with these types. */
const parametersOf = (types: readonly string[]) => types.map((type, i) => `$${i + 1}::${type}`).join(", ");

/** A call of a function in `auth_api`. */
type Call = { readonly call: string; readonly values: readonly (string | null)[] };

const settling = (attempt: Attempt, counts: boolean): Call => ({
  call: "settle_attempt($1::bigint[], $2::boolean)",
  values: [`{${attempt.join()}}`, String(counts)],
});

const time = (milliseconds: number) => new Date(milliseconds).toISOString();
const seconds = (count: number) => `${count} seconds`;
const bytes = (buffer: Buffer) => `\\x${buffer.toString("hex")}`;
const byteArray = (buffers: readonly Buffer[]) =>
  `{${buffers.map((buffer) => `"\\\\x${buffer.toString("hex")}"`).join()}}`;

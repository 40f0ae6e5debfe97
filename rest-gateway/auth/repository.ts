import type { Transactions } from "../../db/transaction.ts";
import type { Account, AccountState, Clock, FoundKey, KeyKind, Session } from "../../identity/account.ts";
import { GATEWAY } from "./gateway.ts";

export type Rotation =
  | { readonly outcome: "rotated"; readonly userId: string; readonly family: string; readonly account: Account }
  | { readonly outcome: "revoked" | "reused" | "expired"; readonly userId: string }
  | { readonly outcome: "unknown" };

/** What the owner of a key is told of it. */
export type KeyDescription = {
  readonly id: string;
  readonly prefix: string;
  readonly name: string;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
};

/** Secrets are encrypted, in hex; null where there is none. */
export type Factor = { readonly secret: string | null; readonly pending: string | null; readonly lastStep: number };

export type Reservation = { readonly ids: readonly number[] } | { /** Seconds. */ readonly retryAfter: number };

/** What the gateway notes; other events the database notes itself. */
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

/** Hashes are given as bytes and stored so; the functions are those of `auth_api`. */
export class AuthStore {
  readonly #database: Transactions;
  readonly #clock: Clock;

  constructor(database: Transactions, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** By username or e-mail. */
  findAccount(login: string): Promise<Account | null> {
    return this.#call("find_account($1)", [login]);
  }

  accountOf(userId: string): Promise<Account | null> {
    return this.#call("account_of($1::bigint)", [userId]);
  }

  /** `revokedFor` is milliseconds: of families that were revoked before nothing is told. */
  async accountState(userId: string, revokedFor: number): Promise<AccountState | null> {
    type Found = Pick<Account, "epoch" | "role"> & { readonly revoked: readonly string[] };
    const values = [userId, time(this.#clock() - revokedFor)];
    const found = await this.#call<Found | null>("account_state($1::bigint, $2::timestamptz)", values);
    return found && { ...found, revoked: new Set(found.revoked) };
  }

  /** Ends everything that was issued to the user. */
  async endEpoch(userId: string): Promise<void> {
    await this.#call("end_epoch($1::bigint)", [userId]);
  }

  /** The account as it is then; null when it has another password by now, or is disabled. */
  changePassword({ id, passwordHash }: Account, newHash: string, address: string): Promise<Account | null> {
    return this.#call("change_password($1::bigint, $2, $3, $4::inet)", [id, passwordHash, newHash, address || null]);
  }

  /** The id of their family; null when the account has changed meanwhile: nobody is signed in. */
  startTokens({ id, epoch }: Account, hash: Buffer, expiresAt: number): Promise<string | null> {
    const values = [id, String(epoch), bytes(hash), time(expiresAt)];
    return this.#call("start_tokens($1::bigint, $2::integer, $3::bytea, $4::timestamptz)", values);
  }

  /** A token that was spent before is taken once more within `graceSeconds`. */
  rotateToken(oldHash: Buffer, newHash: Buffer, expiresAt: number, graceSeconds: number): Promise<Rotation> {
    const values = [bytes(oldHash), bytes(newHash), this.#now(), time(expiresAt), `${graceSeconds} seconds`];
    return this.#call("rotate_token($1::bytea, $2::bytea, $3::timestamptz, $4::timestamptz, $5::interval)", values);
  }

  /** False when it was spent before. */
  spendChallenge(id: string): Promise<boolean> {
    return this.#call("spend_challenge($1::uuid, $2::timestamptz)", [id, this.#now()]);
  }

  /** False when the account has changed since it was found. */
  startSession({ id, epoch }: Account, idHash: Buffer, expiresAt: number): Promise<boolean> {
    const values = [id, String(epoch), bytes(idHash), this.#now(), time(expiresAt)];
    return this.#call("start_session($1::bigint, $2::integer, $3::bytea, $4::timestamptz, $5::timestamptz)", values);
  }

  /** Null when there is none any more. */
  touchSession(idHash: Buffer, idleSeconds: number): Promise<Session | null> {
    const values = [bytes(idHash), this.#now(), `${idleSeconds} seconds`];
    return this.#call("touch_session($1::bytea, $2::timestamptz, $3::interval)", values);
  }

  async endSession(idHash: Buffer): Promise<void> {
    await this.#call("end_session($1::bytea)", [bytes(idHash)]);
  }

  /** Null when the user has `maxKeys` already that are good, or no account any more. */
  createKey(
    kind: KeyKind,
    userId: string | null,
    key: { readonly name: string; readonly prefix: string; readonly hash: Buffer; readonly expiresAt: number | null },
    maxKeys: number,
  ): Promise<KeyDescription | null> {
    const { name, prefix, hash, expiresAt } = key;
    const ends = expiresAt === null ? null : time(expiresAt);
    const values = [kind, userId, name, prefix, bytes(hash), this.#now(), ends, String(maxKeys)];
    const call = "create_key($1, $2::bigint, $3, $4, $5::bytea, $6::timestamptz, $7::timestamptz, $8::integer)";
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

  /** False when a factor is enabled. */
  beginFactor(userId: string, pending: Buffer, until: number): Promise<boolean> {
    return this.#call("begin_factor($1::bigint, $2::bytea, $3::timestamptz)", [userId, bytes(pending), time(until)]);
  }

  /** False when `pending` is not pending any more. */
  enableFactor(userId: string, pending: Buffer, step: number, codes: readonly Buffer[]): Promise<boolean> {
    const values = [userId, bytes(pending), String(step), byteArray(codes), this.#now()];
    return this.#call("enable_factor($1::bigint, $2::bytea, $3::bigint, $4::bytea[], $5::timestamptz)", values);
  }

  acceptStep(userId: string, step: number): Promise<boolean> {
    return this.#call("accept_step($1::bigint, $2::bigint)", [userId, String(step)]);
  }

  useBackupCode(userId: string, hash: Buffer): Promise<boolean> {
    const values = [userId, bytes(hash), this.#now()];
    return this.#call("use_backup_code($1::bigint, $2::bytea, $3::timestamptz)", values);
  }

  replaceBackupCodes(userId: string, codes: readonly Buffer[]): Promise<boolean> {
    return this.#call("replace_backup_codes($1::bigint, $2::bytea[])", [userId, byteArray(codes)]);
  }

  removeFactor(userId: string): Promise<boolean> {
    return this.#call("remove_factor($1::bigint)", [userId]);
  }

  /**
   * A place among the attempts of each of the keys, unless as many as the limit of one count within the window. Null while
   * others that are not decided have the last places.
   */
  reserveAttempt(
    limits: readonly (readonly [key: Buffer, limit: number])[],
    windowSeconds: number,
  ): Promise<Reservation | null> {
    const keys = byteArray(limits.map(([key]) => key));
    const values = [keys, `{${limits.map(([, limit]) => limit).join()}}`, this.#now(), `${windowSeconds} seconds`];
    return this.#call("reserve_attempt($1::bytea[], $2::integer[], $3::timestamptz, $4::interval)", values);
  }

  async countAttempt(ids: readonly number[]): Promise<void> {
    await this.#call("count_attempt($1::bigint[])", [`{${ids.join()}}`]);
  }

  async forgiveAttempt(ids: readonly number[]): Promise<void> {
    await this.#call("forgive_attempt($1::bigint[])", [`{${ids.join()}}`]);
  }

  async forgetAttempts(key: Buffer): Promise<void> {
    await this.#call("forget_attempts($1::bytea)", [bytes(key)]);
  }

  async note({ event, userId, address, detail = {} }: SecurityEvent): Promise<void> {
    const values = [event, userId, address || null, JSON.stringify(detail), this.#now()];
    await this.#call("note_event($1, $2::bigint, $3::inet, $4::jsonb, $5::timestamptz)", values);
  }

  async purge(attemptSeconds: number, eventSeconds: number): Promise<void> {
    const values = [this.#now(), `${attemptSeconds} seconds`, `${eventSeconds} seconds`];
    await this.#call("purge($1::timestamptz, $2::interval, $3::interval)", values);
  }

  #now(): string {
    return time(this.#clock());
  }

  async #call<T>(call: string, values: readonly (string | null)[]): Promise<T> {
    const text = `select to_json(auth_api.${call})`;
    const [result] = await this.#database.run(GATEWAY, [{ text, values }]);
    const field = result!.rows[0]?.[0];
    return JSON.parse(field?.toString() ?? "null");
  }
}

const time = (milliseconds: number) => new Date(milliseconds).toISOString();
const bytes = (buffer: Buffer) => `\\x${buffer.toString("hex")}`;
const byteArray = (buffers: readonly Buffer[]) =>
  `{${buffers.map((buffer) => `"\\\\x${buffer.toString("hex")}"`).join()}}`;

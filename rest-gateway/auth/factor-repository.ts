import type { Account } from "../../identity/account.ts";
import { type AuthFunctions, byteArray, bytes, time } from "./functions.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import type { CodeLimits, CodeOutcome, CodeToTry } from "./throttle.ts";

/** A second factor that is enabled, or whose secret is pending: encrypted, in hex. */
export type Factor = {
  readonly id: string;
  /** "" for the factor of `/api/mfa`. */
  readonly name: string;
  readonly secret: string | null;
  readonly pending: string | null;
};

/** What enables a factor: its pending secret, the same encrypted with the current key, the step of its first code, and backup codes by their hashes. */
export type NewFactor = {
  readonly pending: Buffer;
  readonly secret: Buffer;
  readonly step: number;
  readonly codes: readonly Buffer[];
};

/** One of several factors of an account: its name, and how many there may be. */
export type NamedFactor = { readonly name: string; readonly max: number };

export type BegunFactor =
  | { readonly outcome: "begun"; readonly id: string }
  | { readonly outcome: "enabled" | "taken" | "full" };

/** Second factors, their backup codes and the codes that users send. */
export class FactorRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /** Removes an app or a passkey, whatever the session has proved. */
  async remove(
    { userId, session }: { readonly userId: string; readonly session: string },
    id: string,
    address: string,
  ): Promise<void> {
    const values = [userId, session, id, address || null, this.#functions.now()];
    await this.#functions.change("remove_factor($1, $2::uuid, $3::uuid, $4::inet, $5::timestamptz)", values);
  }

  /** Oldest first. */
  list(userId: string): Promise<readonly Factor[]> {
    return this.#functions.call("factors_of($1, $2::timestamptz)", [userId, this.#functions.now()]);
  }

  /**
   * Without `named`, it is the only factor: the outcome is "enabled" if there is one. The first factor deletes the attempts at
   * codes.
   */
  begin(userId: string, pending: Buffer, until: number, named: NamedFactor | null): Promise<BegunFactor> {
    const limit = [named?.name ?? null, named === null ? null : String(named.max)];
    const values = [userId, bytes(pending), time(until), this.#functions.now(), ...limit];
    return this.#functions.call(
      "begin_factor($1, $2::bytea, $3::timestamptz, $4::timestamptz, $5, $6::integer)",
      values,
    );
  }

  /**
   * The first factor ends all sign-ins of the user except the given one. Returns false if `pending` has expired or was replaced, or the given
   * sign-in has ended.
   */
  enable({ id, session }: CurrentSignIn, factor: NewFactor, address: string): Promise<boolean> {
    const { pending, secret, step, codes } = factor;
    const values = [
      ...[id, session, bytes(pending), bytes(secret), String(step), byteArray(codes)],
      ...[address || null, this.#functions.now()],
    ];
    const types = ["uuid", "bytea", "bytea", "bigint", "bytea[]", "inet", "timestamptz"];
    return this.#functions.change(`enable_factor(${parametersOf(types)})`, values);
  }

  /** Spends the code. Returns null while other attempts are undecided. */
  replaceBackupCodes(
    { id, passwordHash }: Account,
    code: CodeToTry,
    codes: readonly Buffer[],
    limits: CodeLimits,
  ): Promise<CodeOutcome | null> {
    const sent = this.#functions.code(code, limits);
    const values = [id, passwordHash, sent, byteArray(codes), code.address || null, this.#functions.now()];
    const types = ["text", "jsonb", "bytea[]", "inet", "timestamptz"];
    return this.#functions.call(`replace_backup_codes(${parametersOf(types)})`, values);
  }

  /** Spends the code, and removes the factor. The outcome is "none" if there is none. Returns null while other attempts are undecided. */
  disable(
    { id: userId, passwordHash }: Account,
    { id, session }: RemovedFactor,
    code: CodeToTry,
    limits: CodeLimits,
  ): Promise<CodeOutcome<Disabled> | null> {
    const sent = this.#functions.code(code, limits);
    const values = [userId, id, session, passwordHash, sent, code.address || null, this.#functions.now()];
    const types = ["uuid", "uuid", "text", "jsonb", "inet", "timestamptz"];
    return this.#functions.change(`disable_factor(${parametersOf(types)})`, values);
  }

  /** Spends a code and its challenge. A wrong code counts as an attempt. Returns null while other attempts are undecided. */
  tryCode(userId: string, code: CodeToTry, challenge: string | null, limits: CodeLimits): Promise<CodeOutcome | null> {
    return this.#functions.call("try_code($1, $2::jsonb, $3::uuid)", [
      userId,
      this.#functions.code(code, limits),
      challenge,
    ]);
  }
}

/**
 * An app or a passkey, by its id, or the app whose code is sent. With the session of the caller, others that may have proved the factor have
 * to prove another one.
 */
export type RemovedFactor = { readonly id: string | null; readonly session: string | null };

/** Whether another factor is still enabled. */
export type Disabled = { readonly hasFactor: boolean };

/** `$1, $2::text`, for a call with the id of a user and values of these types. */
const parametersOf = (types: readonly string[]) => ["$1", ...types.map((type, i) => `$${i + 2}::${type}`)].join(", ");

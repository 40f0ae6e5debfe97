import type { Account } from "../../identity/account.ts";
import { type AuthFunctions, byteArray, bytes, time } from "./functions.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import type { CodeLimits, CodeOutcome, CodeToTry } from "./throttle.ts";

/** The encrypted secrets, in hex. */
export type Factor = { readonly secret: string | null; readonly pending: string | null };

/** What enables a factor: its encrypted secret, the step of its first code, and the hashes of its backup codes. */
export type NewFactor = { readonly pending: Buffer; readonly step: number; readonly codes: readonly Buffer[] };

/** Second factors, their backup codes and the codes that users send. */
export class FactorRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  find(userId: string): Promise<Factor | null> {
    return this.#functions.call("factor_of($1, $2::timestamptz)", [userId, this.#functions.now()]);
  }

  /** Returns false if a factor is enabled. Deletes the attempts at codes. */
  begin(userId: string, pending: Buffer, until: number, name: string | null = null): Promise<boolean> {
    const values = [userId, bytes(pending), time(until), name];
    return this.#functions.call("begin_factor($1, $2::bytea, $3::timestamptz, $4)", values);
  }

  /**
   * Ends all sign-ins of the user except the given one. Returns false if `pending` has expired or was replaced, or the given
   * sign-in has ended.
   */
  enable({ id, session }: CurrentSignIn, factor: NewFactor, address: string): Promise<boolean> {
    const { pending, step, codes } = factor;
    const values = [
      ...[id, session, bytes(pending), String(step), byteArray(codes)],
      ...[address || null, this.#functions.now()],
    ];
    const types = ["uuid", "bytea", "bigint", "bytea[]", "inet", "timestamptz"];
    return this.#functions.call(`enable_factor(${parametersOf(types)})`, values);
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

  /** Spends the code. Returns null while other attempts are undecided. */
  disable({ id, passwordHash }: Account, code: CodeToTry, limits: CodeLimits): Promise<CodeOutcome | null> {
    const values = [id, passwordHash, this.#functions.code(code, limits), code.address || null, this.#functions.now()];
    return this.#functions.call(`disable_factor(${parametersOf(["text", "jsonb", "inet", "timestamptz"])})`, values);
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

/** `$1, $2::text`, for a call with the id of a user and values of these types. */
const parametersOf = (types: readonly string[]) => ["$1", ...types.map((type, i) => `$${i + 2}::${type}`)].join(", ");

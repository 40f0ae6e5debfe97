import { anonymous, type Caller } from "../../db/caller.ts";
import { isTimeout } from "../../db/errors.ts";
import { digitsOf, parseExactly } from "../../db/exact-numbers.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import { type Identity, NO_REQUEST } from "../../db/transaction/identity.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import type { Clock } from "../../identity/account.ts";
import type { Sender } from "../../identity/sender.ts";
import { problem } from "../../problems/problem.ts";
import { tracedRequest } from "../../telemetry/span.ts";

/** A call of a function in `auth_api`, such as `list_keys($1)`. */
export type Call = { readonly call: string; readonly values: readonly (string | null)[] };

/** Whose request it is, if it is no work of the service; and who acts, if it is not the user whose account it is. */
type Actor = { readonly sender?: Sender; readonly operator?: string };

/** The service itself: "none" keeps the login role of the pool. */
const GATEWAY: Pick<Identity, "caller"> = { caller: anonymous("none") };

export type AuthFunctionsOptions = {
  readonly database: Transactions;
  readonly clock: Clock;
  /** Gets each error of the database. */
  onError?(error: unknown): void;
  /** Drops what is cached of a user, before the database reports the change that this process has made. */
  forget?(userId: string): void;
};

/** In a database whose encoding is not UTF8. */
const UNTRANSLATABLE = "22P05";

/** Calls the functions of `auth_api`, the only objects of authentication that the login role of the service may use. */
export class AuthFunctions {
  readonly #options: AuthFunctionsOptions;
  readonly #actor: Actor;

  constructor(options: AuthFunctionsOptions, actor: Actor = {}) {
    this.#options = options;
    this.#actor = actor;
  }

  /** The same functions, whose security events name the operator: `user 3`, `role service_role`. */
  by(operator: string): AuthFunctions {
    return new AuthFunctions(this.#options, { ...this.#actor, operator });
  }

  /** The same functions, for a request. */
  from(sender: Sender): AuthFunctions {
    return new AuthFunctions(this.#options, { ...this.#actor, sender });
  }

  async call<T>(call: string, values: Call["values"]): Promise<T> {
    return (await this.run({ call, values }))[0] as T;
  }

  /** The same for a call that changes an account, or what signs the user in. The first value is the id of the user. */
  async change<T>(call: string, values: Call["values"]): Promise<T> {
    const result = await this.call<T>(call, values);
    this.forget(String(values[0]));
    return result;
  }

  /** After a change of the account of a user. */
  forget(userId: string): void {
    this.#options.forget?.(userId);
  }

  /** Runs the calls in one transaction and one round trip. */
  async run(...calls: readonly Call[]): Promise<unknown[]> {
    const statements = calls.map(({ call, values }) => ({ text: `select to_json(auth_api.${call})`, values }));
    const { sender, operator } = this.#actor;
    const recipient = sender?.recipient();
    const request = {
      ...NO_REQUEST,
      ...tracedRequest(),
      ...(recipient && { recipient }),
      ...(operator && { operator }),
    };
    try {
      const results = await this.#options.database.run({ ...GATEWAY, request }, statements);
      return results.map(({ rows }) => parseExactly(rows[0]?.[0]?.toString() ?? "null"));
    } catch (error) {
      this.#options.onError?.(error);
      // Also of a hook whose other errors are faults of the service.
      if (isTimeout(error)) throw problem("too slow", { cause: error });
      if ((error as DatabaseErrorLike).code === UNTRANSLATABLE)
        throw problem("invalid fields", {
          message: "the database cannot store a character of the request",
          cause: error,
        });
      throw error;
    } finally {
      recipient?.close();
    }
  }

  /** The present time, or the time `later` milliseconds from now, as an argument. */
  now(later = 0): string {
    return time(this.#options.clock() + later);
  }
}

/** What calls the functions. */
export type Database = { readonly functions: AuthFunctions };

/** Who acts, for security events: `user 3`, `role service_role`. */
export const operatorName = ({ role, claims }: Caller): string =>
  role === "service_role" ? "role service_role" : `user ${claims.sub}`;

/** The id of a user as text: it may have more digits than a number of JavaScript. */
export const textOfId = (id: string | number): string => digitsOf(id) ?? String(id);

// Arguments as text.
export const time = (milliseconds: number) => new Date(milliseconds).toISOString();
export const seconds = (count: number) => `${count} seconds`;
export const bytes = (buffer: Buffer) => `\\x${buffer.toString("hex")}`;
export const byteArray = (buffers: readonly Buffer[]) =>
  `{${buffers.map((buffer) => `"\\\\x${buffer.toString("hex")}"`).join()}}`;

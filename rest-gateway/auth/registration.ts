import type { Transactions } from "../../db/transaction.ts";
import { RefusedError } from "../../identity/refused.ts";
import { restRefusal } from "../conventions/problem.ts";
import { GATEWAY } from "./gateway.ts";
import type { PasswordHashing } from "./hashing.ts";
import type { AuthStore } from "./repository.ts";
import type { Throttle } from "./throttle.ts";

/** Who signs up. Without a username the e-mail is the login. */
export type NewUser = {
  readonly name: string;
  readonly email: string;
  readonly age: number | null;
  readonly username: string | null;
};

export type RegistrationOptions = {
  /** The pool whose login may call auth_api. */
  readonly database: Transactions;
  readonly store: AuthStore;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
};

/** Creates users with an account, a limited number for each IP address. */
export class Registration {
  readonly #options: RegistrationOptions;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /**
   * Creates a user and the account in one transaction, and returns the id. The caller has checked the password; the other
   * rules are constraints, whose errors pass through. Rejects with RestError 429 and 503.
   */
  async register(user: NewUser, password: string, address: string): Promise<string> {
    const { store } = this.#options;
    const hash = await this.#hash(password, address);
    const userId = await this.#create(user, hash);
    await store.note({ event: "registered", userId, address });
    return userId;
  }

  async #hash(password: string, address: string): Promise<string> {
    const { hashing, throttle } = this.#options;
    try {
      return await throttle.registration({ address }, async (count) => {
        const hash = await hashing.hash(password);
        count();
        return hash;
      });
    } catch (error) {
      throw error instanceof RefusedError ? restRefusal(error) : error;
    }
  }

  async #create({ name, email, age, username }: NewUser, hash: string): Promise<string> {
    const statement = {
      text: "select auth_api.register($1, $2, $3::integer, $4, $5)::text",
      values: [name, email, age === null ? null : String(age), username, hash],
    };
    const [result] = await this.#options.database.run(GATEWAY, [statement]);
    return result!.rows[0]![0]!.toString();
  }
}

import type { Transactions } from "../../db/transaction.ts";
import { GATEWAY } from "./gateway.ts";
import type { PasswordHashing } from "./hashing.ts";
import type { AuthStore } from "./store.ts";
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

/** Makes users who can sign in, a limited number for each address. */
export class Registration {
  readonly #options: RegistrationOptions;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /**
   * Makes a user and the account to sign in with, both or neither, and gives the id. The rules for the password are the
   * caller's to ask for; those for the rest are the database's, whose errors pass through. Rejects with RefusedError "too
   * many attempts" and "busy".
   */
  async register({ name, email, age, username }: NewUser, password: string, address: string): Promise<string> {
    const { database, store, hashing, throttle } = this.#options;
    const hash = await throttle.registration({ address }, async (count) => {
      const hash = await hashing.hash(password);
      count();
      return hash;
    });
    const statement = {
      text: "select auth_api.register($1, $2, $3::integer, $4, $5)::text",
      values: [name, email, age === null ? null : String(age), username, hash],
    };
    const [result] = await database.run(GATEWAY, [statement]);
    const userId = result!.rows[0]![0]!.toString();
    await store.note({ event: "registered", userId, address });
    return userId;
  }
}

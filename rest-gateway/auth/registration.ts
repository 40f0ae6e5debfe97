import { RefusedError } from "../../identity/refusals.ts";
import { restRefusal } from "../conventions/problem.ts";
import type { PasswordHashing } from "./passwords.ts";
import type { AuthRepository } from "./repository.ts";
import type { Throttle } from "./throttle.ts";

/** A new user. A user without a username signs in with the e-mail. */
export type NewUser = {
  readonly name: string;
  readonly email: string;
  readonly age: number | null;
  readonly username: string | null;
};

export type RegistrationOptions = {
  readonly repository: AuthRepository;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
};

/** Creates users with an account, up to a limit per IP address. */
export class Registration {
  readonly #options: RegistrationOptions;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /**
   * Creates a user and the account in one transaction, and returns the id of the user. The caller has checked the password;
   * the other rules are constraints, whose errors pass through. Rejects with RestError 429 and 503.
   */
  async register(user: NewUser, password: string, address: string): Promise<string> {
    const { repository } = this.#options;
    const hash = await this.#hash(password, address);
    const userId = await repository.register(user, hash);
    await repository.note({ event: "registered", userId, address });
    return userId;
  }

  /** A registration that the database rejects counts too: otherwise a client could test any number of names and e-mails. */
  async #hash(password: string, address: string): Promise<string> {
    const { hashing, throttle } = this.#options;
    try {
      const attempt = await throttle.reserveRegistration({ address });
      const hash = await throttle.guard(attempt, hashing.hash(password));
      await throttle.settle(attempt, true);
      return hash;
    } catch (error) {
      throw error instanceof RefusedError ? restRefusal(error) : error;
    }
  }
}

import type { Config } from "../../config/config.ts";
import { problem } from "../../problems/problem.ts";
import type { Destination } from "./mail/mails.ts";
import type { PasswordHashing } from "./passwords.ts";
import { withMissingGrant } from "./problem.ts";
import type { AuthRepository } from "./repository.ts";
import type { Client, Throttle } from "./throttle.ts";

/** The fields of a new user, and the username. A user without a username signs in with the e-mail. */
export type NewUser = {
  readonly fields: Readonly<Record<string, unknown>> & { readonly email: string };
  readonly username: string | null;
  /** What the user says about themselves, at /auth/v1. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Whether an administrator or the service key adds the user. */
  readonly isByOperator: boolean;
  /** Those of the client, for the e-mail that it gets. */
  readonly languages: readonly string[];
  readonly destination?: Destination;
};

export type RegistrationOptions = {
  readonly repository: AuthRepository;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
  /** Whether only operators add users. */
  readonly isClosed: boolean;
};

/** Whether everyone may create users. */
export const isSignupOpen = ({ signup }: Pick<Config, "signup">): boolean =>
  signup === "open" || signup === "anonymous";

/** Creates users with an account, up to a limit per network. */
export class Registration {
  readonly #options: RegistrationOptions;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /**
   * Creates a user and the account in one transaction, and returns the id of the user, or null as the repository does. The caller has checked the password;
   * the other rules are constraints, whose errors pass through. Rejects with Problem 429 and 503, and with an internal error if
   * a grant is missing.
   */
  register(user: NewUser, password: string, client: Client): Promise<string | null> {
    return this.#options.hashing.inPlace(client, () => this.#register(user, password, client));
  }

  async #register(user: NewUser, password: string, client: Client): Promise<string | null> {
    const { repository, isClosed } = this.#options;
    // The database checks it again; here, before the password is hashed.
    if (isClosed && !user.isByOperator) throw problem("sign-up closed");
    const hash = await this.#hash(password, client);
    const userId = await repository.register(user, hash).catch((error) => {
      throw withMissingGrant(error, `the hook new_user gets ${Object.keys(user.fields).join(", ")} and`);
    });
    const event = userId === null ? "registration_repeated" : "registered";
    await repository.note({ event, userId, address: client.address });
    return userId;
  }

  /** A registration that the database rejects counts too: otherwise a client could test any number of names and e-mails. */
  async #hash(password: string, client: Client): Promise<string> {
    const { hashing, throttle } = this.#options;
    const attempt = await throttle.reserveRegistration(client);
    const hash = await throttle.guard(attempt, hashing.hash(password, client));
    await throttle.settle(attempt, true);
    return hash;
  }
}

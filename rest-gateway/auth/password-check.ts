import type { Account } from "../../identity/account.ts";
import type { PasswordHashing } from "./hashing.ts";
import type { AuthStore, EventName } from "./repository.ts";
import type { Client, Throttle } from "./throttle.ts";

export type PasswordCheckOptions = {
  readonly store: AuthStore;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
};

export type Guess = {
  /** An account, or a name that nobody has. */
  readonly who: Account | string;
  readonly password: string;
};

/** What becomes of a password that is wrong. */
export type Wrong = { readonly event: EventName; error(): Error };

/** The one place where it is asked whether somebody knows the password of an account. */
export class PasswordCheck {
  readonly #options: PasswordCheckOptions;

  constructor(options: PasswordCheckOptions) {
    this.#options = options;
  }

  /**
   * Goes on with `next` when the password is right. A wrong one counts as a failed login, and is noted and refused as `wrong`
   * says; `next` may count too. Rejects with RefusedError "too many attempts" whatever the password is, and "busy".
   */
  check<Result>(
    { who, password }: Guess,
    client: Client,
    wrong: Wrong,
    next: (account: Account, count: () => void) => Promise<Result>,
  ): Promise<Result> {
    const { store, hashing, throttle } = this.#options;
    const account = typeof who === "string" ? null : who;
    return throttle.login(who, client, async (count) => {
      const isRight = await hashing.matches(password, account?.passwordHash ?? null);
      if (isRight && account !== null) return next(account, count);
      count();
      await store.note({ event: wrong.event, userId: account?.id ?? null, address: client.address });
      throw wrong.error();
    });
  }
}

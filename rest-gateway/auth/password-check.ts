import type { Account } from "../../identity/account.ts";
import type { PasswordHashing } from "./passwords.ts";
import type { EventName } from "./repository.ts";
import type { Client, Login, ReservedLogin, Throttle } from "./throttle.ts";

export type PasswordCheckOptions = { readonly hashing: PasswordHashing; readonly throttle: Throttle };

/** The security event and the error for a wrong password. */
export type WrongPassword = { readonly event: EventName; error(): Error };

/** A login whose password is right. The caller must settle its attempt. */
export type VerifiedLogin = ReservedLogin & { readonly account: Account };

/** Verifies the password of an account, for logins and for changes that require the password again. */
export class PasswordCheck {
  readonly #options: PasswordCheckOptions;

  constructor(options: PasswordCheckOptions) {
    this.#options = options;
  }

  /**
   * Reserves an attempt and verifies the password; the caller settles the attempt. A wrong password counts as a failed login
   * and rejects with the error of `wrong`. Rejects with RefusedError "too many attempts" before the password is checked, and
   * with "busy".
   */
  async verify(who: Login, password: string, client: Client, wrong: WrongPassword): Promise<VerifiedLogin> {
    const { hashing, throttle } = this.#options;
    const login = await throttle.reserveLogin(who, client);
    const { account, attempt } = login;
    const isRight = await throttle.guard(attempt, hashing.matches(password, account?.passwordHash ?? null));
    if (isRight && account !== null) return { ...login, account };
    await throttle.settle(attempt, true, {
      event: wrong.event,
      userId: account?.id ?? null,
      address: client.address,
    });
    throw wrong.error();
  }
}

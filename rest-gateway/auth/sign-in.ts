import { RefusedError } from "../principal/refused.ts";
import type { PasswordHashing } from "./hashing.ts";
import type { Account, AuthStore } from "./store.ts";
import type { Throttle } from "./throttle.ts";

export type LoginInput = {
  /** A username or an e-mail. */
  readonly username: string;
  readonly password: string;
  /** Of a second factor, or a backup code; null when none was sent. */
  readonly code: string | null;
};

export type SignInOptions = {
  readonly store: AuthStore;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
  /** Whether the code is right, and not spent; spends it. */
  acceptCode(account: Account, code: string): Promise<boolean>;
};

/** Checks who somebody is, whatever he is given for it: tokens, a session, or nothing but this one answer. */
export class SignIn {
  readonly #options: SignInOptions;

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  /**
   * The account of these credentials. Rejects with RefusedError: "too many attempts" whatever the password is, "wrong
   * password" for both a wrong one and an unknown name, "account disabled" only after the right one, "second factor needed"
   * when a code is missing.
   */
  async account({ username, password, code }: LoginInput, address: string): Promise<Account> {
    const { store, hashing, throttle } = this.#options;
    const attempt = await throttle.attempt(username, address);
    const found = await store.findAccount(username);
    if (!(await hashing.matches(password, found?.passwordHash ?? null)) || found === null) {
      await store.note({ event: "login_failed", userId: found?.id ?? null, address });
      throw new RefusedError("wrong password");
    }
    if (found.isDisabled) {
      await attempt.forgive();
      await store.note({ event: "login_refused", userId: found.id, address, detail: { reason: "disabled" } });
      throw new RefusedError("account disabled");
    }
    if (found.hasFactor && code !== null) await this.#checkCode(found, code, address);
    await attempt.forgive();
    if (found.hasFactor && code === null) throw new RefusedError("second factor needed", { account: found });
    return found;
  }

  /** A wrong code counts as a failed login: the attempt stands. */
  async #checkCode(account: Account, code: string, address: string): Promise<void> {
    const { store, acceptCode } = this.#options;
    if (await acceptCode(account, code)) return;
    await store.note({ event: "code_failed", userId: account.id, address });
    throw new RefusedError("wrong password");
  }
}

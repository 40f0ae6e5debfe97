import { RefusedError } from "../principal/refused.ts";
import type { Tokens } from "../principal/tokens.ts";
import { TokenError } from "../principal/verified-tokens.ts";
import type { PasswordHashing } from "./hashing.ts";
import type { Account, AuthStore } from "./store.ts";
import { type Attempt, type Throttle, unlessBusy } from "./throttle.ts";

export type LoginInput = {
  /** A username or an e-mail. */
  readonly username: string;
  readonly password: string;
  /** Of a second factor, or a backup code; null when none was sent. */
  readonly code: string | null;
};

/** To go on with a login whose code was missing. */
export type ChallengeInput = { readonly challenge: string; readonly code: string };

export type SignInOptions = {
  readonly store: AuthStore;
  readonly hashing: PasswordHashing;
  readonly throttle: Throttle;
  readonly tokens: Pick<Tokens, "verifyChallenge">;
  /** Whether the code is right, and not spent; spends it. */
  acceptCode(account: Account, code: string, address: string): Promise<boolean>;
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
    const { store, hashing } = this.#options;
    const found = await store.findAccount(username);
    const attempt = await this.#attempt(found, username, address);
    const isRight = await unlessBusy(attempt, hashing.matches(password, found?.passwordHash ?? null));
    if (!isRight || found === null) {
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

  /** The account whose password was right a few minutes ago, and has not changed since. Rejects with RefusedError. */
  async accountOfChallenge({ challenge, code }: ChallengeInput, address: string): Promise<Account> {
    const { userId, epoch } = this.#verified(challenge);
    const account = await this.#options.store.accountOf(userId);
    const isSame = account !== null && account.epoch === epoch && account.hasFactor && !account.isDisabled;
    if (!isSame) throw new RefusedError("invalid challenge");
    const attempt = await this.#attempt(account, account.username, address);
    await this.#checkCode(account, code, address);
    await attempt.forgive();
    return account;
  }

  #verified(challenge: string): { readonly userId: string; readonly epoch: number } {
    try {
      return this.#options.tokens.verifyChallenge(challenge);
    } catch (error) {
      throw error instanceof TokenError ? new RefusedError(`${error.reason} challenge`) : error;
    }
  }

  async #attempt(found: Account | null, username: string, address: string): Promise<Attempt> {
    const { store, throttle } = this.#options;
    try {
      return await throttle.attempt(found ?? username, address);
    } catch (error) {
      const isRefused = error instanceof RefusedError;
      if (isRefused) await store.note({ event: "login_throttled", userId: found?.id ?? null, address });
      throw error;
    }
  }

  /** A wrong code counts as a failed login: the attempt stands. */
  async #checkCode(account: Account, code: string, address: string): Promise<void> {
    const { store, acceptCode } = this.#options;
    if (await acceptCode(account, code, address)) return;
    await store.note({ event: "code_failed", userId: account.id, address });
    throw new RefusedError("wrong password");
  }
}

import type { CancelSignal } from "../../db/transaction.ts";
import type { Account } from "../../identity/account.ts";
import { RefusedError } from "../../identity/refused.ts";
import type { Challenge, Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verifier.ts";
import type { PasswordCheck, Wrong } from "./password-check.ts";
import { wrongCodeAtLogin } from "./problem.ts";
import type { AuthStore } from "./repository.ts";
import type { SecondFactor } from "./second-factor.ts";
import type { Client, Throttle } from "./throttle.ts";

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
  readonly passwords: PasswordCheck;
  readonly throttle: Throttle;
  readonly tokens: Pick<Tokens, "verifyChallenge">;
  readonly secondFactor: Pick<SecondFactor, "accepts">;
};

/** The same for a wrong password and an unknown name. */
const WRONG: Wrong = { event: "login_failed", error: () => new RefusedError("wrong password") };

/** Checks who somebody is, whatever he is given for it: tokens, a session, or nothing but this one answer. */
export class SignIn {
  readonly #options: SignInOptions;

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  /**
   * The account of these credentials. Rejects with RefusedError: "too many attempts" whatever the password is, "wrong
   * password" for both a wrong one and an unknown name, "account disabled" only after the right one, "second factor needed"
   * when a code is missing; with RestError for a wrong code after the right password. `signal` tells that the client has gone.
   */
  async account({ username, password, code }: LoginInput, address: string, signal?: CancelSignal): Promise<Account> {
    const { store, passwords } = this.#options;
    const who = (await store.findAccount(username)) ?? username;
    const client = { address, signal };
    return passwords.check({ who, password }, client, WRONG, (account, count) =>
      this.#admit(account, code, client, count),
    );
  }

  /**
   * The account whose password was right a few minutes ago, and has not changed since. The login that completes it spends
   * the challenge. Rejects as `account` does.
   */
  async accountOfChallenge({ challenge, code }: ChallengeInput, client: Client): Promise<Account> {
    const { store, throttle } = this.#options;
    const { id, userId, epoch } = this.#verified(challenge);
    const account = await store.accountOf(userId);
    const isSame = account !== null && account.epoch === epoch && account.hasFactor && !account.isDisabled;
    if (!isSame) throw new RefusedError("invalid challenge");
    await throttle.login(account, client, (count) => this.#withCode(account, code, client, count));
    if (!(await store.spendChallenge(id))) throw new RefusedError("invalid challenge");
    return account;
  }

  #verified(challenge: string): Challenge {
    try {
      return this.#options.tokens.verifyChallenge(challenge);
    } catch (error) {
      throw error instanceof TokenError ? new RefusedError(`${error.reason} challenge`) : error;
    }
  }

  /** Whose password was right. */
  async #admit(account: Account, code: string | null, client: Client, count: () => void): Promise<Account> {
    if (account.isDisabled) {
      const { address } = client;
      const detail = { reason: "disabled" };
      await this.#options.store.note({ event: "login_refused", userId: account.id, address, detail });
      throw new RefusedError("account disabled");
    }
    if (!account.hasFactor) return account;
    if (code === null) throw new RefusedError("second factor needed", { account });
    return this.#withCode(account, code, client, count);
  }

  /** A wrong code counts as a failed login. */
  async #withCode(account: Account, code: string, client: Client, count: () => void): Promise<Account> {
    if (await this.#options.secondFactor.accepts(account, code, client)) return account;
    count();
    throw wrongCodeAtLogin();
  }
}

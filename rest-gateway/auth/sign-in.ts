import type { CancelSignal } from "../../db/wire/connection.ts";
import type { Account, Challenge } from "../../identity/account.ts";
import type { Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { problem } from "../../problems/problem.ts";
import type { ChallengeInput, LoginInput } from "./bodies.ts";
import { networkAround } from "./device.ts";
import type { PasskeySignature } from "./passkeys/credentials.ts";
import type { Passkeys, Signed } from "./passkeys/passkeys.ts";
import type { PasswordCheck, VerifiedLogin, WrongPassword } from "./passwords.ts";
import { refuseByHook, wrongCodeAtLogin } from "./problem.ts";
import { type AuthRepository, refusedByHook, type VerifiedAttempt } from "./repository.ts";
import type { FactorProof, SecondFactor } from "./second-factor.ts";
import type { Client, ReservedAttempt, Throttle } from "./throttle.ts";

export type SignInOptions = {
  /** Whether accounts that must confirm their e-mail may not sign in before. */
  readonly confirms: boolean;
  readonly passwords: PasswordCheck;
  readonly throttle: Throttle;
  readonly repository: Pick<AuthRepository, "admit">;
  readonly tokens: Pick<Tokens, "verifyChallenge">;
  readonly secondFactor: Pick<SecondFactor, "tryCode">;
  /** Null where no part brings them. */
  readonly passkeys: Pick<Passkeys, "verify"> | null;
};

/** An account that may sign in. Issuing its tokens or session settles the attempt. */
export type AdmittedLogin = VerifiedAttempt & { readonly account: Account };

/** Why an account may not sign in although its password is right. */
type Refused = "disabled" | "unconfirmed";

/** Verifies the credentials of a login, for tokens, a session or a single request. */
export class SignIn {
  readonly #options: SignInOptions;
  /** A wrong password and an unknown login get the same error. */
  readonly #wrong: WrongPassword;

  constructor(options: SignInOptions) {
    this.#options = options;
    const reason = options.confirms ? "wrong password or not confirmed" : "wrong password";
    this.#wrong = { event: "login_failed", error: () => problem(reason) };
  }

  /** The account of Basic credentials, for a single request. Rejects as `admit` does. */
  async account(input: LoginInput, address: string, signal?: CancelSignal): Promise<Account> {
    const { account, attempt } = await this.admit(input, { address, signal });
    const { repository, throttle } = this.#options;
    await repository.admit(account.id, attempt, networkAround(address)).catch(async (error) => {
      await throttle.settle(attempt, false, refusedByHook(account.id, address));
      return refuseByHook(error);
    });
    return account;
  }

  /**
   * Verifies the credentials. Rejects with Problem:
   * - "too many attempts", before the password is checked,
   * - "wrong password", also for an unknown login, and "wrong password or not confirmed",
   * - "account disabled", only if the password is right,
   * - "second factor needed", if the code is missing.
   * Rejects with Problem if the password is right and the code is wrong.
   */
  async admit({ username, password, code }: LoginInput, client: Client): Promise<AdmittedLogin> {
    const login = await this.#verify(username, password, client);
    const { account, attempt } = login;
    if (account.hasFactor && code === null) {
      await this.#options.throttle.settle(attempt, false);
      throw problem("second factor needed", { account });
    }
    if (!account.hasFactor) return { account, attempt, address: client.address };
    await this.#tryCode(login, code!, client, null);
    return { account, attempt, address: client.address, ...factorOf(code!) };
  }

  /** The account of a passkey, which needs neither a name nor a password. Rejects as `admit` does, and with "passkey refused at login" and "passkey of an unconfirmed account". */
  async admitPasskey(signature: PasskeySignature, client: Client): Promise<AdmittedLogin> {
    const { throttle, passkeys } = this.#options;
    const signed = (await passkeys?.verify(signature)) ?? null;
    if (signed === null) return this.#refuseUnknown(client);
    const login = await throttle.reserveLogin({ userId: signed.userId }, client);
    const { account, attempt } = login;
    // Deleted meanwhile.
    if (account === null) return this.#refuseUnknown(client, attempt);
    await this.#tryCode(await this.#requireOpen({ ...login, account }, client, true), signed, client, null);
    return { account, attempt, address: client.address, byPasskey: true };
  }

  /** A passkey that is not valid counts for the network, as a failed login does. */
  async #refuseUnknown(client: Client, attempt?: ReservedAttempt): Promise<never> {
    const { throttle } = this.#options;
    const reserved = attempt ?? (await throttle.reserveResponse(client));
    await throttle.settle(reserved, true, { event: "passkey_failed", userId: null, address: client.address });
    throw refusedPasskey();
  }

  /** As `admit`, but without the code of a second factor: the caller issues only what the password alone may open. */
  async admitPassword(username: string, password: string, client: Client): Promise<AdmittedLogin> {
    const { account, attempt } = await this.#verify(username, password, client);
    return { account, attempt, address: client.address };
  }

  async #verify(username: string, password: string, client: Client): Promise<VerifiedLogin> {
    const login = await this.#options.passwords.verify({ login: username }, password, client, this.#wrong);
    return this.#requireOpen(login, client, false);
  }

  async #requireOpen(login: VerifiedLogin, client: Client, byPasskey: boolean): Promise<VerifiedLogin> {
    const { isDisabled, mustConfirm } = login.account;
    if (isDisabled) return this.#refuse(login, client, "disabled", byPasskey);
    return this.#options.confirms && mustConfirm ? this.#refuse(login, client, "unconfirmed", byPasskey) : login;
  }

  /** Completes a login whose code was missing, and spends the challenge. Rejects as `admit` does, and with "invalid challenge". */
  async admitChallenge({ challenge, code }: ChallengeInput, client: Client): Promise<AdmittedLogin> {
    const { throttle } = this.#options;
    const { id, userId, epoch, proof } = this.#verified(challenge);
    const login = await throttle.reserveLogin({ userId }, client);
    const { account, attempt } = login;
    if (account === null || account.epoch !== epoch || !account.hasFactor || account.isDisabled) {
      await throttle.settle(attempt, false);
      throw problem("invalid challenge");
    }
    await this.#tryCode({ ...login, account }, code, client, id);
    return { ...proof, account, attempt, address: client.address, ...factorOf(code) };
  }

  /** The user of the challenge of a login. Throws Problem. */
  userOfChallenge(challenge: string): string {
    return this.#verified(challenge).userId;
  }

  #verified(challenge: string): Challenge {
    try {
      return this.#options.tokens.verifyChallenge(challenge);
    } catch (error) {
      throw error instanceof TokenError ? problem(`${error.reason} challenge`) : error;
    }
  }

  async #refuse(
    { account, attempt }: VerifiedLogin,
    { address }: Client,
    reason: Refused,
    byPasskey: boolean,
  ): Promise<never> {
    // A person who has tried to register an address must not learn from the password whether it had an account.
    const isLikeWrong = reason === "unconfirmed" && !byPasskey;
    const event = { event: "login_refused", userId: account.id, address, detail: { reason } } as const;
    await this.#options.throttle.settle(attempt, isLikeWrong, event);
    throw isLikeWrong ? this.#wrong.error() : problem(REFUSED[reason]);
  }

  /** A wrong code counts as a failed login. `challenge` is the id of the challenge that the code completes. */
  async #tryCode(
    login: VerifiedLogin,
    code: FactorProof | Signed,
    client: Client,
    challenge: string | null,
  ): Promise<void> {
    const { throttle, secondFactor } = this.#options;
    const { account, factors, attempt } = login;
    const trial = secondFactor.tryCode(account, { factors, code }, challenge, client);
    const outcome = await throttle.guard(attempt, trial);
    if (outcome === "accepted") return;
    await throttle.settle(attempt, outcome !== "spent");
    if (outcome === "refused") throw refusedPasskey();
    throw outcome === "wrong" ? wrongCodeAtLogin() : problem("invalid challenge");
  }
}

const factorOf = (code: FactorProof): Pick<VerifiedAttempt, "factor"> =>
  typeof code === "string" ? {} : { factor: "mfa/webauthn" };

const REFUSED = { disabled: "account disabled", unconfirmed: "passkey of an unconfirmed account" } as const;

const refusedPasskey = () =>
  problem("passkey refused at login", { faults: [{ field: "passkey", message: "not accepted" }] });

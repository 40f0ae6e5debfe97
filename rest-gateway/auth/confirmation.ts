import type { Account } from "../../identity/account.ts";
import { hasRecentSignIn } from "../../identity/recent-sign-in.ts";
import { RefusedError } from "../../identity/refused.ts";
import type { Auth } from "./auth.ts";
import type { WrongPassword } from "./password-check.ts";
import { noFactorEnabled, passwordRequired, wrongCode, wrongPassword } from "./problem.ts";
import type { Owner } from "./route.ts";
import type { AcceptedCode, Client, CodeToTry, TriedCode } from "./throttle.ts";

/** What a user sends again to confirm a change of the account. */
export type Confirmation = {
  readonly password?: string | null | undefined;
  /** Of the authenticator app, or a backup code; required if a factor is enabled. */
  readonly code?: string | null | undefined;
};

/** An account whose password is right. `code` is the code that was sent, which is not spent yet. */
export type Confirmed = { readonly account: Account; readonly code: CodeToTry | null };

/**
 * For changes that would outlast a stolen token or lock its owner out: rejects unless the sign-in is recent, or the password,
 * and the code of the second factor, are sent again. Rejects with RestError PASSWORD_REQUIRED, "wrong password" and "wrong
 * code", and with RefusedError "second factor needed", "too many attempts" and "busy".
 */
export async function requireRecentSignIn(
  auth: Auth,
  { id, caller }: Owner,
  { password, code = null }: Confirmation,
  client: Client,
): Promise<void> {
  if (isRecent(auth, { id, caller })) return;
  if (typeof password !== "string") throw passwordRequired(auth.settings.recentSignIn);
  const confirmed = await confirm(auth, id, { password, code }, client);
  if (confirmed.code === null) return;
  const { factors, throttle } = auth;
  const spend = confirmed.code;
  requireAccepted(await throttle.spendCode((limits) => factors.tryCode(id, spend, null, limits), client));
}

/** Whether the caller need not send the password again. */
export const isRecent = ({ clock, settings }: Auth, { caller }: Owner): boolean =>
  hasRecentSignIn(caller, clock(), settings.recentSignIn);

/**
 * Verifies the password and reads the code, which the change then spends in its transaction. A wrong password counts as a failed
 * login. Rejects with the error of `wrong`, and with RefusedError "second factor needed", "too many attempts" and "busy".
 */
export async function confirm(
  { passwords, throttle, secondFactor }: Auth,
  userId: string,
  { password, code = null }: Confirmation & { readonly password: string },
  client: Client,
  wrong = WRONG,
): Promise<Confirmed> {
  const { account, factor, attempt } = await passwords.verify({ userId }, password, client, wrong);
  await throttle.settle(attempt, false);
  if (!account.hasFactor) return { account, code: null };
  if (code === null) throw new RefusedError("second factor needed");
  return { account, code: await secondFactor.read(account, { factor, code }, client.address) };
}

const WRONG: WrongPassword = { event: "password_failed", error: wrongPassword };

/** Throws RestError, or RefusedError, unless the code was accepted and its change made. */
export function requireAccepted<Result>(tried: TriedCode<Result>): asserts tried is AcceptedCode<Result> {
  switch (tried.outcome) {
    case "accepted":
      return;
    case "none":
      throw noFactorEnabled();
    case "missing":
      throw new RefusedError("second factor needed");
    case "changed":
      throw new RefusedError("revoked token");
    default:
      throw wrongCode();
  }
}

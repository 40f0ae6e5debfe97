import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import type { EnrolmentBody } from "./bodies.ts";
import { listFactors } from "./factors.ts";
import type { Database } from "./functions.ts";
import { verifyPassword, type WrongPassword } from "./passwords.ts";
import { missingPassword, passwordRequired } from "./problem.ts";
import { findAccountOf } from "./repository.ts";
import type { Owner } from "./route.ts";
import { type FactorProof, readCode, trySentCode } from "./second-factor.ts";
import { type Client, type CodeToTry, requireAccepted, settle } from "./throttle.ts";

/** What a user sends again to confirm a change of the account. */
export type Confirmation = z.infer<typeof EnrolmentBody>;

/** The proof of the second factor; null if none was sent. */
export const proofIn = ({ code = null, passkey }: Pick<Confirmation, "code" | "passkey">): FactorProof | null =>
  passkey ?? code;

/** An account whose password is right. `code` is the code that was sent, which is not spent yet. */
export type Confirmed = { readonly account: Account; readonly code: CodeToTry | null };

/**
 * For changes that would outlast a stolen token or lock its owner out: rejects unless the sign-in is recent, or the password,
 * and the code of the second factor, are sent again. Rejects with Problem PASSWORD_REQUIRED, "wrong password" and "wrong
 * code", and with Problem "second factor needed", "too many attempts" and "busy".
 */
export async function requireRecentSignIn(
  auth: Auth,
  owner: Owner,
  confirmation: Confirmation,
  client: Client,
): Promise<void> {
  if (isRecent(auth, owner)) return;
  if (typeof confirmation.password !== "string") throw passwordRequired(auth.settings.recentSignIn);
  const confirmed = await confirm(auth, owner, confirmation, client);
  if (confirmed.code === null) return;
  requireAccepted(await trySentCode(auth, owner.id, confirmed.code, null, client));
}

/** Throws Problem for an anonymous user: nothing would let them in again after a second factor, and a key ends with the account. */
export function refuseAnonymous({ caller }: Owner): void {
  if (caller.claims.is_anonymous !== true) return;
  throw problem("anonymous user", {
    message: "an anonymous user needs an e-mail first: POST /auth/email, then POST /auth/refresh",
  });
}

/**
 * Whether the caller need not send the password again: who has proved it, and the second factor if one is enabled, within the time of
 * `recentSignIn`. A refreshed token is as old as its sign-in, and a key is never recent. `auth.has_recent_sign_in()` is the same rule for
 * policies and triggers.
 */
export function isRecent({ clock, settings }: Auth, { caller }: Owner): boolean {
  const { auth_time: signedInAt } = caller.claims;
  return typeof signedInAt === "number" && signedInAt * 1000 > clock() - settings.recentSignIn * 1000;
}

/**
 * Verifies the password and reads the code, which the change then spends in its transaction. A wrong password counts as a failed
 * login. An account without a password needs a recent sign-in instead. Rejects with Problem: the error of `wrong`, MISSING_FIELD
 * without a password, and PASSWORD_REQUIRED; and with Problem "second factor needed", "too many attempts" and "busy".
 */
export async function confirm(
  auth: Auth,
  owner: Owner,
  { password, ...sent }: Confirmation,
  client: Client,
  wrong = WRONG,
): Promise<Confirmed> {
  const known = await requireAccount(auth, owner);
  requirePassword(known, password, wrong.field);
  const confirmed =
    known.passwordHash === null ? bySignIn(auth, owner) : byPassword(auth, owner, password!, client, wrong);
  const { account, factors } = await confirmed;
  if (!account.hasFactor) return { account, code: null };
  const code = proofIn(sent);
  if (code === null) throw problem("second factor needed");
  return { account, code: await readCode(auth, account, { factors, code }, client.address) };
}

/** Throws Problem if the account has a password and none is sent. */
export function requirePassword(
  { passwordHash }: Account,
  password: Confirmation["password"],
  field = WRONG.field,
): void {
  if (passwordHash !== null && typeof password !== "string") throw missingPassword(field);
}

/** `factors` are the encrypted secrets of the enabled second factors, in hex. */
type WithFactors = { readonly account: Account; readonly factors: readonly string[] };

async function byPassword(
  auth: Auth,
  { id: userId }: Owner,
  password: string,
  client: Client,
  wrong: WrongPassword,
): Promise<WithFactors> {
  const login = await verifyPassword(auth, { userId }, password, client, wrong);
  await settle(auth, login.attempt, false);
  return login;
}

async function bySignIn(auth: Auth, owner: Owner): Promise<WithFactors> {
  if (!isRecent(auth, owner)) throw problem("recent sign-in required", { seconds: auth.settings.recentSignIn });
  const [account, factors] = await Promise.all([requireAccount(auth, owner), listFactors(auth, owner.id)]);
  return { account, factors: factors.flatMap(({ secret }) => secret ?? []) };
}

/** Rejects with Problem if the account has been deleted. */
export async function requireAccount(database: Database, { id }: Pick<Owner, "id">): Promise<Account> {
  const account = await findAccountOf(database, id);
  if (account === null) throw problem("revoked token");
  return account;
}

/** The event and the error for a wrong password, and the field of the password. */
export type Wrong = WrongPassword & { readonly field: string };

const WRONG: Wrong = { event: "password_failed", error: () => problem("password not confirmed"), field: "password" };

import type { z } from "zod";
import { identityOf } from "../../gate/pipeline/exchange.ts";
import type { Account } from "../../identity/account.ts";
import { Cookie } from "../../identity/cookies.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { isRefusal, problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { textOfId } from "../../rest-gateway/auth/functions.ts";
import { verifyPassword, type WrongPassword } from "../../rest-gateway/auth/passwords.ts";
import { badFields } from "../../rest-gateway/auth/problem.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { findSession } from "../../rest-gateway/auth/sessions.ts";
import { settle } from "../../rest-gateway/auth/throttle.ts";
import type { ConfirmationBody } from "./bodies.ts";
import { findLink, type Link, takeToken } from "./repository.ts";
import { linkOf } from "./requests.ts";
import { mailOf } from "./service.ts";

// A link proves whose the mailbox is, but not whose the account: another person may have registered it, or have requested the e-mail for it.

const REGISTERED = new Cookie("__Host-registered", "Path=/; HttpOnly; Secure; SameSite=Lax");

type Visited = Pick<Call, "request"> & { readonly auth: Auth };

/**
 * The browser that has registered an account confirms its e-mail without the password. With EMAIL_CONFIRM=required, because otherwise
 * it is signed in. `userId` is null for an e-mail that is taken, whose response is the same.
 */
export function markBrowser({ auth, request, response }: Visited & Pick<Call, "response">, userId: string | null) {
  // A page of another site could make a visitor register with a password that it knows.
  if (!auth.sameOrigin.accepts(request.headers)) return;
  REGISTERED.set(response, mailOf(auth).markOf(userId ?? newSecret()), auth.settings.mailLinkTtl);
}

/** Whether the client has registered the account, or is signed in to it. */
export async function isOwnAccount({ auth, request }: Visited, { id }: Account): Promise<boolean> {
  if (REGISTERED.in(request) === mailOf(auth).markOf(id)) return true;
  const { credentials } = identityOf(request);
  if ((await findSession(auth, credentials))?.account.id === id) return true;
  const { bearer } = credentials;
  if (bearer === null) return false;
  try {
    const caller = await auth.callers.callerOf({ bearer }, request);
    return caller?.credential?.kind === "token" && caller.external === undefined && caller.claims.sub === id;
  } catch (error) {
    if (isRefusal(error) && error.status < 500) return false;
    throw error;
  }
}

/**
 * The epoch of the account, if the client proves with the password, or as isOwnAccount does, that it is theirs; otherwise null. A wrong
 * password counts as a failed login. Rejects with the error of `wrong`, and with Problem "too many attempts" and "busy".
 */
async function provedEpoch(
  call: Visited & Pick<Call, "client">,
  account: Account,
  password: string | null | undefined,
  wrong: WrongPassword,
): Promise<number | null> {
  if (await isOwnAccount(call, account)) return account.epoch;
  if (password == null) return null;
  const login = await verifyPassword(call.auth, { userId: account.id }, password, call.client, wrong);
  await settle(call.auth, login.attempt, false);
  return login.account.epoch;
}

/**
 * The epoch of the account for which a confirmation keeps the password; null if it ends. The released client sends no proof. The password
 * of a registration stays, as on the wire of Supabase, if no one could use the account before. An application that sends `password` asks
 * for the proof of `POST /auth/confirm`. A change of the e-mail needs it.
 */
export async function epochFor(
  call: Visited & Pick<Call, "client">,
  tokenHash: Buffer,
  password: string | null | undefined,
): Promise<number | null> {
  const found = await findLink(call.auth, tokenHash);
  if (!found?.needsProof) return null;
  const account = found.account!;
  // With EMAIL_CONFIRM=required.
  if (account.mustConfirm && account.email === found.email && password === undefined) return account.epoch;
  const error = () => problem("wrong password");
  const epoch = await provedEpoch(call, account, password, { ...WRONG, error });
  if (epoch === null && !found.claims) throw problem("confirmation not proved");
  return epoch;
}

const WRONG: WrongPassword = {
  event: "password_failed",
  error: () => badFields([{ field: "password", message: "password is not the one of the account" }]),
};

/** `POST /auth/confirm`: confirms the e-mail with the token of an e-mail. It does not sign in. */
export async function confirmEmail(call: Call<"none", z.infer<typeof ConfirmationBody>>) {
  const { auth, client, body } = call;
  const link = await linkOf(auth, body.token, "confirm");
  if (body.decline !== true) {
    await confirmLink(call, link, body);
    return { message: "the e-mail is confirmed" };
  }
  await takeToken(auth, "decline_confirmation", hashOf(body.token), [], client.address);
  return { message: "the request is ended: no account gets your address by it" };
}

/** Returns the id of the user whose e-mail the link has confirmed. Rejects with Problem, also without a proof. */
export async function confirmLink(
  call: Visited & Pick<Call, "client">,
  link: Link,
  { token, password, newPassword = null }: z.infer<typeof ConfirmationBody>,
): Promise<string> {
  const { auth, client } = call;
  const account = link.needsProof ? link.account! : null;
  if (newPassword !== null) requireNew(auth, newPassword, link);
  const epoch = account && newPassword === null ? await provedEpoch(call, account, password, WRONG) : null;
  if (account !== null && epoch === null && newPassword === null) throw proofNeeded(account, link);
  const hash = newPassword === null ? null : await auth.hashing.hashFor(client, newPassword);
  // It stays valid if a proof is missing.
  const confirmed = await takeToken<Confirmed>(auth, "confirm_email", hashOf(token), [epoch, hash], client.address);
  if (confirmed.outcome === "unproved") throw newPassword === null ? proofNeeded(account!, link) : onlyPassword();
  const user = textOfId(confirmed.user);
  auth.functions.forget(user);
  return user;
}

type Confirmed = { readonly outcome: "confirmed"; readonly user: string | number } | { readonly outcome: "unproved" };

/** Throws Problem. */
function requireNew({ passwordRules }: Auth, newPassword: string, link: Link): void {
  const faults = passwordRules.faults(newPassword, "newPassword");
  if (!link.needsProof) faults.push("newPassword is only for the first confirmation of an account");
  else if (!takesNewPassword(link)) throw onlyPassword();
  if (faults.length > 0) throw badFields(faults.map((message) => ({ field: "newPassword", message })));
}

/** Whether a new password confirms without a proof. */
export const takesNewPassword = ({ claims, keepsFactor }: Link): boolean => claims && keepsFactor === false;

function proofNeeded({ passwordHash }: Account, link: Link) {
  const takesNew = takesNewPassword(link);
  if (takesNew && passwordHash === null)
    return badFields([{ field: "newPassword", message: "newPassword is required unless you are signed in" }], true);
  const wanted = takesNew ? "that of the account, or choose a new one" : "that of the account";
  const message =
    passwordHash === null
      ? "the account has no password: sign in to it, and use the link again"
      : `password is required unless you are signed in: ${wanted}`;
  return badFields([{ field: "password", message }], true);
}

const onlyPassword = () =>
  badFields([
    {
      field: "newPassword",
      message:
        "newPassword is not possible for an account that changes its e-mail, has just done so, or has a second factor",
    },
  ]);

import type { Router } from "express";
import type { z } from "zod";
import { problem } from "../../db/problems/problem.ts";
import type { Account } from "../../identity/account.ts";
import type { Auth } from "./auth.ts";
import { EmailBody, PasswordBody, parse, readBody } from "./bodies.ts";
import { confirm, requireAccepted, requireRecentSignIn, type Wrong } from "./confirmation.ts";
import { passwordFaults } from "./passwords.ts";
import { badFields, emailRefused, refuseRaised } from "./problem.ts";
import { clientOf, type Owner, ownerOf, route, routes } from "./route.ts";
import { sessionCookie } from "./sessions.ts";
import type { Client, CodeLimits } from "./throttle.ts";
import { startTokens } from "./tokens.ts";

/** `/auth/email`: changes the e-mail that the user signs in with, and the e-mail of the user. */
export function emailRouter(auth: Auth): Router {
  const { repository, addressOf, limits, forget } = auth;
  const change = route(async (request, response) => {
    const owner = await ownerOf(request);
    const { email, ...confirmation } = parse(EmailBody, await readBody(request, limits));
    await requireRecentSignIn(auth, owner, confirmation, clientOf(auth, request, response));
    const outcome = await repository.changeEmail(owner.id, email, addressOf(request)).catch(refuseRaised);
    if (outcome !== "changed") throw emailRefused(outcome);
    forget(owner.id);
    response.json({ email, message: "you sign in with the new e-mail from now on" });
  });
  return routes({ "/auth/email": { POST: change } });
}

/** `/auth/password`: a new password ends all tokens and sessions of the user, and the caller gets a new one. */
export function passwordRouter(auth: Auth): Router {
  const change = route(async (request, response) => {
    const owner = await ownerOf(request);
    const passwords = parse(PasswordBody, await readBody(request, auth.limits));
    const account = await changePassword(auth, owner, passwords, clientOf(auth, request, response));
    const by = owner.caller.credential?.kind;
    if (by === "token") return void response.json(await startTokens(auth, account));
    if (by === "session") response.set("Set-Cookie", sessionCookie(await auth.sessions.begin(account)));
    response.json({ message: "the password is changed" });
  });
  return routes({ "/auth/password": { POST: change } });
}

type Passwords = z.infer<typeof PasswordBody>;

/** Returns the changed account. A wrong old password counts as a failed login. */
async function changePassword(
  auth: Auth,
  owner: Owner,
  { oldPassword: password, newPassword, code }: Passwords,
  client: Client,
): Promise<Account> {
  const { repository, hashing, throttle } = auth;
  refuseWeak(newPassword, password);
  const confirmed = await confirm(auth, owner, { password, code }, client, WRONG);
  const hash = await hashing.hash(newPassword);
  const change = (limits: CodeLimits) =>
    repository.changePassword(confirmed.account, hash, confirmed.code, client.address, limits);
  const changed = await throttle.spendCode(change, client);
  requireAccepted(changed);
  auth.forget(owner.id);
  return changed.account;
}

const WRONG: Wrong = {
  event: "password_refused",
  error: () => problem("wrong old password"),
  field: "oldPassword",
};

function refuseWeak(newPassword: string, oldPassword: string | null | undefined): void {
  const messages = passwordFaults(newPassword, "newPassword");
  if (newPassword === oldPassword) messages.push("newPassword must differ from oldPassword");
  if (messages.length > 0) throw badFields(messages.map((message) => ({ field: "newPassword", message })));
}

import type { Router } from "express";
import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import { RefusedError } from "../../identity/refused.ts";
import type { Auth } from "./auth.ts";
import { PasswordBody, parse, readBody } from "./bodies.ts";
import { confirm, requireAccepted } from "./confirmation.ts";
import type { WrongPassword } from "./password-check.ts";
import { passwordFaults } from "./passwords.ts";
import { badFields } from "./problem.ts";
import { clientOf, ownerOf, route, routes } from "./route.ts";
import { sessionCookie } from "./sessions.ts";
import type { Client, CodeLimits } from "./throttle.ts";
import { startTokens } from "./tokens.ts";

/** `/auth/password`: a new password ends all tokens and sessions of the user, and the caller gets a new one. */
export function passwordRouter(auth: Auth): Router {
  const change = route(async (request, response) => {
    const { id, caller } = await ownerOf(request);
    const passwords = parse(PasswordBody, await readBody(request, auth.limits));
    const account = await changePassword(auth, id, passwords, clientOf(auth, request, response));
    const by = caller.credential?.kind;
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
  userId: string,
  { oldPassword: password, newPassword, code }: Passwords,
  client: Client,
): Promise<Account> {
  const { repository, hashing, throttle } = auth;
  refuseWeak(newPassword, password);
  if ((await repository.accountOf(userId)) === null) throw new RefusedError("revoked token");
  const confirmed = await confirm(auth, userId, { password, code }, client, WRONG);
  const hash = await hashing.hash(newPassword);
  const change = (limits: CodeLimits) =>
    repository.changePassword(confirmed.account, hash, confirmed.code, client.address, limits);
  const changed = await throttle.spendCode(change, client);
  requireAccepted(changed);
  auth.forget(userId);
  return changed.account;
}

const WRONG: WrongPassword = { event: "password_refused", error: () => new RefusedError("wrong old password") };

function refuseWeak(newPassword: string, oldPassword: string): void {
  const messages = passwordFaults(newPassword, "newPassword");
  if (newPassword === oldPassword) messages.push("newPassword must differ from oldPassword");
  if (messages.length > 0) throw badFields(messages.map((message) => ({ field: "newPassword", message })));
}

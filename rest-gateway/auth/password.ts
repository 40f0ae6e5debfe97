import type { Router } from "express";
import type { Account } from "../../identity/account.ts";
import { RefusedError } from "../../identity/refused.ts";
import type { Auth } from "./auth.ts";
import { PasswordBody, parse, readBody } from "./bodies.ts";
import type { WrongPassword } from "./password-check.ts";
import { passwordFaults } from "./passwords.ts";
import { badFields } from "./problem.ts";
import { clientOf, ownerOf, route, routes } from "./route.ts";
import { sessionCookie } from "./sessions.ts";
import type { Client } from "./throttle.ts";
import { startTokens } from "./tokens.ts";

/** `/auth/password`: a new password ends all tokens and sessions of the user, and the caller gets a new one. */
export function passwordRouter(auth: Auth): Router {
  const change = route(async (request, response) => {
    const { id, by } = await ownerOf(request);
    const passwords = parse(PasswordBody, await readBody(request, auth.limits));
    const account = await changePassword(auth, id, passwords, clientOf(auth, request, response));
    if (by === "token") return void response.json(await startTokens(auth, account));
    if (by === "session") response.set("Set-Cookie", sessionCookie(await auth.sessions.begin(account)));
    response.json({ message: "the password is changed" });
  });
  return routes({ "/auth/password": { POST: change } });
}

type Passwords = { readonly oldPassword: string; readonly newPassword: string };

/** Returns the changed account. A wrong old password counts as a failed login. */
async function changePassword(
  { repository, hashing, passwords, throttle, forget }: Auth,
  userId: string,
  { oldPassword, newPassword }: Passwords,
  client: Client,
): Promise<Account> {
  refuseWeak(newPassword, oldPassword);
  if ((await repository.accountOf(userId)) === null) throw new RefusedError("revoked token");
  const { account, attempt } = await passwords.verify({ userId }, oldPassword, client, WRONG);
  const hash = await throttle.guard(attempt, hashing.hash(newPassword));
  const changed = await repository.changePassword(account, hash, { attempt, address: client.address });
  // Another request changed the password in the meantime.
  if (changed === null) throw WRONG.error();
  forget(userId);
  return changed;
}

const WRONG: WrongPassword = { event: "password_refused", error: () => new RefusedError("wrong old password") };

function refuseWeak(newPassword: string, oldPassword: string): void {
  const messages = passwordFaults(newPassword, "newPassword");
  if (newPassword === oldPassword) messages.push("newPassword must differ from oldPassword");
  if (messages.length > 0) throw badFields(messages.map((message) => ({ field: "newPassword", message })));
}

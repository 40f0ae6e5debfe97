import { Router } from "express";
import { readJson } from "../../http/body.ts";
import { byMethod } from "../../http/methods.ts";
import { RefusedError } from "../principal/refused.ts";
import { loginRequired } from "../resources/problem.ts";
import type { Auth } from "./auth.ts";
import { sessionCookie } from "./cookie.ts";
import { startTokens } from "./login.ts";
import { badFields, parseNewPassword } from "./login-input.ts";
import { passwordFaults } from "./passwords.ts";
import { route } from "./route.ts";
import type { Account } from "./store.ts";
import { unlessBusy } from "./throttle.ts";

/** `/auth/password`: another password, which ends all that was signed in with the old one, but for who changes it. */
export function passwordRouter(auth: Auth): Router {
  const change = route(async (request, response) => {
    const { claims, credential } = await auth.callerOf(request);
    if (typeof claims.sub !== "string") throw loginRequired();
    const passwords = parseNewPassword(await readJson(request, auth.limits));
    const account = await changePassword(auth, claims.sub, passwords, auth.addressOf(request));
    if (credential?.kind === "token") return void response.json(await startTokens(auth, account));
    if (credential?.kind === "session") response.set("Set-Cookie", sessionCookie(await auth.sessions.begin(account)));
    response.json({ message: "the password is changed" });
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/password", byMethod({ POST: change }));
  return router;
}

type Passwords = { readonly oldPassword: string; readonly newPassword: string };

/** The account as it is then. The old password is guessed as seldom as at a login: it counts as one. */
async function changePassword(
  { store, hashing, throttle, forget }: Auth,
  userId: string,
  { oldPassword, newPassword }: Passwords,
  address: string,
): Promise<Account> {
  refuseWeak(newPassword, oldPassword);
  const account = await store.accountOf(userId);
  if (account === null) throw new RefusedError("revoked token");
  const attempt = await throttle.attempt(account, address);
  if (!(await unlessBusy(attempt, hashing.matches(oldPassword, account.passwordHash)))) {
    await store.note({ event: "password_refused", userId, address });
    throw new RefusedError("wrong old password");
  }
  await attempt.forgive();
  const changed = await store.changePassword(account, await hashing.hash(newPassword), address);
  // Somebody else was faster.
  if (changed === null) throw new RefusedError("wrong old password");
  forget(userId);
  return changed;
}

function refuseWeak(newPassword: string, oldPassword: string): void {
  const told = passwordFaults(newPassword).map((message) => message.replace(/^password/, "newPassword"));
  if (newPassword === oldPassword) told.push("newPassword must be another one than the old");
  if (told.length > 0) throw badFields(told.map((message) => ({ field: "newPassword", message })));
}

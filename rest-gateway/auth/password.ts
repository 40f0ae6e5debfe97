import { Router } from "express";
import { byMethod } from "../../http/express.ts";
import type { Account } from "../../identity/account.ts";
import { RefusedError } from "../../identity/refused.ts";
import type { Auth } from "./auth.ts";
import { parseNewPassword } from "./bodies.ts";
import { readBody } from "./body.ts";
import { clientOf } from "./client.ts";
import { sessionCookie } from "./cookie.ts";
import { startTokens } from "./login.ts";
import { ownerWith } from "./owner.ts";
import type { Wrong } from "./password-check.ts";
import { passwordFaults } from "./passwords.ts";
import { badFields } from "./problem.ts";
import { route } from "./route.ts";
import type { Client } from "./throttle.ts";

/** `/auth/password`: another password, which ends all that was signed in with the old one, but for who changes it. */
export function passwordRouter(auth: Auth): Router {
  const change = route(async (request, response) => {
    const { id, by } = await ownerWith(request);
    const passwords = parseNewPassword(await readBody(request, auth.limits));
    const account = await changePassword(auth, id, passwords, clientOf(auth, request, response));
    if (by === "token") return void response.json(await startTokens(auth, account));
    if (by === "session") response.set("Set-Cookie", sessionCookie(await auth.sessions.begin(account)));
    response.json({ message: "the password is changed" });
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/password", byMethod({ POST: change }));
  return router;
}

type Passwords = { readonly oldPassword: string; readonly newPassword: string };

/** The account as it is then. The old password is guessed as seldom as at a login: it counts as one. */
async function changePassword(
  { store, hashing, passwords, forget }: Auth,
  userId: string,
  { oldPassword, newPassword }: Passwords,
  client: Client,
): Promise<Account> {
  refuseWeak(newPassword, oldPassword);
  const who = await store.accountOf(userId);
  if (who === null) throw new RefusedError("revoked token");
  const guess = { who, password: oldPassword };
  const changed = await passwords.check(guess, client, WRONG, async (account) =>
    store.changePassword(account, await hashing.hash(newPassword), client.address),
  );
  // Somebody else was faster.
  if (changed === null) throw WRONG.error();
  forget(userId);
  return changed;
}

const WRONG: Wrong = { event: "password_refused", error: () => new RefusedError("wrong old password") };

function refuseWeak(newPassword: string, oldPassword: string): void {
  const told = passwordFaults(newPassword).map((message) => message.replace(/^password/, "newPassword"));
  if (newPassword === oldPassword) told.push("newPassword must be another one than the old");
  if (told.length > 0) throw badFields(told.map((message) => ({ field: "newPassword", message })));
}

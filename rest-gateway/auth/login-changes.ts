import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import type { EmailBody, PasswordBody } from "./bodies.ts";
import { type Confirmed, confirm, refuseAnonymous, requireRecentSignIn, type Wrong } from "./confirmation.ts";
import type { Database } from "./functions.ts";
import { COOKIE, issue, TOKENS } from "./issue.ts";
import { normalizedEmail } from "./login-names.ts";
import type { MailData } from "./mail/mails.ts";
import { badFields, emailRefused, refuseRaised } from "./problem.ts";
import { type Call, currentSignInOf, type Owner } from "./route.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import { type Client, type CodeOutcome, requireAccepted, spendCode, type Throttled } from "./throttle.ts";

/** `POST /auth/email`: 202 if the link that the new address receives changes the e-mail; also for an address that is taken. */
export async function changeEmail(call: Call<"account", EmailChange>) {
  const { email } = call.body;
  if ((await replaceEmail(call)) === "changed")
    return { email, message: "you sign in with the new e-mail from now on" };
  call.response.status(202).json({ message: "an e-mail is on its way to this address: its link changes the e-mail" });
  return;
}

type EmailChange = z.infer<typeof EmailBody>;

/** "pending" unless EMAIL_CONFIRM=off. */
export async function replaceEmail({
  auth,
  client,
  signedIn,
  body: { email, ...confirmation },
}: Pick<Call<"account", EmailChange>, "auth" | "client" | "signedIn" | "body">): Promise<"changed" | "pending"> {
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  return setEmail(auth, currentSignInOf(signedIn), email, client);
}

/** Changes the e-mail that the user signs in with, and the e-mail of the user. `mail` is about the e-mail that confirms it. */
export async function setEmail(
  { functions }: Database,
  { id, session }: CurrentSignIn,
  email: string,
  { address }: Client,
  mail: MailData = {},
): Promise<"changed" | "pending"> {
  const values = [id, normalizedEmail(email), address || null, session, JSON.stringify(mail)];
  const changing = functions.change<Outcome>("change_email($1, $2, $3::inet, $4::uuid, $5::jsonb)", values);
  const outcome = await changing.catch(refuseRaised);
  if (outcome === "ended") throw problem("revoked token");
  if (outcome !== "changed" && outcome !== "pending") throw emailRefused(outcome);
  return outcome;
}

/** Nothing has changed unless it is "changed". "pending": the link of an e-mail changes it. */
type Outcome = "changed" | "pending" | "taken" | "malformed" | "too often" | "too many" | "ended";

/** `POST /auth/password`: a new password ends all tokens and sessions of the user, and the caller gets a new one. */
export async function changePassword(call: Call<"account", Passwords>) {
  const { auth, client, signedIn, body } = call;
  const account = await replacePassword(auth, signedIn, body, client);
  const by = signedIn.caller.credential?.kind;
  if (by === "token") return issue(call, { account }, TOKENS);
  if (by === "session") await issue(call, { account }, COOKIE);
  return { message: "the password is changed" };
}

type Passwords = z.infer<typeof PasswordBody>;

/** Returns the changed account. A wrong old password counts as a failed login. */
async function replacePassword(
  auth: Auth,
  owner: Owner,
  { oldPassword: password, newPassword, code, passkey }: Passwords,
  client: Client,
): Promise<Account> {
  refuseAnonymous(owner);
  refuseWeak(auth, newPassword, password);
  const confirmed = await confirm(auth, owner, { password, code, passkey }, client, WRONG);
  const hash = await auth.hashing.hashFor(client, newPassword);
  return setPassword(auth, confirmed, hash, client);
}

/** Ends what was issued to the user, but not this session; the code is not needed if it has proved the second factor. Returns the account. */
export async function setPassword(
  auth: Throttled,
  { account: { id, passwordHash }, code }: Confirmed,
  hash: string,
  client: Client,
  session: string | null = null,
): Promise<Account> {
  const { functions } = auth;
  const change = (sent: string | null) => {
    const values = [id, passwordHash, hash, sent, session, client.address || null, functions.now()];
    const call = "change_password($1, $2, $3, $4::jsonb, $5::uuid, $6::inet, $7::timestamptz)";
    return functions.change<CodeOutcome<{ readonly account: Account }> | null>(call, values);
  };
  return requireAccepted(await spendCode(auth, code, change, client)).account;
}

const WRONG: Wrong = {
  event: "password_refused",
  error: () => problem("wrong old password"),
  field: "oldPassword",
};

function refuseWeak({ passwordRules }: Auth, newPassword: string, oldPassword: string | null | undefined): void {
  const messages = passwordRules.faults(newPassword, "newPassword");
  if (newPassword === oldPassword) messages.push("newPassword must differ from oldPassword");
  if (messages.length > 0) throw badFields(messages.map((message) => ({ field: "newPassword", message })));
}

import type { z } from "zod";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { operatorName, textOfId } from "../../rest-gateway/auth/functions.ts";
import { issue, SIGNED_IN, type SignedIn } from "../../rest-gateway/auth/issue.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import type { MailBody } from "../../rest-gateway/auth/mail/bodies.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { findAccountOf } from "../../rest-gateway/auth/repository.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import type { InvitationBody } from "./bodies.ts";
import { type Link, takeToken } from "./repository.ts";
import { linkOf, mailDataOf, returnToOf } from "./requests.ts";
import { mailOf } from "./service.ts";

/** `POST /auth/invitations`: an administrator or the service key invites an address. */
export async function invite(call: Call<"operator", z.infer<typeof MailBody>>) {
  const { auth, body, client, signedIn } = call;
  requireInvitations(auth);
  const data = mailDataOf(call, { returnTo: returnToOf(auth, body.returnTo) });
  const functions = auth.functions.by(operatorName(signedIn));
  const values = [normalizedEmail(body.email), JSON.stringify(data), client.address || null, functions.now()];
  await functions.call("invite($1, $2::jsonb, $3::inet, $4::timestamptz)", values);
  return { message: "an e-mail is on its way to this address" };
}

/** `POST /auth/invitations/accept`: creates the account, and signs the user in. */
export async function acceptInvitation(call: Call<"none", z.infer<typeof InvitationBody>>): Promise<SignedIn> {
  return issue(call, await accept(call, call.body), SIGNED_IN);
}

/** The form of the page that the link opens. */
export async function acceptOnPage(call: Call, input: Input, { data: { returnTo = null } }: Link): Promise<void> {
  await signInBrowser(call, await accept(call, input), returnTo);
}

type Input = z.infer<typeof InvitationBody>;

/** The new account. Its e-mail is confirmed: the invitation has arrived there. */
async function accept({ auth, client }: Call, { token, name, password }: Input): Promise<AdmittedLogin> {
  requireInvitations(auth);
  auth.passwordRules.require(password);
  await linkOf(auth, token, "invitation");
  const passwordHash = await auth.hashing.hashFor(client, password);
  const { address } = client;
  const given = [name, passwordHash];
  const id = await takeToken<string | number>(auth, "accept_invitation", hashOf(token), given, address);
  return { account: (await findAccountOf(auth, textOfId(id)))!, attempt: [], address };
}

function requireInvitations(auth: Auth): void {
  if (auth.settings.signup === "off") throw problem("sign-up closed");
  if (!mailOf(auth).isOn) throw problem("no mail");
}

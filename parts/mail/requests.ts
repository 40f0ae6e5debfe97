import type { z } from "zod";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { proofIn } from "../../rest-gateway/auth/confirmation.ts";
import type { MailBody } from "../../rest-gateway/auth/mail/bodies.ts";
import type { Destination, MailCall, MailData, RequestedKind } from "../../rest-gateway/auth/mail/mails.ts";
import { badFields, emailRefused } from "../../rest-gateway/auth/problem.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { type FactorProof, readCode } from "../../rest-gateway/auth/second-factor.ts";
import { type Client, requireAccepted, spendCode } from "../../rest-gateway/auth/throttle.ts";
import { languagesOf } from "../../rest-gateway/conventions/languages.ts";
import type { ResetBody, TokenBody } from "./bodies.ts";
import type { MailKind } from "./kinds.ts";
import type { Link } from "./repository.ts";
import { mailOf, mailRowsOf } from "./service.ts";

/**
 * Requests an e-mail for an address. The response, the statements and the number of e-mails are the same for every address, so
 * that they do not tell whether it has an account.
 */
export const requestMail = (kind: RequestedKind) => async (call: Call<"none", z.infer<typeof MailBody>>) => {
  const returnTo = returnToOf(call.auth, call.body.returnTo);
  await requestMailFor(call, kind, call.body.email, { returnTo });
  return { message: "an e-mail is on its way to this address" };
};

/** The URL at which the user continues. Throws Problem for one that is not allowed. */
export function returnToOf({ returnUrls }: Auth, given: string | null | undefined): string | null {
  const returnTo = given == null ? null : returnUrls.parse(given);
  if (given != null && returnTo === null) throw badFields([RETURN_TO]);
  return returnTo;
}

/** What the client has chosen. */
export const mailDataOf = ({ request }: Pick<Call, "request">, destination: Destination): MailData => ({
  ...destination,
  languages: languagesOf(request.headers["accept-language"]),
});

/** Rejects with Problem "no mail" and "too many mails", and for an address that no account can have. */
export async function requestMailFor(
  { auth, request, client }: MailCall,
  kind: RequestedKind,
  email: string,
  destination: Destination,
  newUser?: MailData["newUser"],
): Promise<void> {
  const mail = mailOf(auth);
  if (!mail.isOn) throw problem("no mail");
  const data = { ...mailDataOf({ request }, destination), newUser };
  const refused = await mailRowsOf(auth).request(kind, email, data, client.address, mail.settings);
  if (refused === null) return;
  if (refused === "malformed") throw emailRefused(refused);
  auth.onLimit(refused.limit);
  throw problem("too many mails", { retryAfter: refused.retryAfter });
}

const RETURN_TO = {
  field: "returnTo",
  message: "returnTo must be a path of this service, or a URL whose origin is in AUTH_RETURN_ORIGINS",
};

/** A link whose token is valid, and of this kind. Rejects with Problem. */
export async function linkOf(auth: Auth, token: string, kind?: MailKind): Promise<Link> {
  const link = await mailRowsOf(auth).findLink(hashOf(token));
  if (link === null || link.kind !== (kind ?? link.kind)) throw problem("invalid link");
  return link;
}

/** `POST /auth/email/undo`: the account signs in with its previous e-mail again, and all that was issued ends. */
export async function undoEmail({ auth, client, body }: Call<"none", z.infer<typeof TokenBody>>) {
  const user = await mailRowsOf(auth).undoEmail(hashOf(body.token), client.address);
  auth.functions.forget(String(user));
  return { message: "the change is undone: an e-mail to choose a new password is on its way" };
}

/** `POST /auth/reset`: sets a password with the token of an e-mail, and ends all that was issued to the user. */
export async function resetPassword({ auth, client, body }: Call<"none", z.infer<typeof ResetBody>>) {
  const { token, password } = body;
  auth.passwordRules.require(password);
  const link = await linkOf(auth, token, "reset");
  await reset(auth, link, { token, password, code: proofIn(body) }, client);
  return { message: "the password is changed: sign in with it" };
}

type Sent = { readonly token: string; readonly password: string; readonly code: FactorProof | null };

async function reset(
  auth: Auth,
  { account, factors, keepsFactor }: Link,
  { token, password, code }: Sent,
  client: Client,
) {
  if (keepsFactor && code === null) throw problem("second factor needed");
  const spent = code !== null && account!.hasFactor;
  const read = spent ? await readCode(auth, account!, { factors, code }, client.address) : null;
  const hash = await auth.hashing.hashFor(client, password);
  const change = (sent: string | null) => mailRowsOf(auth).resetPassword(hashOf(token), hash, sent, client.address);
  const tried = await spendCode(auth, read, change, client);
  if (tried.outcome === "spent") throw problem("invalid link");
  requireAccepted(tried);
  auth.functions.forget(account!.id);
}

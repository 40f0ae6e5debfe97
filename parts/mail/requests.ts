import type { z } from "zod";
import { countedNetworksOf } from "../../db/network.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { proofIn } from "../../rest-gateway/auth/confirmation.ts";
import { bytes, textOfId } from "../../rest-gateway/auth/functions.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import type { MailBody } from "../../rest-gateway/auth/mail/bodies.ts";
import type { Destination, MailCall, MailData, RequestedKind } from "../../rest-gateway/auth/mail/mails.ts";
import { badFields, emailRefused, refuseRaised } from "../../rest-gateway/auth/problem.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { type FactorProof, readCode } from "../../rest-gateway/auth/second-factor.ts";
import { type Client, type CodeOutcome, requireAccepted, spendCode } from "../../rest-gateway/auth/throttle.ts";
import { languagesOf } from "../../rest-gateway/conventions/languages.ts";
import type { ResetBody, TokenBody } from "./bodies.ts";
import type { MailKind } from "./kinds.ts";
import { findLink, type Link, takeToken } from "./repository.ts";
import { mailOf } from "./service.ts";

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
  const { mailsPerRecipient, mailsPerAddress, mailsPerHour } = mail.settings;
  const { functions } = auth;
  const networks = countedNetworksOf(client.address);
  const values = [
    ...[kind, normalizedEmail(email), JSON.stringify(data), writeArray(networks.map(({ name }) => name))],
    String(mailsPerRecipient),
    writeArray(networks.map(({ factor }) => String(factor * mailsPerAddress))),
    ...[String(mailsPerHour), functions.now()],
  ];
  const types = "$1, $2, $3::jsonb, $4::text[], $5::integer, $6::integer[], $7::integer, $8::timestamptz";
  const requesting = functions.call<Limited | "malformed" | null>(`request_mail(${types})`, values);
  const refused = await requesting.catch(refuseRaised);
  if (refused === null) return;
  if (refused === "malformed") throw emailRefused(refused);
  const { place, retryAfter } = refused;
  const ofNetworks = place <= networks.length + 1 ? "address_mails" : "all_mails";
  auth.onLimit(place === 1 ? "mailbox_mails" : ofNetworks);
  throw problem("too many mails", { retryAfter });
}

/** The place of the limit that is reached, and the seconds to wait. */
type Limited = { readonly place: number; readonly retryAfter: number };

const RETURN_TO = {
  field: "returnTo",
  message: "returnTo must be a path of this service, or a URL whose origin is in AUTH_RETURN_ORIGINS",
};

/** A link whose token is valid, and of this kind. Rejects with Problem. */
export async function linkOf(auth: Auth, token: string, kind?: MailKind): Promise<Link> {
  const link = await findLink(auth, hashOf(token));
  if (link === null || link.kind !== (kind ?? link.kind)) throw problem("invalid link");
  return link;
}

/** `POST /auth/email/undo`: the account signs in with its previous e-mail again, and all that was issued ends. */
export async function undoEmail({ auth, client, body }: Call<"none", z.infer<typeof TokenBody>>) {
  const user = await takeToken<string | number>(auth, "undo_email", hashOf(body.token), [], client.address);
  auth.functions.forget(textOfId(user));
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
  const { functions } = auth;
  const change = (sent: string | null) => {
    const values = [bytes(hashOf(token)), hash, sent, client.address || null, functions.now()];
    const call = "reset_password($1::bytea, $2, $3::jsonb, $4::inet, $5::timestamptz)";
    return functions.call<CodeOutcome | null>(call, values);
  };
  const tried = await spendCode(auth, read, change, client);
  if (tried.outcome === "spent") throw problem("invalid link");
  requireAccepted(tried);
  functions.forget(account!.id);
}

import { randomInt } from "node:crypto";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { AccountChanges } from "../../rest-gateway/auth/admin-users.ts";
import { bytes } from "../../rest-gateway/auth/functions.ts";
import { type MailData, mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
import { findAccount } from "../../rest-gateway/auth/repository.ts";
import { adminUsersOf, asOperator, passwordHashOf, requireServiceKey } from "./admin.ts";
import { InvitedUser, LinkRequest, readAuthBody } from "./bodies.ts";
import type { AuthCall } from "./call.ts";
import { destinationIn } from "./destination.ts";
import { invalid } from "./problem.ts";
import { findUserOf } from "./session.ts";
import { nameOf, requireEmail, requireStrong } from "./sign-in.ts";

// Links for e-mails, for the service key.

/** Seconds for which an invitation is valid, as in auth_api.begin_mail. */
const INVITATION_SECONDS = 7 * 24 * 3600;

/** The type of a link → the kind of its token. */
const KINDS = {
  signup: "confirm",
  invite: "sign-in",
  magiclink: "sign-in",
  recovery: "reset",
  email_change_new: "confirm",
} as const;
type LinkType = keyof typeof KINDS;

/** `POST /admin/generate_link`: a link and a code that the application sends itself. */
export async function generateLink(call: AuthCall): Promise<object> {
  await requireServiceKey(call);
  const { auth, request, client } = call;
  const sent = await readAuthBody(request, auth.limits, LinkRequest);
  // As on the wire of Supabase, when the new address alone confirms.
  if (sent.type === "email_change_current")
    throw invalid("Enable secure email change to generate link for current email");
  if (!Object.hasOwn(KINDS, sent.type ?? "")) throw invalid(`type must be ${Object.keys(KINDS).join(", ")}`);
  const type = sent.type as LinkType;
  if (sent.password && type !== "signup") throw invalid("password is only for the type signup");
  if (sent.new_email && type !== "email_change_new") throw invalid("new_email is only for the type email_change_new");
  const email = requireEmail(sent.email ?? "");
  const change = type === "email_change_new" ? await changeTo(call, sent.new_email ?? "") : {};
  const { user, id, isNew } = await userFor(call, type, email, sent);
  const token = newSecret();
  const code = String(randomInt(1_000_000)).padStart(6, "0");
  const seconds = type === "invite" ? INVITATION_SECONDS : auth.settings.mailLinkTtl;
  const verified = isNew && type === "magiclink" ? "signup" : type;
  const { returnTo, application } = destinationIn(call, type === "email_change_new" ? "email_change" : verified);
  const data = { returnTo: returnTo ?? new URL("/", auth.url).href, application: { ...application!, isDirect: true } };
  // The password of a new user is that of the service key: the link needs no proof that the account is that of the recipient.
  const owner = isNew && { byOperator: true };
  const functions = asOperator(auth);
  const values = [
    ...[KINDS[verified], id, JSON.stringify({ ...data, ...owner, ...change }), bytes(hashOf(token))],
    ...[bytes(mailsIn(auth).hashOfCode(code)), functions.now(seconds * 1000), client.address || null],
  ];
  const types = "$1, $2, $3::jsonb, $4::bytea, $5::bytea, $6::timestamptz, $7::inet";
  await functions.call(`add_token(${types})`, values);
  const query = new URLSearchParams({ token, type: application!.type, redirect_to: data.returnTo });
  return {
    ...user,
    action_link: `${auth.url}/auth/v1/verify?${query}`,
    ...{ email_otp: code, hashed_token: token, verification_type: verified },
    redirect_to: data.returnTo,
  };
}

/** `POST /invite`: creates a user, who gets an e-mail with a link that signs in. */
export async function inviteUser(call: AuthCall): Promise<PublicUser> {
  await requireServiceKey(call);
  const { auth, request, client } = call;
  const sent = await readAuthBody(request, auth.limits, InvitedUser);
  if (!auth.mails?.isOn) throw problem("no mail");
  const email = requireEmail(sent.email ?? "");
  const { user, id } = await userFor(call, "invite", email, sent);
  const functions = asOperator(auth);
  const values = [id, email, JSON.stringify(destinationIn(call, "invite")), client.address || null, functions.now()];
  await functions.call("invite_user($1, $2, $3::jsonb, $4::inet, $5::timestamptz)", values);
  return user;
}

/** The new e-mail of a user, as it is stored with its link. Rejects with Problem. */
async function changeTo({ auth }: AuthCall, sent: string): Promise<Pick<MailData, "newEmail">> {
  const newEmail = requireEmail(sent);
  if ((await findAccount(auth, newEmail)) !== null) throw problem("email taken");
  return { newEmail };
}

type Sent = { readonly password?: string | null | undefined; readonly data?: Metadata | null | undefined };
type Metadata = Readonly<Record<string, unknown>>;

/** The user of a link, who is created unless there is one. Rejects with Problem. */
async function userFor(call: AuthCall, type: LinkType, email: string, { password, data }: Sent) {
  const { auth, client } = call;
  const users = adminUsersOf(call);
  const isInvited = type === "invite";
  const account = await findAccount(auth, email);
  if (account !== null) {
    const isTaken = account.emailConfirmedAt !== null && account.passwordHash !== null;
    if (isTaken && (type === "signup" || isInvited)) throw problem("email taken");
    const user = isInvited
      ? await users.change(account.id, { isInvited }, null, client.address)
      : (await findUserOf(auth, account.id))!;
    return { user, id: account.id, isNew: false };
  }
  if (type === "recovery" || type === "email_change_new") throw problem("no such user");
  if (type === "signup" && !password) throw invalid("Signup requires a valid password");
  if (type === "signup") requireStrong(call.auth, password!);
  const metadata = data ?? {};
  const hash = type === "signup" ? await passwordHashOf(call, password, null) : null;
  const mustConfirm = auth.settings.emailConfirm === "required";
  const changes: AccountChanges = { userMetadata: metadata, mustConfirm, isInvited };
  const fields = { name: nameOf(email, metadata), email };
  const creating = users.create({ fields, passwordHash: hash, changes }, client.address);
  return { ...(await creating.catch(refuseUser)), isNew: true };
}

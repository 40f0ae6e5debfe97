import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { issue } from "../../rest-gateway/auth/issue.ts";
import {
  type AdmittedKind,
  type Destination,
  type MailData,
  mailsIn,
  type RequestedKind,
  type SentCode,
  type SignInKind,
} from "../../rest-gateway/auth/mail/mails.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import { MailRequest, readAuthBody, Verification } from "./bodies.ts";
import { type AuthCall, type SignedIn, signedInOf } from "./call.ts";
import { destinationIn } from "./destination.ts";
import { invalid } from "./problem.ts";
import { AUTH_SESSION, type SessionAnswer } from "./session.ts";
import { nameOf, requireEmail, requireSmall } from "./sign-in.ts";

// Sign-in by e-mail, and what else e-mails are requested for. The answers are the same for every address.

/**
 * `POST /otp`: an e-mail with a link and a code that sign in. If sign-up is open, they create the user if there is none, so that the
 * answer and the e-mail are the same for every address.
 */
export async function requestCode(call: AuthCall): Promise<object> {
  const { settings, limits } = call.auth;
  const sent = await readAuthBody(call.request, limits, MailRequest);
  const { phone, email, data, create_user: creates } = sent;
  if (phone) throw problem("phones off");
  const destination = destinationIn(call, "magiclink", sent);
  if (creates === false || !isSignupOpen(settings)) return send(call, "sign-in", email, destination);
  const metadata = data ?? {};
  requireSmall(metadata, settings.userMetadataBytes);
  const address = requireEmail(email ?? "");
  return send(call, "sign-in", address, destination, { name: nameOf(address, metadata), metadata });
}

/** `POST /recover`: an e-mail whose link signs in, so that the application asks for a password, or opens a page that does. */
export async function requestRecovery(call: AuthCall): Promise<object> {
  const sent = await readAuthBody(call.request, call.auth.limits, MailRequest);
  if (sent.phone) throw problem("phones off");
  return send(call, "reset", sent.email, destinationIn(call, "recovery", sent));
}

/** What can be sent once more. */
const RESENT: Readonly<Record<string, RequestedKind>> = { signup: "confirm", email_change: "change" };

/** `POST /resend`: the e-mail of a sign-up, or of a change of the e-mail, once more. */
export async function resendMail(call: AuthCall): Promise<object> {
  const sent = await readAuthBody(call.request, call.auth.limits, MailRequest);
  const { type, phone, email } = sent;
  if (phone || type === "sms" || type === "phone_change") throw problem("phones off");
  return send(call, ofType(RESENT, type), email, destinationIn(call, type!, sent));
}

/** Throws Problem. */
function ofType<Value>(values: Readonly<Record<string, Value>>, type: string | null | undefined): Value {
  if (type != null && Object.hasOwn(values, type)) return values[type]!;
  throw invalid(`type must be ${Object.keys(values).join(", ")}`);
}

/** `GET /reauthenticate`: an e-mail whose code is the `nonce` of `PUT /user`, in place of a recent sign-in. */
export async function reauthenticate(call: AuthCall): Promise<object> {
  const { user } = await signedInOf(call);
  if (user.email === "") throw invalid("Reauthentication requires the user to have an email or a phone number");
  await mailsIn(call.auth).request(call, "sign-in", user.email, {});
  return {};
}

/** Rejects with Problem unless the code is that of an e-mail to the user. It is spent, and confirms the e-mail. */
export async function requireNonce(call: AuthCall, { user, userId }: SignedIn, nonce: string): Promise<void> {
  const sent = { email: user.email, code: nonce };
  await mailsIn(call.auth).takeCode(call, sent, ["sign-in"], "nonce wrong", { signedIn: userId });
}

async function send(
  call: AuthCall,
  kind: RequestedKind,
  email: string | null | undefined,
  destination: Destination,
  newUser?: MailData["newUser"],
): Promise<object> {
  await mailsIn(call.auth).request(call, kind, requireEmail(email ?? ""), destination, newUser);
  return {};
}

/** What a code or a link may be called, and the e-mails that it may come from. */
const TYPES: Readonly<Record<string, readonly SignInKind[]>> = {
  email: ["sign-in", "confirm"],
  magiclink: ["sign-in"],
  signup: ["confirm", "sign-in"],
  invite: ["sign-in"],
  recovery: ["reset"],
  email_change: ["confirm"],
};

/** Throws Problem. */
export const kindsOf = (type: string | null | undefined): readonly SignInKind[] => ofType(TYPES, type);

/** `POST /verify`: signs in with the code of an e-mail, or with the token of its link. */
export async function verifyCode(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request } = call;
  const sent = await readAuthBody(request, auth.limits, Verification);
  const { type, email, phone, token: code, token_hash: link, password } = sent;
  if (phone) throw problem("phones off");
  const kinds = kindsOf(type);
  if (!link && !(email && code)) throw invalid("Either token_hash, or email and token are required");
  return signInByMail(call, link ? hashOf(link) : { email: requireEmail(email!), code: code! }, kinds, password);
}

/** Takes a token of one of these kinds, and signs its user in. */
export async function signInByMail(
  call: AuthCall,
  sent: SentCode,
  kinds: readonly AdmittedKind[],
  password?: string | null,
): Promise<SessionAnswer> {
  const login = await mailsIn(call.auth).takeCode(call, sent, kinds, "mail token invalid", { password });
  return issue(call, login, AUTH_SESSION);
}

import { problem } from "../../../db/problems/problem.ts";
import type { Account } from "../../../identity/account.ts";
import { hashOf } from "../../../identity/secrets.ts";
import type { RequestedKind } from "../mail/kinds.ts";
import { requestMailFor } from "../mail/requests.ts";
import { takeMailCode } from "../mail/sign-in.ts";
import { MailRequest, readAuthBody, Verification } from "./bodies.ts";
import type { AuthCall } from "./call.ts";
import { invalid } from "./problem.ts";
import { type SessionAnswer, startAuthSession } from "./session.ts";
import { requireEmail } from "./sign-in.ts";

// Sign-in by e-mail, and what else e-mails are requested for. The answers are the same for every address.

/** `POST /otp`: an e-mail with a link and a code that sign in. It makes no user. */
export async function requestCode(call: AuthCall): Promise<object> {
  const { phone, email } = await readAuthBody(call.request, call.auth.limits, MailRequest);
  if (phone) throw problem("phones off");
  return send(call, "sign-in", email);
}

/** `POST /recover`: an e-mail whose link opens the page that sets a password. */
export async function requestRecovery(call: AuthCall): Promise<object> {
  const { email } = await readAuthBody(call.request, call.auth.limits, MailRequest);
  return send(call, "reset", email);
}

/** `POST /resend`: the e-mail of a sign-up once more. */
export async function resendMail(call: AuthCall): Promise<object> {
  const { type, email } = await readAuthBody(call.request, call.auth.limits, MailRequest);
  if (type !== "signup") throw invalid("type must be signup");
  return send(call, "confirm", email);
}

async function send(call: AuthCall, kind: RequestedKind, email: string | null | undefined): Promise<object> {
  const { request, auth } = call;
  const address = requireEmail(email ?? "");
  const { redirect_to: target } = request.query;
  // A URL that is not allowed is left out, as on the wire of Supabase.
  const returnTo = typeof target === "string" ? auth.federated.returnUrls.parse(target) : null;
  await requestMailFor(call, kind, address, returnTo);
  return {};
}

/** What a code or a link of `POST /otp` may be called. */
const TYPES: readonly unknown[] = ["email", "magiclink"];

/** `POST /verify`: signs in with the code of an e-mail, or with the token of its link. */
export async function verifyCode(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request, client } = call;
  const { type, email, phone, token, token_hash: link } = await readAuthBody(request, auth.limits, Verification);
  if (phone) throw problem("phones off");
  if (!TYPES.includes(type)) throw invalid(`type must be ${TYPES.join(" or ")}`);
  if (!link && !(email && token)) throw invalid("Either token_hash, or email and token are required");
  const account = link ? await takeLink(call, link) : await takeMailCode(call, requireEmail(email!), token!);
  if (account === null) throw problem("mail token invalid");
  auth.forget(account.id);
  return startAuthSession(call, account, "otp", { attempt: [], address: client.address });
}

const takeLink = ({ auth, client }: AuthCall, token: string): Promise<Account | null> =>
  auth.mail.repository.takeSignInLink(hashOf(token), client.address);

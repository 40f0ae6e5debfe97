import type { z } from "zod";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { issueUnlessFactor, SIGNED_IN, type SignedIn } from "../../rest-gateway/auth/issue.ts";
import type { MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import type { AdmittedKind, MailCall, MailRefusal, Mails, SentCode } from "../../rest-gateway/auth/mail/mails.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { noteEvent } from "../../rest-gateway/auth/repository.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import { guard, reserveResponse, settle } from "../../rest-gateway/auth/throttle.ts";
import type { TokenBody } from "./bodies.ts";
import { epochFor } from "./confirmations.ts";
import type { Link } from "./repository.ts";
import { mailOf, mailRowsOf } from "./service.ts";

/** Wrong codes after which the code of an e-mail is no longer valid. */
const CODE_ATTEMPTS = 5;

/** `POST /auth/login/link`: signs in with the token of an e-mail. */
export async function signInWithLink(call: Call<"none", z.infer<typeof TokenBody>>): Promise<SignedIn> {
  return issueUnlessFactor(call, await takeLink(call, call.body.token), SIGNED_IN);
}

/** `POST /auth/login/code`: signs in with the code of an e-mail. */
export async function signInWithCode(call: Call<"none", z.infer<typeof MailCodeBody>>): Promise<SignedIn> {
  return issueUnlessFactor(call, await takeCode(call, call.body, ["sign-in"], "wrong mail code"), SIGNED_IN);
}

/** The form of the page that the link opens. */
export async function signInOnPage(call: Call, token: string, { data: { returnTo = null } }: Link): Promise<void> {
  await signInBrowser(call, await takeLink(call, token), returnTo);
}

export const takeLink = (call: MailCall, token: string, kind: AdmittedKind = "sign-in"): Promise<AdmittedLogin> =>
  takeCode(call, hashOf(token), [kind], "invalid link");

export const takeCode: Mails["takeCode"] = async (call, sent, kinds, reason, { password, signedIn = null } = {}) => {
  const { auth, client } = call;
  const { address } = client;
  const tokenHash = await tokenOf(call, sent, reason);
  // A password is verified after the code: before, it would cost time for anyone, and the time would tell whose account it is.
  const epoch = kinds.includes("confirm") ? await epochFor(call, tokenHash, password) : null;
  const { account, token } = await mailRowsOf(auth).takeToken(tokenHash, kinds, epoch, signedIn, address, reason);
  // It may have lost its password and its sign-ins, if its e-mail was not confirmed.
  auth.functions.forget(account.id);
  return { account, attempt: [], address, byMail: true, mailToken: token };
};

/** The hash of a token. A wrong code counts as a failed login of the network. */
async function tokenOf({ auth, client }: MailCall, sent: SentCode, reason: MailRefusal): Promise<Buffer> {
  if (!("code" in sent)) return sent;
  const codeHash = mailOf(auth).hashOfCode(sent.code.replace(/\s/g, ""));
  const attempt = await reserveResponse(auth, client);
  const found = await guard(auth, attempt, mailRowsOf(auth).findCode(sent.email, codeHash, CODE_ATTEMPTS));
  await settle(auth, attempt, found === null);
  if (found !== null) return found;
  await noteEvent(auth, { event: "code_failed", userId: null, address: client.address, detail: { by: "e-mail" } });
  throw problem(reason);
}

import type { z } from "zod";
import { writeArray } from "../../db/wire/array-text.ts";
import type { Account } from "../../identity/account.ts";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { bytes } from "../../rest-gateway/auth/functions.ts";
import { issueUnlessFactor, SIGNED_IN, type SignedIn } from "../../rest-gateway/auth/issue.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import type { MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import type { AdmittedKind, MailCall, MailRefusal, Mails, SentCode } from "../../rest-gateway/auth/mail/mails.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { noteEvent } from "../../rest-gateway/auth/repository.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import { guard, reserveResponse, settle } from "../../rest-gateway/auth/throttle.ts";
import type { TokenBody } from "./bodies.ts";
import { epochFor } from "./confirmations.ts";
import { type Link, takeToken } from "./repository.ts";
import { mailOf } from "./service.ts";

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
  const given = [writeArray(kinds), epoch, signedIn];
  const { account, token } = await takeToken<Taken>(auth, "take_mail_token", tokenHash, given, address, reason);
  // It may have lost its password and its sign-ins, if its e-mail was not confirmed.
  auth.functions.forget(account.id);
  return { account, attempt: [], address, byMail: true, mailToken: token };
};

/** The account that a token signs in, and the token, which is valid again if a hook refuses the sign-in. */
type Taken = { readonly account: Account; readonly token: object };

/** The hash of a token. A wrong code counts as a failed login of the network. */
async function tokenOf({ auth, client }: MailCall, sent: SentCode, reason: MailRefusal): Promise<Buffer> {
  if (!("code" in sent)) return sent;
  const { functions } = auth;
  const codeHash = mailOf(auth).hashOfCode(sent.code.replace(/\s/g, ""));
  const values = [normalizedEmail(sent.email), bytes(codeHash), String(CODE_ATTEMPTS), functions.now()];
  const attempt = await reserveResponse(auth, client);
  const finding = functions.call<string | null>("find_mail_code($1, $2::bytea, $3::integer, $4::timestamptz)", values);
  const found = await guard(auth, attempt, finding);
  await settle(auth, attempt, found === null);
  if (found !== null) return Buffer.from(found, "hex");
  await noteEvent(auth, { event: "code_failed", userId: null, address: client.address, detail: { by: "e-mail" } });
  throw problem(reason);
}

import type { z } from "zod";
import { hashOf } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { issueUnlessFactor, SIGNED_IN, type SignedIn } from "../../rest-gateway/auth/issue.ts";
import type { MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import type { AdmittedKind, TakenToken } from "../../rest-gateway/auth/mail/mails.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { refuseRaised } from "../../rest-gateway/auth/problem.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import type { TokenBody } from "./bodies.ts";
import type { Link } from "./repository.ts";
import { mailOf } from "./service.ts";

/** Wrong codes after which the code of an e-mail is no longer valid. */
const CODE_ATTEMPTS = 5;

/** `POST /auth/login/link`: signs in with the token of an e-mail. */
export async function signInWithLink(call: Call<"none", z.infer<typeof TokenBody>>): Promise<SignedIn> {
  return issueUnlessFactor(call, await admitLink(call, call.body.token, "sign-in"), SIGNED_IN);
}

/** `POST /auth/login/code`: signs in with the code of an e-mail. A wrong one counts as a failed login of the network. */
export async function signInWithCode(call: Call<"none", z.infer<typeof MailCodeBody>>): Promise<SignedIn> {
  return issueUnlessFactor(call, await admitCode(call, call.body.email, call.body.code), SIGNED_IN);
}

/** Rejects with Problem for a wrong code. */
export async function admitCode(call: Coded, email: string, code: string): Promise<AdmittedLogin> {
  const tokenHash = await findMailCode(call, email, code);
  const taken =
    tokenHash && (await mailOf(call.auth).repository.takeToken(tokenHash, ["sign-in"], call.client.address));
  if (taken === null) throw problem("wrong mail code");
  return admitted(call, taken);
}

type Coded = Pick<Call, "client"> & { readonly auth: Auth };

/** The hash of the token whose code an address has received. Null for a wrong one, which counts as a failed login. */
export async function findMailCode({ auth, client }: Coded, email: string, code: string): Promise<Buffer | null> {
  const { throttle, repository } = auth;
  const mail = mailOf(auth);
  const codeHash = mail.hashOfCode(code.replace(/\s/g, ""));
  const attempt = await throttle.reserveResponse(client);
  const found = await throttle.guard(attempt, mail.repository.findCode(email, codeHash, CODE_ATTEMPTS));
  await throttle.settle(attempt, found === null);
  if (found === null)
    await repository.note({ event: "code_failed", userId: null, address: client.address, detail: { by: "e-mail" } });
  return found;
}

/** The form of the page that the link opens. */
export async function signInOnPage(call: Call, token: string, { data: { returnTo = null } }: Link): Promise<void> {
  await signInBrowser(call, await admitLink(call, token, "sign-in"), returnTo);
}

/** The account of a link, which is taken. Rejects with Problem. */
export async function admitLink(
  call: Pick<Call, "auth" | "client">,
  token: string,
  kind: AdmittedKind,
): Promise<AdmittedLogin> {
  const taking = mailOf(call.auth).repository.takeToken(hashOf(token), [kind], call.client.address);
  const taken = await taking.catch(refuseRaised);
  if (taken === null) throw problem("invalid link");
  return admitted(call, taken);
}

/** The account may have lost its password and its sign-ins, if its e-mail was not confirmed. */
function admitted({ auth, client: { address } }: Coded, { account, token }: TakenToken): AdmittedLogin {
  auth.forget(account.id);
  return { account, attempt: [], address, byMail: true, mailToken: token };
}

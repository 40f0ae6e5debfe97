import type { Account } from "../../../identity/account.ts";
import { hashOf } from "../../../identity/secrets.ts";
import { CHALLENGE_SECONDS } from "../../../identity/tokens.ts";
import { isRefusal, Problem, problem } from "../../../problems/problem.ts";
import { ChallengeBody, type ChallengeInput, ChallengePasskeyBody, parse, readForm } from "../bodies.ts";
import { COOKIE, issue, SIGNED_IN } from "../issue.ts";
import { keepOnce, takeOnce } from "../one-time-values.ts";
import { START_AGAIN } from "../problem.ts";
import type { Call } from "../route.ts";
import { type AdmittedLogin, admitChallenge } from "../sign-in.ts";
import { codeFormIn, sendCodeForm } from "./code-form.ts";
import { stateAfter } from "./form.ts";
import { type Recipient, sendContinuation } from "./page.ts";
import { fieldsWithPasskey } from "./passkey-button.ts";
import { homeOf } from "./paths.ts";

// A sign-in in a browser, once the password, the provider or the e-mail has been verified.

/** Sets the cookie of a session, and continues; after the code of the second factor, if one is enabled. */
export async function signInBrowser(call: Call, login: AdmittedLogin, returnTo: string | null): Promise<void> {
  if (login.account.hasFactor) return askForCode(call, login, returnTo);
  await sendSession(call, login, returnTo);
}

/** Sets the cookie of a session, for a sign-in that has proved the second factor if there is one. */
export async function sendSession(call: Call, login: AdmittedLogin, returnTo: string | null): Promise<void> {
  await issue(call, login, COOKIE);
  continueAt(call, returnTo ?? homeOf(call.auth));
}

/**
 * A redirect to a path, if the browser sends the new cookie after it: that is, after a form of a page of this service, and not of a
 * provider. The host is that of the page, because the service may have several. A path that begins with // would name another host.
 */
function continueAt({ auth, request, response, attempt }: Call, url: string): void {
  const { origin, pathname, search, hash } = new URL(url);
  const isOwn = origin === new URL(auth.url).origin && !pathname.startsWith("//");
  const isAfterForm = request.method === "POST" && attempt.provider === null;
  if (isOwn && isAfterForm) response.redirect(303, pathname + search + hash);
  else sendContinuation({ auth, response }, url);
}

/** Where the browser continues after the code of the second factor, and with what. */
type Kept = { readonly returnTo: string | null; readonly mode: "session" | "token" };

/** The sign-in at the provider, or by e-mail, replaces the password, but not the second factor of the account. */
export async function askForCode(
  to: Recipient,
  login: Pick<AdmittedLogin, "provider" | "bySaml" | "byMail"> & {
    readonly account: Pick<Account, "id" | "epoch" | "factorKinds">;
  },
  returnTo: string | null,
  mode: Kept["mode"] = "session",
): Promise<void> {
  const { tokens, clock } = to.auth;
  const challenge = tokens.issueChallenge(login.account, login);
  const kept: Kept = { returnTo, mode };
  await keepOnce(to.auth, "return", hashOf(challenge), kept, clock() + CHALLENGE_SECONDS * 1000);
  sendCodeForm(to, { challenge, kinds: login.account.factorKinds });
}

/** Completes a sign-in with the code of the second factor. After a wrong one, the form is sent again. */
export async function completeWithCode(call: Call): Promise<void> {
  const { auth, client } = call;
  const form = await readForm(call.request);
  const codeForm = codeFormIn(form);
  const { challenge } = codeForm;
  try {
    const login = await admitChallenge(auth, proofOfChallenge(form), client);
    const kept = await takeOnce<Kept>(auth, "return", hashOf(challenge));
    if (kept === null) throw expired("the challenge is not one of a sign-in in a browser");
    await (kept.mode === "token" ? sendTokens : sendSession)(call, login, kept.returnTo);
  } catch (error) {
    if (error instanceof Problem && error.more.faults?.some(({ field }) => field === "code" || field === "passkey"))
      return sendCodeForm(call, codeForm, stateAfter(error, form));
    const isOver = isRefusal(error) && /challenge$/.test(error.reason);
    throw isOver ? expired(error.reason) : error;
  }
}

/** `detail` is for operators. */
const expired = (detail: string) => problem("expired", { hint: START_AGAIN, detail });

/** The code, or the passkey, that completes a sign-in. */
function proofOfChallenge(form: URLSearchParams): ChallengeInput {
  const fields = fieldsWithPasskey(form);
  if (fields.passkey === undefined) return parse(ChallengeBody, fields);
  const { challenge, passkey } = parse(ChallengePasskeyBody, fields);
  return { challenge, code: passkey };
}

/** Sends tokens, for programs. */
export async function sendTokens(call: Call, login: AdmittedLogin, returnTo: string | null): Promise<void> {
  const signedIn = await issue(call, login, SIGNED_IN);
  call.response.json({ ...signedIn, ...(returnTo !== null && { returnTo }) });
}

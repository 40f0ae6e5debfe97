import { createHash } from "node:crypto";
import { newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { describeProvider, providersOf } from "../../rest-gateway/auth/federated.ts";
import { type FormState, NEW_FORM, stateAfter } from "../../rest-gateway/auth/pages/form.ts";
import { sendContinuation } from "../../rest-gateway/auth/pages/page.ts";
import { fieldsWithPasskey } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { confirmationOf, sendAccountForm } from "./account-form.ts";
import { setFlash } from "./flash.ts";
import { LINK_IDENTITY_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

/** A code of the provider, with which the browser has come back, or a request for one. */
export async function linkOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  const signInCode = form.get("signInCode");
  if (signInCode === null) return beginLink(visit, form.get("provider") ?? "");
  try {
    const { federated } = visit.auth;
    if (federated === null) throw problem("invalid sign-in code");
    const body = { ...fieldsWithPasskey(form), codeVerifier: visit.flash.verifier ?? "" };
    await federated.link({ ...visit, body });
    continueAt(visit, ACCOUNT_PATH, { notice: "The identity is linked. You can sign in with it." });
  } catch (error) {
    sendLink(visit, signInCode, stateAfter(error, form));
  }
}

/** The browser signs in at the provider, with a challenge whose verifier only its cookie has. */
function beginLink(visit: AccountVisit, name: string): void {
  const { auth, account } = visit;
  const provider = providersOf(auth).find((each) => each.name === name);
  if (provider === undefined) throw problem("no such identity");
  const verifier = newSecret();
  setFlash(visit, account.id, { verifier });
  const { url } = auth;
  const query = new URLSearchParams({
    mode: "link",
    return_to: `${url}${LINK_IDENTITY_PATH}`,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
  });
  sendContinuation(visit, `${url}${describeProvider(provider).signIn}?${query}`);
}

/** `GET /auth/account/identities?sign_in_code=…`: the browser is back. Opening the page links nothing. */
export async function showLinkIdentity(visit: AccountVisit): Promise<void> {
  const signInCode = visit.query.get("sign_in_code");
  if (signInCode === null) throw problem("invalid sign-in code");
  sendLink(visit, signInCode, NEW_FORM);
}

function sendLink(visit: AccountVisit, signInCode: string, state: FormState): void {
  const about = "From then on, you can sign in to this account with the identity that the provider has just confirmed.";
  const form = { title: "Link this identity?", path: LINK_IDENTITY_PATH, about, button: "Link it" };
  sendAccountForm(visit, { ...form, fields: confirmationOf(visit), hidden: { signInCode } }, state);
}

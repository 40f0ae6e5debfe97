import { type Html, html } from "../../gate/pages/html.ts";
import { isRefusal } from "../../problems/problem.ts";
import { LoginBody, PasskeyLoginBody, parse } from "../../rest-gateway/auth/bodies.ts";
import {
  alertOf,
  type Field,
  type FormState,
  fieldsIn,
  formOf,
  NEW_FORM,
  stateAfter,
} from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { fieldsWithPasskey, passkeyButton } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH, pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { askForCode, sendSession, signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import { admitLogin, admitPasskey } from "../../rest-gateway/auth/sign-in.ts";
import { formPage } from "./form-page.ts";
import { CONFIRM_PATH, FORGOT_PATH, MAIL_SIGN_IN_PATH, PASSKEY_SIGN_IN_PATH, SIGN_UP_PATH } from "./paths.ts";
import { providerLinks } from "./providers.ts";
import { signedInUser, type Visit, withReturnTo } from "./visit.ts";

const FIELDS: readonly Field[] = [
  { name: "username", label: "E-mail or username", autocomplete: "username" },
  { name: "password", label: "Password", type: "password", autocomplete: "current-password", maxlength: 128 },
];

/** `GET /auth/sign-in` */
export async function showSignIn(visit: Visit): Promise<void> {
  const { auth, returnTo, query } = visit;
  const user = await signedInUser(visit);
  const why = WHY.get(query.get("why") ?? "");
  const next = returnTo ?? pathOf(auth, ACCOUNT_PATH);
  const known = user && html`<p class="notice">You are signed in as ${user.name}. <a href="${next}">Continue</a></p>`;
  sendSignIn(visit, NEW_FORM, why === undefined ? known : alertOf(why));
}

/** Why a page of the account has led to the sign-in. */
const WHY = new Map([
  ["ended", "Your session has ended. Sign in again."],
  ["recent", "For this, your sign-in must be recent. Sign in again."],
]);

/** `POST /auth/sign-in` */
export async function signInOnPage(visit: Visit, form: URLSearchParams): Promise<void> {
  const { auth, client, returnTo } = visit;
  try {
    const { username, password } = parse(LoginBody, fieldsIn(form));
    await signInBrowser(visit, await admitLogin(auth, { username, password, code: null }, client), returnTo);
  } catch (error) {
    const account = isRefusal(error) && error.reason === "second factor needed" ? error.more.account : undefined;
    if (account !== undefined) return askForCode(visit, { account }, returnTo);
    sendSignIn(visit, stateAfter(error, form));
  }
}

/** `POST /auth/sign-in/passkey` */
export const { submit: signInWithPasskeyOnPage } = formPage(sendSignIn, async (visit: Visit, form) => {
  const { passkey } = parse(PasskeyLoginBody, fieldsWithPasskey(form));
  await sendSession(visit, await admitPasskey(visit.auth, passkey, visit.client), visit.returnTo);
});

function sendSignIn(visit: Visit, state: FormState, before: Html | null = null): void {
  const { auth } = visit;
  const link = (path: string, text: string) => html`<a href="${withReturnTo(visit, path)}">${text}</a>`;
  const hasMail = auth.mails?.isOn;
  const form = {
    action: withReturnTo(visit, SIGN_IN_PATH),
    fields: FIELDS,
    button: "Sign in",
    isFocused: true,
    extra: hasMail ? html`<p class="aside">${link(FORGOT_PATH, "Forgot your password?")}</p>` : null,
  };
  const others = [
    isSignupOpen(auth.settings) ? html`New here? ${link(SIGN_UP_PATH, "Create an account")}` : null,
    hasMail ? link(MAIL_SIGN_IN_PATH, "Sign in without a password") : null,
    hasMail && auth.settings.emailConfirm === "required" ? link(CONFIRM_PATH, "Confirm your e-mail") : null,
  ].filter((each) => each !== null);
  const passkey = passkeyButton(auth, "Sign in with a passkey");
  const main = html`${before}
${formOf(form, state)}
${passkey && html`<form method="post" action="${withReturnTo(visit, PASSKEY_SIGN_IN_PATH)}">${passkey}</form>`}
${providerLinks(visit)}
${others.length === 0 ? null : html`<ul class="links">${others.map((each) => html`<li>${each}</li>`)}</ul>`}`;
  sendPage(visit, {
    title: "Sign in",
    status: state.status,
    main,
    namesOrigin: true,
    hasPasskeyButton: passkey !== null,
  });
}

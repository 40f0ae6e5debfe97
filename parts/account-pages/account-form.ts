import { type Html, html } from "../../gate/pages/html.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { isRecent } from "../../rest-gateway/auth/confirmation.ts";
import { codeFieldOf, passkeyForCode } from "../../rest-gateway/auth/pages/code-form.ts";
import { CODE_FIELD, type Field, type Form, type FormState, formOf } from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { ACCOUNT_PATH, pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import type { AccountVisit } from "./visit.ts";

const PASSWORD: Field = {
  name: "password",
  label: "Your password",
  type: "password",
  autocomplete: "current-password",
  maxlength: 128,
};

/** The password, as JSON bodies call it in a confirmation. */
export const currentPassword = (name = PASSWORD.name, label = PASSWORD.label): Field => ({ ...PASSWORD, name, label });

/** What a user sends again to confirm a change: nothing after a recent sign-in, otherwise the password and the code. */
export const confirmationOf = (visit: AccountVisit): readonly Field[] => {
  const { auth, account, signedIn } = visit;
  if (isRecent(auth, signedIn)) return [];
  return account.hasFactor ? [PASSWORD, codeFieldOf(account)] : [PASSWORD];
};

/** The same for a change that always needs them. */
export const alwaysConfirmed = ({ account }: AccountVisit): readonly Field[] => [
  ...(account.passwordHash === null ? [] : [PASSWORD]),
  ...(account.hasFactor ? [codeFieldOf(account)] : []),
];

/** Whether the user can neither send a password nor has signed in recently: then a sign-in comes first. */
export const mustSignIn = ({ auth, account, signedIn }: AccountVisit): boolean =>
  account.passwordHash === null && !isRecent(auth, signedIn);

type AccountForm = Omit<Form, "action" | "hidden"> & {
  readonly title: string;
  readonly path: string;
  readonly about: Html | string;
  readonly hidden?: Readonly<Record<string, string>>;
  readonly hasPasskeyButton?: true;
};

/** A page with one change of the account. */
export function sendAccountForm(visit: AccountVisit, form: AccountForm, state: FormState): void {
  const { auth, account, csrf } = visit;
  const { title, path, about, hidden = {} } = form;
  const back = html`<ul class="links"><li><a href="${pathOf(auth, ACCOUNT_PATH)}">Back to your account</a></li></ul>`;
  const action = pathOf(auth, path);
  const hasCode = form.fields.some(({ name }) => name === CODE_FIELD.name);
  const passkey = hasCode ? passkeyForCode(auth, account) : null;
  const username = form.fields.some(({ type }) => type === "password") ? account.username : null;
  const again = `${pathOf(auth, SIGN_IN_PATH)}?${new URLSearchParams({ return_to: action })}`;
  const content = mustSignIn(visit)
    ? html`<p>For this, your sign-in must be recent.</p><p><a class="button" href="${again}">Sign in again</a></p>`
    : formOf({ isFocused: true, username, after: passkey, ...form, action, hidden: { csrf, ...hidden } }, state);
  const main = html`${typeof about === "string" ? html`<p>${about}</p>` : about}
${content}
${back}`;
  const hasPasskeyButton = passkey !== null || form.hasPasskeyButton === true;
  sendPage(visit, { title, status: state.status, main, namesOrigin: true, hasPasskeyButton });
}

/** What has happened. */
export const noticeOf = (text: string): Html => html`<p class="notice" role="status">${text}</p>`;

export const EMAIL: Field = { name: "email", label: "E-mail", type: "email", autocomplete: "email" };

/** A form of a button alone, on a page of a signed-in user. `name` is that of the button for people who do not see the list around it. */
export const actionOf = (
  { auth, csrf }: { readonly auth: Auth; readonly csrf: string },
  path: string,
  hidden: Readonly<Record<string, string>>,
  button: string,
  look: "quiet" | "danger" | "plain",
  name = button,
): Html =>
  html`<form class="inline" method="post" action="${pathOf(auth, path)}">${Object.entries({ csrf, ...hidden }).map(
    ([field, value]) => html`<input type="hidden" name="${field}" value="${value}">`,
  )}<button class="${look}"${name === button ? null : html` aria-label="${name}"`}>${button}</button></form>`;

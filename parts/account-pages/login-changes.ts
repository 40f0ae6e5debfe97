import { html } from "../../gate/pages/html.ts";
import { EmailBody, PasswordBody, parse } from "../../rest-gateway/auth/bodies.ts";
import { changePassword, replaceEmail } from "../../rest-gateway/auth/login-changes.ts";
import { codeFieldOf } from "../../rest-gateway/auth/pages/code-form.ts";
import { type FormState, newPasswordField } from "../../rest-gateway/auth/pages/form.ts";
import { fieldsWithPasskey } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH, pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { confirmationOf, currentPassword, EMAIL, sendAccountForm } from "./account-form.ts";
import { formPage } from "./form-page.ts";
import { EMAIL_PATH, FORGOT_PATH, PASSWORD_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

/** `/auth/account/password` */
export const passwordPage = formPage(sendPassword, async (visit, form) => {
  await changePassword({ ...visit, body: parse(PasswordBody, fieldsWithPasskey(form)) });
  continueAt(visit, ACCOUNT_PATH, { notice: "The password is changed. All other sign-ins have ended." });
});

function sendPassword(visit: AccountVisit, state: FormState): void {
  const { auth, account } = visit;
  const { passwordHash, hasFactor } = account;
  const fields = [
    ...(passwordHash === null ? [] : [currentPassword("oldPassword", "Current password")]),
    { ...newPasswordField(auth, "New password"), name: "newPassword" },
    ...(hasFactor ? [codeFieldOf(account)] : []),
  ];
  const title = passwordHash === null ? "Set a password" : "Change your password";
  const forgot =
    auth.mails?.isOn && passwordHash !== null
      ? html`<p class="aside"><a href="${pathOf(auth, FORGOT_PATH)}">Forgot your password?</a></p>`
      : null;
  const about = "All other sign-ins of your account end. API keys stay valid.";
  sendAccountForm(visit, { title, path: PASSWORD_PATH, about, fields, button: title, extra: forgot }, state);
}

/** `/auth/account/e-mail` */
export const emailPage = formPage(sendEmail, async (visit, form) => {
  const body = parse(EmailBody, fieldsWithPasskey(form));
  const isPending = (await replaceEmail({ ...visit, body })) === "pending";
  const notice = isPending
    ? `An e-mail is on its way to ${body.email}. Its link changes your e-mail.`
    : `You sign in with ${body.email} from now on.`;
  continueAt(visit, ACCOUNT_PATH, { notice });
});

function sendEmail(visit: AccountVisit, state: FormState): void {
  const fields = [{ ...EMAIL, label: "New e-mail" }, ...confirmationOf(visit)];
  const about = `You sign in with ${visit.account.email} now.`;
  const button = "Change the e-mail";
  sendAccountForm(visit, { title: "Change your e-mail", path: EMAIL_PATH, about, fields, button }, state);
}

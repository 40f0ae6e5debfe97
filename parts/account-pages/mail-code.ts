import { html } from "../../gate/pages/html.ts";
import { parse } from "../../rest-gateway/auth/bodies.ts";
import { MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import { mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { CODE_FIELD, type FormState, fieldsIn, formOf } from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { formPage } from "./form-page.ts";
import { MAIL_CODE_PATH, MAIL_SIGN_IN_PATH } from "./paths.ts";
import { type Visit, withReturnTo } from "./visit.ts";

const PURPOSE = "mail code";

/** Where the user enters the code of the e-mail. The address is encrypted, because URLs are logged. */
export function mailCodeUrl({ auth, returnTo }: Visit, email: string): string {
  const to = auth.pageBox.seal(email, PURPOSE).toString("base64url");
  return `${pathOf(auth, MAIL_CODE_PATH)}?${new URLSearchParams({ to, ...(returnTo !== null && { return_to: returnTo }) })}`;
}

/** `/auth/sign-in/e-mail/code?to=…`, the same for every address: signs in as `POST /auth/login/code` does. */
export const mailCodePage = formPage(sendMailCode, async (visit: Visit, form) => {
  const sent = parse(MailCodeBody, { ...fieldsIn(form), email: addressIn(visit, toIn(form)) ?? "" });
  const login = await mailsIn(visit.auth).takeCode(visit, sent, ["sign-in"], "wrong mail code");
  await signInBrowser(visit, login, visit.returnTo);
});

const toIn = (sent: URLSearchParams): string => sent.get("to") ?? "";

const addressIn = ({ auth }: Visit, to: string): string | null =>
  auth.pageBox.open(Buffer.from(to, "base64url"), PURPOSE);

function sendMailCode(visit: Visit, state: FormState): void {
  const to = toIn(state.values ?? visit.query);
  const email = addressIn(visit, to);
  const again = withReturnTo(visit, MAIL_SIGN_IN_PATH);
  // Of a service with another secret, or cut off.
  if (email === null) {
    visit.response.redirect(303, again);
    return;
  }
  const form = {
    action: withReturnTo(visit, MAIL_CODE_PATH),
    fields: [{ ...CODE_FIELD, label: "Code of the e-mail", maxlength: 10 }],
    hidden: { to },
    button: "Sign in",
    isFocused: true,
  };
  const main = html`<p>We have sent an e-mail to ${email}. Open its link, or enter its code here.
It arrives within a few minutes. If not, look into the folder for spam, and check the address.</p>
${formOf(form, state)}
<ul class="links"><li><a href="${again}">Request another e-mail</a></li></ul>`;
  sendPage(visit, { title: "Check your e-mail", status: state.status, main, namesOrigin: true });
}

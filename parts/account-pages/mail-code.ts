import { html } from "../../gate/pages/html.ts";
import { parse } from "../../rest-gateway/auth/bodies.ts";
import { MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import { mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import {
  CODE_FIELD,
  type FormState,
  fieldsIn,
  formOf,
  NEW_FORM,
  stateAfter,
} from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { MAIL_CODE_PATH, MAIL_SIGN_IN_PATH } from "./paths.ts";
import { type Visit, withReturnTo } from "./visit.ts";

const PURPOSE = "mail code";

/** Where the user enters the code of the e-mail. The address is encrypted, because URLs are logged. */
export function mailCodeUrl({ auth, returnTo }: Visit, email: string): string {
  const to = auth.pageBox.seal(email, PURPOSE).toString("base64url");
  return `${pathOf(auth, MAIL_CODE_PATH)}?${new URLSearchParams({ to, ...(returnTo !== null && { return_to: returnTo }) })}`;
}

/** `GET /auth/sign-in/e-mail/code?to=…`: the same for every address. */
export const showMailCode = async (visit: Visit) => sendMailCode(visit, visit.query.get("to") ?? "");

/** `POST /auth/sign-in/e-mail/code`: signs in as `POST /auth/login/code` does. */
export async function signInWithMailCode(visit: Visit, form: URLSearchParams): Promise<void> {
  const to = form.get("to") ?? "";
  try {
    const sent = parse(MailCodeBody, { ...fieldsIn(form), email: addressIn(visit, to) ?? "" });
    const login = await mailsIn(visit.auth).takeCode(visit, sent, ["sign-in"], "wrong mail code");
    await signInBrowser(visit, login, visit.returnTo);
  } catch (error) {
    sendMailCode(visit, to, stateAfter(error, form));
  }
}

const addressIn = ({ auth }: Visit, to: string): string | null =>
  auth.pageBox.open(Buffer.from(to, "base64url"), PURPOSE);

function sendMailCode(visit: Visit, to: string, state: FormState = NEW_FORM): void {
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

import { html } from "../../gate/pages/html.ts";
import { problem } from "../../problems/problem.ts";
import { parse } from "../../rest-gateway/auth/bodies.ts";
import { MailBody } from "../../rest-gateway/auth/mail/bodies.ts";
import { mailsIn, type RequestedKind } from "../../rest-gateway/auth/mail/mails.ts";
import { type FormState, fieldsIn, formOf } from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { EMAIL } from "./account-form.ts";
import { formPage } from "./form-page.ts";
import { mailCodeUrl } from "./mail-code.ts";
import { CONFIRM_PATH, FORGOT_PATH, MAIL_SIGN_IN_PATH } from "./paths.ts";
import { type Visit, withReturnTo } from "./visit.ts";

/** A page on which a user requests an e-mail. What follows is the same for every address. */
type Request = {
  readonly path: string;
  readonly title: string;
  readonly about: string;
  readonly button: string;
  /** Where the browser continues; at the page for the code of the e-mail if it is null. */
  readonly done: "confirm-sent" | "reset-sent" | null;
};

type PageKind = Exclude<RequestedKind, "change">;

const REQUESTS: Readonly<Record<PageKind, Request>> = {
  reset: {
    path: FORGOT_PATH,
    title: "Forgot your password?",
    about: "We send you an e-mail with a link to choose a new one.",
    button: "Send the e-mail",
    done: "reset-sent",
  },
  confirm: {
    path: CONFIRM_PATH,
    title: "Confirm your e-mail",
    about: "We send you an e-mail with a link that confirms your address.",
    button: "Send the e-mail",
    done: "confirm-sent",
  },
  "sign-in": {
    path: MAIL_SIGN_IN_PATH,
    title: "Sign in without a password",
    about: "We send you an e-mail with a link and a code, each of which signs you in.",
    button: "Send the e-mail",
    done: null,
  },
};

/** Adds the e-mail as the JSON route does. */
export const requestPage = (kind: PageKind) =>
  formPage(
    (visit: Visit, state) => sendRequest(visit, kind, state),
    async (visit, form) => {
      const { auth, response, returnTo } = visit;
      const { done } = REQUESTS[kind];
      const { email } = parse(MailBody, fieldsIn(form));
      await mailsIn(auth).request(visit, kind, email, { returnTo });
      response.redirect(303, done === null ? mailCodeUrl(visit, email) : mailsIn(auth).doneUrl(auth, done));
    },
  );

function sendRequest(visit: Visit, kind: PageKind, state: FormState): void {
  if (!visit.auth.mails?.isOn) throw problem("no mail");
  const { path, title, about, button } = REQUESTS[kind];
  const form = { action: withReturnTo(visit, path), fields: [EMAIL], button, isFocused: true };
  const main = html`<p>${about}</p>
${formOf(form, state)}
<ul class="links"><li><a href="${withReturnTo(visit, SIGN_IN_PATH)}">Back to the sign-in</a></li></ul>`;
  sendPage(visit, { title, status: state.status, main, namesOrigin: true });
}

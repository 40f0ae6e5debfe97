import { z } from "zod";
import { html } from "../../gate/pages/html.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { faultsOf, text } from "../../rest-gateway/auth/bodies.ts";
import { address, NAME_LENGTH } from "../../rest-gateway/auth/mail/bodies.ts";
import { mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { type FormState, fieldsIn, formOf, NAME, newPasswordField } from "../../rest-gateway/auth/pages/form.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import { badFields, refuseUser } from "../../rest-gateway/auth/problem.ts";
import { isSignupOpen, signUp } from "../../rest-gateway/auth/registration.ts";
import { EMAIL } from "./account-form.ts";
import { formPage } from "./form-page.ts";
import { SIGN_UP_PATH } from "./paths.ts";
import { providerLinks } from "./providers.ts";
import { type Visit, withReturnTo } from "./visit.ts";

const Input = z.object({
  name: text(NAME_LENGTH, {}),
  email: address("The e-mail to sign in with."),
});

/** `/auth/sign-up`: creates the account, and signs the user in unless the e-mail has to be confirmed first. */
export const signUpPage = formPage(sendSignUp, async (visit: Visit, form) => {
  const { auth, response, client, returnTo } = visit;
  const { password, ...fields } = read(auth, form);
  const { account } = await signUp(visit, { fields, username: null }, password).catch(refuseUser);
  if (account === null) return response.redirect(303, mailsIn(auth).doneUrl(auth, "confirm-sent", returnTo));
  await signInBrowser(visit, { account, attempt: [], address: client.address }, returnTo);
});

/** Throws a Problem that names every fault. */
function read({ passwordRules }: Auth, form: URLSearchParams): z.infer<typeof Input> & { readonly password: string } {
  const fields = fieldsIn(form);
  const { password } = fields;
  const { data, error } = Input.safeParse(fields);
  const ofPassword = password === undefined ? ["password is required"] : passwordRules.faults(password);
  const faults = [
    ...(error?.issues ?? []).flatMap((issue) => faultsOf(issue)),
    ...ofPassword.map((message) => ({ field: "password", message })),
  ];
  if (faults.length > 0) throw badFields(faults);
  return { ...data!, password: password! };
}

function sendSignUp(visit: Visit, state: FormState): void {
  if (!isSignupOpen(visit.auth.settings)) throw problem("sign-up closed");
  const form = {
    action: withReturnTo(visit, SIGN_UP_PATH),
    fields: [NAME, EMAIL, newPasswordField(visit.auth)],
    button: "Create the account",
    isFocused: true,
  };
  const main = html`${formOf(form, state)}
${providerLinks(visit)}
<ul class="links"><li>You have an account? <a href="${withReturnTo(visit, SIGN_IN_PATH)}">Sign in</a></li></ul>`;
  sendPage(visit, { title: "Create an account", status: state.status, main, namesOrigin: true });
}

import { html } from "../../../http/pages/html.ts";
import { CODE_FIELD, type FormState, formOf, NEW_FORM } from "./form.ts";
import { type Recipient, sendPage } from "./page.ts";
import { CODE_PATH, pathOf } from "./paths.ts";

/** Asks for the code of the second factor. The challenge says whose; its password, provider or e-mail has been verified. */
export function sendCodeForm(to: Recipient, challenge: string, state: FormState = NEW_FORM): void {
  const form = formOf(
    {
      action: pathOf(to.auth, CODE_PATH),
      fields: [{ ...CODE_FIELD, label: "Code" }],
      hidden: { challenge },
      button: "Sign in",
      isFocused: true,
    },
    state,
  );
  const main = html`<p>Enter the code that your authenticator app shows, or a backup code.</p>\n${form}`;
  sendPage(to, { title: "One more step", status: state.status, main });
}

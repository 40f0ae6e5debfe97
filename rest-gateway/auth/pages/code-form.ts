import { type Html, html } from "../../../gate/pages/html.ts";
import type { Account } from "../../../identity/account.ts";
import type { Auth } from "../auth.ts";
import { CODE_FIELD, type Field, type FormState, formOf, NEW_FORM } from "./form.ts";
import { type Recipient, sendPage } from "./page.ts";
import { passkeyButton } from "./passkey-button.ts";
import { CODE_PATH, pathOf } from "./paths.ts";

/** The button of a form with a code. Null without a passkey. */
export const passkeyForCode = (auth: Auth, { factorKinds }: Account): Html | null =>
  factorKinds.includes("passkey") ? passkeyButton(auth, "Use a passkey instead of the code") : null;

/** A passkey replaces the code: /assets/passkeys.js adds it. */
export const codeFieldOf = ({ factorKinds }: Account): Field =>
  factorKinds.includes("totp") ? CODE_FIELD : { ...CODE_FIELD, label: "A backup code" };

export type CodeForm = {
  /** Says whose second factor it is; the password, the provider or the e-mail has been verified. */
  readonly challenge: string;
  readonly kinds: Account["factorKinds"];
};

/** The form of a browser that completes a sign-in. `kinds` only chooses what the page offers. */
export const codeFormIn = (form: URLSearchParams): CodeForm => ({
  challenge: form.get("challenge") ?? "",
  kinds: KINDS.filter((kind) => form.get("kinds")?.split(" ").includes(kind)),
});

const KINDS = ["totp", "passkey"] as const;

/** Asks for the code of the second factor, or for a passkey. */
export function sendCodeForm(to: Recipient, { challenge, kinds }: CodeForm, state: FormState = NEW_FORM): void {
  const passkey = kinds.includes("passkey") ? passkeyButton(to.auth, "Use a passkey") : null;
  const hasApp = kinds.includes("totp");
  const form = formOf(
    {
      action: pathOf(to.auth, CODE_PATH),
      fields: [{ ...CODE_FIELD, label: hasApp ? "Code" : "Backup code" }],
      hidden: { challenge, kinds: kinds.join(" ") },
      button: "Sign in",
      after: passkey,
      isFocused: true,
    },
    state,
  );
  const about = hasApp
    ? "Enter the code that your authenticator app shows, or a backup code."
    : "Use your passkey. Without it, enter a backup code.";
  const main = html`<p>${about}</p>\n${form}`;
  sendPage(to, { title: "One more step", status: state.status, main, hasPasskeyButton: passkey !== null });
}

import type { Html } from "../../../gate/pages/html.ts";
import type { Account } from "../../../identity/account.ts";
import type { Auth } from "../auth.ts";
import { CODE_FIELD, type Field } from "./form.ts";
import { passkeyButton } from "./passkey-button.ts";

/** The button of a form with a code. Null without a passkey. */
export const passkeyForCode = (auth: Auth, { factorKinds }: Account): Html | null =>
  factorKinds.includes("passkey") ? passkeyButton(auth, "Use a passkey instead of the code") : null;

/** A passkey replaces the code: /assets/passkeys.js adds it. */
export const codeFieldOf = ({ factorKinds }: Account): Field =>
  factorKinds.includes("totp") ? CODE_FIELD : { ...CODE_FIELD, label: "A backup code" };

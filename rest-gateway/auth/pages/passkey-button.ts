import { type Html, html } from "../../../gate/pages/html.ts";
import type { Auth } from "../auth.ts";
import { fieldsIn } from "./form.ts";
import { pathOf } from "./paths.ts";

// The only script of the pages, /assets/passkeys.js, shows these buttons where the browser has passkeys.

const CHALLENGE_PATH = "/auth/passkeys/challenge";

/** A button that sends its form with a passkey of the user, in the field `passkey`. Null if browsers allow no passkeys here. */
export const passkeyButton = (auth: Auth, text: string): Html | null =>
  placeOf(auth, text, "passkey", html`data-passkey="get" data-url="${pathOf(auth, CHALLENGE_PATH)}"`);

export function placeOf({ passkeys }: Auth, text: string, name: string, use: Html): Html | null {
  if (!passkeys?.isOn) return null;
  const look = name === "credential" ? null : html` class="quiet"`;
  return html`<div class="passkey" ${use} data-domain="${passkeys.domain}" hidden><input type="hidden" name="${name}">
<button type="button"${look}>${text}</button>
<p class="fault"></p></div>`;
}

/** The fields of a form, as a JSON body would have them: a passkey is an object. */
export function fieldsWithPasskey(form: URLSearchParams): Readonly<Record<string, unknown>> {
  const fields = Object.entries(fieldsIn(form));
  return Object.fromEntries(fields.map(([name, value]) => [name, PASSKEYS.has(name) ? jsonIn(value!) : value]));
}

const PASSKEYS = new Set(["passkey", "credential"]);

/** What is not JSON stays a text, which is refused as no credential. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

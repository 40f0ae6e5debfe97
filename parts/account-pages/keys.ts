import { html } from "../../gate/pages/html.ts";
import { KeyBody, parse } from "../../rest-gateway/auth/bodies.ts";
import { createKey } from "../../rest-gateway/auth/keys.ts";
import type { Field, FormState } from "../../rest-gateway/auth/pages/form.ts";
import { fieldsWithPasskey } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { confirmationOf, sendAccountForm } from "./account-form.ts";
import { formPage } from "./form-page.ts";
import { KEYS_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

const DAY = 86_400;
/** Seconds for which a key is valid. */
const PERIODS = { "30 days": 30 * DAY, "90 days": 90 * DAY, "A year": 365 * DAY, "Until it is revoked": null } as const;

const FIELDS: readonly Field[] = [
  { name: "name", label: "What is it for?", autocomplete: "off", maxlength: 100 },
  { name: "period", label: "Valid for", autocomplete: "off", options: Object.keys(PERIODS) },
];

/** `/auth/account/keys` */
export const newKeyPage = formPage(sendNewKey, async (visit, form) => {
  const { csrf: _csrf, period: _period, ...fields } = fieldsWithPasskey(form);
  const period = form.get("period") ?? "";
  const expiresIn = Object.hasOwn(PERIODS, period) ? PERIODS[period as keyof typeof PERIODS] : PERIODS["30 days"];
  const { key } = await createKey({ ...visit, body: parse(KeyBody, { ...fields, expiresIn }) });
  continueAt(visit, ACCOUNT_PATH, { key });
});

function sendNewKey(visit: AccountVisit, state: FormState): void {
  const about = html`<p>A program that sends the key in <code>X-API-Key</code> acts as you.</p>`;
  const form = { title: "Create an API key", path: KEYS_PATH, about, button: "Create the key" };
  sendAccountForm(visit, { ...form, fields: [...FIELDS, ...confirmationOf(visit)] }, state);
}

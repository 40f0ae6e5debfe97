import { badge, type Html, html, timeOf } from "../../gate/pages/html.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { ConfirmationBody, EnrolmentBody, parse } from "../../rest-gateway/auth/bodies.ts";
import { deviceOf } from "../../rest-gateway/auth/device.ts";
import { type Field, type FormState, fieldsIn, NEW_FORM } from "../../rest-gateway/auth/pages/form.ts";
import { fieldsWithPasskey, placeOf } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH, pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { NewPasskeyBody, PasskeyNameBody } from "../../rest-gateway/auth/passkeys/bodies.ts";
import { type PasskeyDescription, passkeysIn } from "../../rest-gateway/auth/passkeys/passkeys.ts";
import { alwaysConfirmed, confirmationOf, sendAccountForm } from "./account-form.ts";
import { idIn } from "./changes.ts";
import { formPage } from "./form-page.ts";
import { CREATED_PASSKEY_PATH, PASSKEY_NAME_PATH, PASSKEYS_PATH, REMOVED_PASSKEY_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

const NAME: Field = { name: "name", label: "Name of the passkey", autocomplete: "off", maxlength: 100 };

const actionsOf = ({ auth }: AccountVisit) => passkeysIn(auth).actions;

/** The section of the account page. Null if no part brings passkeys, or browsers allow no passkeys here, and the user has none. */
export async function passkeysOf(visit: AccountVisit): Promise<Html | null> {
  const { auth } = visit;
  if (auth.passkeys === null) return null;
  const { data } = await auth.passkeys.actions.list(visit);
  if (!auth.passkeys.isOn && data.length === 0) return null;
  const link = (path: string, id: string, text: string, name: string) =>
    html`<a href="${pathOf(auth, path)}?${new URLSearchParams({ id }).toString()}" aria-label="${text} ${name}">${text}</a>`;
  const items = data.map(
    ({ id, name, isSynced, createdAt, lastUsedAt }) => html`<li>
<div><strong>${name}</strong> ${isSynced ? badge("synced", "muted") : null}
<p class="hint">Added ${timeOf(createdAt)}, ${lastUsedAt === null ? "never used" : html`last used ${timeOf(lastUsedAt)}`}</p></div>
<p class="row">${link(PASSKEY_NAME_PATH, id, "Rename", name)} ${link(REMOVED_PASSKEY_PATH, id, "Remove", name)}</p>
</li>\n`,
  );
  return html`<section>
<h2>Passkeys</h2>
<p class="muted">A passkey is on your device or in your password manager. It signs you in alone, and is a second factor.</p>
${items.length === 0 ? null : html`<ul class="items">${items}</ul>`}
${auth.passkeys.isOn ? html`<p><a class="button quiet" href="${pathOf(auth, PASSKEYS_PATH)}">Add a passkey</a></p>` : null}
</section>`;
}

function sendNewPasskey(visit: AccountVisit, state: FormState): void {
  const about = visit.account.hasFactor
    ? "Your browser asks where to keep it."
    : "Your browser asks where to keep it. From then on, your password alone no longer signs you in, and all other sign-ins of your account end. You get backup codes.";
  const device = deviceOf(visit.request, visit.client.address).name;
  const fields = [{ ...NAME, ...(device !== null && { value: device }) }, ...confirmationOf(visit)];
  sendAccountForm(visit, { title: "Add a passkey", path: PASSKEYS_PATH, about, fields, button: "Continue" }, state);
}

/** `/auth/account/passkeys`: continues at the page on which the browser creates the passkey. */
export const newPasskeyPage = formPage(sendNewPasskey, async (visit, form) => {
  const { name, ...confirmation } = fieldsWithPasskey(form);
  const hidden = parse(PasskeyNameBody, { name });
  const options = await actionsOf(visit).begin(visit, parse(EnrolmentBody, confirmation));
  const button = newPasskeyButton(visit.auth, "Create the passkey", options);
  const without = html`<p class="alert" data-without-passkeys>This browser creates no passkeys here: it needs JavaScript, and a version of 2025 or later.</p>`;
  const page = {
    ...{ title: "Create the passkey", path: CREATED_PASSKEY_PATH, about: "Your browser guides you through it." },
    ...{ fields: [], hidden, extra: html`${button}${without}`, button: null, hasPasskeyButton: true as const },
  };
  sendAccountForm(visit, page, NEW_FORM);
});

/** `POST /auth/account/passkeys/created` */
export const { submit: addPasskeyOnPage } = formPage(sendNewPasskey, async (visit, form) => {
  const body = parse(NewPasskeyBody, fieldsWithPasskey(form));
  const { backupCodes } = await actionsOf(visit).add({ ...visit, body });
  const notice = "The passkey is added. You can sign in with it.";
  continueAt(visit, ACCOUNT_PATH, { notice, ...(backupCodes && { codes: backupCodes }) });
});

/** `/auth/account/passkeys/name?id=…` */
export const passkeyNamePage = formPage(sendName, async (visit, form) => {
  const { id } = await passkeyIn(visit, form);
  await actionsOf(visit).rename({ ...visit, id, body: parse(PasskeyNameBody, fieldsIn(form)) });
  continueAt(visit, ACCOUNT_PATH, { notice: "The passkey is renamed." });
});

async function sendName(visit: AccountVisit, state: FormState): Promise<void> {
  const { id, name } = await passkeyIn(visit, state.values ?? visit.query);
  const form = { title: "Rename the passkey", path: PASSKEY_NAME_PATH, about: `It is called “${name}” now.` };
  const fields = [{ ...NAME, value: name }];
  sendAccountForm(visit, { ...form, fields, hidden: { id }, button: "Rename it" }, state);
}

/** `/auth/account/passkeys/removed?id=…` */
export const passkeyRemovalPage = formPage(sendRemoval, async (visit, form) => {
  const { id } = await passkeyIn(visit, form);
  await actionsOf(visit).remove({ ...visit, id, body: parse(ConfirmationBody, fieldsWithPasskey(form)) });
  continueAt(visit, ACCOUNT_PATH, { notice: "The passkey is removed." });
});

async function sendRemoval(visit: AccountVisit, state: FormState): Promise<void> {
  const { id, name } = await passkeyIn(visit, state.values ?? visit.query);
  const about = `“${name}” no longer signs you in. Delete it on your device too.`;
  const form = { title: "Remove the passkey", path: REMOVED_PASSKEY_PATH, about, hidden: { id } };
  sendAccountForm(visit, { ...form, fields: alwaysConfirmed(visit), button: "Remove it", isDanger: true }, state);
}

/** The passkey that the page, or its form, is about. Rejects with Problem if it is none of the user. */
async function passkeyIn(visit: AccountVisit, sent: URLSearchParams): Promise<PasskeyDescription> {
  const id = idIn(sent);
  const found = (await actionsOf(visit).list(visit)).data.find((each) => each.id === id);
  if (found === undefined) throw problem("no such passkey");
  return found;
}

/** A button that sends its form with a new passkey, in the field `credential`. */
const newPasskeyButton = (auth: Auth, text: string, options: object): Html | null =>
  placeOf(auth, text, "credential", html`data-passkey="create" data-options="${JSON.stringify(options)}"`);

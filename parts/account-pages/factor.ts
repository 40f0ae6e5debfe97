import { z } from "zod";
import { type Html, html } from "../../gate/pages/html.ts";
import { problem } from "../../problems/problem.ts";
import { CodeBody, ConfirmationBody, EnrolmentBody, NAME, parse } from "../../rest-gateway/auth/bodies.ts";
import { enableFactor, listFactors } from "../../rest-gateway/auth/factors.ts";
import { beginOwnFactor, removeOwnFactor, renewBackupCodes } from "../../rest-gateway/auth/mfa.ts";
import {
  CODE_FIELD,
  type Field,
  type FormState,
  fieldsIn,
  NEW_FORM,
  stateAfter,
} from "../../rest-gateway/auth/pages/form.ts";
import { fieldsWithPasskey } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { ACCOUNT_PATH, pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { wrongCode } from "../../rest-gateway/auth/problem.ts";
import { currentSignInOf } from "../../rest-gateway/auth/route.ts";
import { alwaysConfirmed, confirmationOf, sendAccountForm } from "./account-form.ts";
import { idIn } from "./changes.ts";
import { formPage } from "./form-page.ts";
import { BACKUP_CODES_PATH, FACTOR_CODE_PATH, FACTOR_PATH, REMOVED_APP_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

/** An authenticator app that is enabled. */
type App = { readonly id: string; readonly name: string };

/** What the first app is called, which has no name. */
const FIRST = "Authenticator app";

const AppName = z.object({ name: NAME("What the user calls the app.") });
const NAME_FIELD: Field = { name: "name", label: "Name of the app", autocomplete: "off", maxlength: 100 };

/** Oldest first. */
const appsOf = async ({ auth, account }: AccountVisit): Promise<readonly App[]> =>
  (await listFactors(auth, account.id)).flatMap(({ id, name, secret }) =>
    secret === null ? [] : [{ id, name: name === "" ? FIRST : name }],
  );

/** The section of the account page; null without an app. */
export async function appsSection(visit: AccountVisit): Promise<Html | null> {
  const { auth } = visit;
  const apps = await appsOf(visit);
  if (apps.length === 0) return null;
  const remove = pathOf(auth, REMOVED_APP_PATH);
  const items = apps.map(
    ({ id, name }) => html`<li>
<strong>${name}</strong>
<p class="row"><a href="${remove}?${new URLSearchParams({ id }).toString()}" aria-label="Remove ${name}">Remove</a></p>
</li>\n`,
  );
  return html`<section>
<h2>Authenticator apps</h2>
<p class="muted">A code of any of them completes a sign-in with your password.</p>
<ul class="items">${items}</ul>
<p><a class="button quiet" href="${pathOf(auth, FACTOR_PATH)}">Add another app</a></p>
</section>`;
}

/** `/auth/account/second-factor`: shows the secret of a new app. Each app but the first has a name. */
export const newAppPage = formPage(sendFactor, async (visit, form) => {
  const fields = fieldsWithPasskey(form);
  const name = hasApp(visit) ? parse(AppName, fields).name : null;
  const { id, secret, qrCode } = await beginOwnFactor(visit, parse(EnrolmentBody, fields), name);
  sendSecret(visit, { secret, qrCode, factor: name === null ? "" : id }, NEW_FORM);
});

/** Passkeys are second factors too. */
const hasApp = ({ account }: AccountVisit) => account.factorKinds.includes("totp");

function sendFactor(visit: AccountVisit, state: FormState): void {
  const others =
    "Each sign-in then needs a code of an authenticator app too, such as Aegis, Google Authenticator or a password manager. All other sign-ins of your account end.";
  const form = hasApp(visit)
    ? { title: "Add another app", about: "Its codes are accepted too.", fields: [NAME_FIELD] }
    : { title: "Set up a second factor", about: others, fields: [] };
  const fields = [...form.fields, ...confirmationOf(visit)];
  sendAccountForm(visit, { ...form, fields, button: "Continue", path: FACTOR_PATH }, state);
}

/** `factor` is the id of a further app; "" for the first one. */
type Secret = { readonly secret: string; readonly qrCode: string; readonly factor: string };

/** The first code of the app enables it. The first app brings backup codes. */
export async function enableFactorOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  const { auth, client, signedIn } = visit;
  const factor = form.get("factor") ?? "";
  try {
    const { code } = parse(CodeBody, fieldsIn(form));
    const codes = await enableFactor(auth, currentSignInOf(signedIn), factor || null, code, client);
    if (codes === null) throw wrongCode();
    const flash = factor === "" ? { notice: "The second factor is on.", codes } : { notice: "The app is added." };
    continueAt(visit, ACCOUNT_PATH, flash);
  } catch (error) {
    const state = stateAfter(error, form);
    const secret = form.get("secret") ?? "";
    const qrCode = form.get("qrCode") ?? "";
    const isShown = /^[A-Z2-7]{16,64}$/.test(secret) && /^data:image\/png;base64,[\w+/=]+$/.test(qrCode);
    if (isShown) sendSecret(visit, { secret, qrCode, factor }, state);
    else sendFactor(visit, state);
  }
}

/** The form has the secret too, so that it can be shown again after a wrong code. */
function sendSecret(visit: AccountVisit, hidden: Secret, state: FormState): void {
  const { secret, qrCode, factor } = hidden;
  const about = html`<p>Scan the code with your app, or type the secret into it. Then enter the six digits that it shows.</p>
<p class="qr"><img src="${qrCode}" alt="QR code of the secret" width="180" height="180"></p>
<p class="secret"><code>${secret.replace(/(.{4})(?=.)/g, "$1 ")}</code></p>`;
  const fields = [{ ...CODE_FIELD, label: "Code of the app" }];
  const button = factor === "" ? "Turn on the second factor" : "Add the app";
  sendAccountForm(visit, { title: "Scan the code", path: FACTOR_CODE_PATH, about, fields, hidden, button }, state);
}

/** `/auth/account/second-factor/removed?id=…` */
export const appRemovalPage = formPage(sendAppRemoval, async (visit, form) => {
  const { id, name } = await appIn(visit, form);
  await removeOwnFactor({ ...visit, body: parse(ConfirmationBody, fieldsWithPasskey(form)) }, id);
  continueAt(visit, ACCOUNT_PATH, { notice: `“${name}” is removed.` });
});

async function sendAppRemoval(visit: AccountVisit, state: FormState): Promise<void> {
  const { id, name } = await appIn(visit, state.values ?? visit.query);
  const about = `The codes of “${name}” are no longer accepted. Without another second factor, your password alone signs you in.`;
  const form = { title: "Remove the app", path: REMOVED_APP_PATH, about, hidden: { id } };
  sendAccountForm(visit, { ...form, fields: alwaysConfirmed(visit), button: "Remove it", isDanger: true }, state);
}

/** The app that the page, or its form, is about. Rejects with Problem if it is none of the user. */
async function appIn(visit: AccountVisit, sent: URLSearchParams): Promise<App> {
  const id = idIn(sent);
  const found = (await appsOf(visit)).find((each) => each.id === id);
  if (found === undefined) throw problem("no such factor");
  return found;
}

/** `/auth/account/backup-codes` */
export const backupCodesPage = formPage(sendBackupCodes, async (visit, form) => {
  const body = parse(ConfirmationBody, fieldsWithPasskey(form));
  const { backupCodes: codes } = await renewBackupCodes({ ...visit, body });
  continueAt(visit, ACCOUNT_PATH, { notice: "The old backup codes are no longer valid.", codes });
});

function sendBackupCodes(visit: AccountVisit, state: FormState): void {
  const about = "You get ten new codes. The old ones become invalid.";
  const form = { title: "New backup codes", path: BACKUP_CODES_PATH, about, button: "Renew the codes" };
  sendAccountForm(visit, { ...form, fields: alwaysConfirmed(visit) }, state);
}

import { html } from "../../../http/pages/html.ts";
import { CodeBody, ConfirmationBody, EnrolmentBody, parse } from "../bodies.ts";
import { beginFactor, disableFactor, renewBackupCodes } from "../mfa.ts";
import { currentSignInOf } from "../route.ts";
import { alwaysConfirmed, confirmationOf, sendAccountForm } from "./account-form.ts";
import { CODE_FIELD, type FormState, fieldsIn, NEW_FORM, sentence, stateAfter } from "./form.ts";
import { fieldsWithPasskey } from "./passkey-button.ts";
import { ACCOUNT_PATH, BACKUP_CODES_PATH, FACTOR_CODE_PATH, FACTOR_PATH } from "./paths.ts";
import { type AccountVisit, continueAt } from "./visit.ts";

/** `GET /auth/account/second-factor`: to set it up, or to turn it off. */
export const showFactor = async (visit: AccountVisit) => sendFactor(visit, NEW_FORM);

/** Turns the factor off, or shows the secret of a new one. */
export async function changeFactorOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  try {
    const fields = fieldsWithPasskey(form);
    if (hasApp(visit)) {
      const { message } = await disableFactor({ ...visit, body: parse(ConfirmationBody, fields) });
      return continueAt(visit, ACCOUNT_PATH, { notice: sentence(message) });
    }
    const { secret, qrCode } = await beginFactor(visit, parse(EnrolmentBody, fields));
    sendSecret(visit, { secret, qrCode }, NEW_FORM);
  } catch (error) {
    sendFactor(visit, stateAfter(error, form));
  }
}

/** Passkeys are second factors too. */
const hasApp = ({ account }: AccountVisit) => account.factorKinds.includes("totp");

function sendFactor(visit: AccountVisit, state: FormState): void {
  const isOn = hasApp(visit);
  const form = isOn
    ? {
        title: "Turn off the second factor",
        about: "From then on, your password alone signs you in.",
        fields: alwaysConfirmed(visit),
        button: "Turn it off",
        isDanger: true,
      }
    : {
        title: "Set up a second factor",
        about:
          "Each sign-in then needs a code of an authenticator app too, such as Aegis, Google Authenticator or a password manager. All other sign-ins of your account end.",
        fields: confirmationOf(visit),
        button: "Continue",
      };
  sendAccountForm(visit, { ...form, path: FACTOR_PATH }, state);
}

type Secret = { readonly secret: string; readonly qrCode: string };

/** The first code of the app enables the factor. */
export async function enableFactorOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  try {
    const { code } = parse(CodeBody, fieldsIn(form));
    const codes = await visit.auth.enrolment.enable(currentSignInOf(visit.signedIn), code, visit.client);
    continueAt(visit, ACCOUNT_PATH, { notice: "The second factor is on.", codes });
  } catch (error) {
    const state = stateAfter(error, form);
    const secret = form.get("secret") ?? "";
    const qrCode = form.get("qrCode") ?? "";
    const isShown = /^[A-Z2-7]{16,64}$/.test(secret) && /^data:image\/png;base64,[\w+/=]+$/.test(qrCode);
    if (isShown) sendSecret(visit, { secret, qrCode }, state);
    else sendFactor(visit, state);
  }
}

/** The form has the secret too, so that it can be shown again after a wrong code. */
function sendSecret(visit: AccountVisit, { secret, qrCode }: Secret, state: FormState): void {
  const about = html`<p>Scan the code with your app, or type the secret into it. Then enter the six digits that it shows.</p>
<p class="qr"><img src="${qrCode}" alt="QR code of the secret" width="180" height="180"></p>
<p class="secret"><code>${secret.replace(/(.{4})(?=.)/g, "$1 ")}</code></p>`;
  const fields = [{ ...CODE_FIELD, label: "Code of the app" }];
  const button = "Turn on the second factor";
  const hidden = { secret, qrCode };
  sendAccountForm(visit, { title: "Scan the code", path: FACTOR_CODE_PATH, about, fields, hidden, button }, state);
}

/** `GET /auth/account/backup-codes` */
export const showBackupCodes = async (visit: AccountVisit) => sendBackupCodes(visit, NEW_FORM);

export async function renewBackupCodesOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  try {
    const { backupCodes: codes } = await renewBackupCodes({
      ...visit,
      body: parse(ConfirmationBody, fieldsWithPasskey(form)),
    });
    continueAt(visit, ACCOUNT_PATH, { notice: "The old backup codes are no longer valid.", codes });
  } catch (error) {
    sendBackupCodes(visit, stateAfter(error, form));
  }
}

function sendBackupCodes(visit: AccountVisit, state: FormState): void {
  const about = "You get ten new codes. The old ones become invalid.";
  const form = { title: "New backup codes", path: BACKUP_CODES_PATH, about, button: "Renew the codes" };
  sendAccountForm(visit, { ...form, fields: alwaysConfirmed(visit) }, state);
}

import { type Request, type RequestHandler, type Response, Router } from "express";
import { byMethod } from "../../gate/pipeline/express.ts";
import { readForm } from "../../rest-gateway/auth/bodies.ts";
import { failWithPage } from "../../rest-gateway/auth/pages/failure.ts";
import { ACCOUNT_PATH, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { callOf, type Route, type RoutedAuth } from "../../rest-gateway/auth/route.ts";
import { showAccount } from "./account.ts";
import { confirmEmailOnPage, endSessionOnPage, revokeKeyOnPage, signOutOnPage, unlinkOnPage } from "./changes.ts";
import {
  beginFactorOnPage,
  enableFactorOnPage,
  removeAppOnPage,
  renewBackupCodesOnPage,
  showAppRemoval,
  showBackupCodes,
  showFactor,
} from "./factor.ts";
import { linkOnPage, showLinkIdentity } from "./identities.ts";
import { createKeyOnPage, showNewKey } from "./keys.ts";
import { changeEmailOnPage, changePasswordOnPage, showEmail, showPassword } from "./login-changes.ts";
import { showMailCode, signInWithMailCode } from "./mail-code.ts";
import { requestOnPage, showRequest } from "./mails.ts";
import {
  addPasskeyOnPage,
  beginPasskeyOnPage,
  removePasskeyOnPage,
  renamePasskeyOnPage,
  showNewPasskey,
  showPasskeyName,
  showPasskeyRemoval,
} from "./passkeys.ts";
import {
  ACCOUNT_CONFIRM_PATH,
  BACKUP_CODES_PATH,
  CONFIRM_PATH,
  CREATED_PASSKEY_PATH,
  EMAIL_PATH,
  FACTOR_CODE_PATH,
  FACTOR_PATH,
  FORGOT_PATH,
  KEYS_PATH,
  LINK_IDENTITY_PATH,
  MAIL_CODE_PATH,
  MAIL_SIGN_IN_PATH,
  PASSKEY_NAME_PATH,
  PASSKEY_SIGN_IN_PATH,
  PASSKEYS_PATH,
  PASSWORD_PATH,
  REMOVED_APP_PATH,
  REMOVED_PASSKEY_PATH,
  REVOKED_PATH,
  SESSIONS_PATH,
  SIGN_OUT_PATH,
  SIGN_UP_PATH,
  UNLINK_PATH,
} from "./paths.ts";
import { showSignIn, signInOnPage, signInWithPasskeyOnPage } from "./sign-in.ts";
import { showSignUp, signUpOnPage } from "./sign-up.ts";
import { type AccountVisit, accountVisitOf, type Visit, visitOf } from "./visit.ts";

/** Shows a page, or does what its form says. */
type Show<V> = (visit: V) => Promise<void>;
type Submit<V> = (visit: V, form: URLSearchParams) => Promise<void>;

type Page<V> = { readonly show?: Show<V>; readonly submit?: Submit<V> } & Pick<Route, "verifiesPassword">;

/** The pages for everyone. What they change at other places is what the JSON routes change: they call the same functions. */
const PAGES: Readonly<Record<string, Page<Visit>>> = {
  [SIGN_IN_PATH]: { show: showSignIn, submit: signInOnPage, verifiesPassword: true },
  [PASSKEY_SIGN_IN_PATH]: { submit: signInWithPasskeyOnPage },
  [MAIL_SIGN_IN_PATH]: { show: showRequest("sign-in"), submit: requestOnPage("sign-in") },
  [MAIL_CODE_PATH]: { show: showMailCode, submit: signInWithMailCode },
  [SIGN_UP_PATH]: { show: showSignUp, submit: signUpOnPage },
  [FORGOT_PATH]: { show: showRequest("reset"), submit: requestOnPage("reset") },
  [CONFIRM_PATH]: { show: showRequest("confirm"), submit: requestOnPage("confirm") },
};

/** The pages for a signed-in user. */
const ACCOUNT_PAGES: Readonly<Record<string, Page<AccountVisit>>> = {
  [ACCOUNT_PATH]: { show: showAccount },
  [PASSWORD_PATH]: { show: showPassword, submit: changePasswordOnPage },
  [EMAIL_PATH]: { show: showEmail, submit: changeEmailOnPage },
  [ACCOUNT_CONFIRM_PATH]: { submit: confirmEmailOnPage },
  [FACTOR_PATH]: { show: showFactor, submit: beginFactorOnPage },
  [REMOVED_APP_PATH]: { show: showAppRemoval, submit: removeAppOnPage },
  [FACTOR_CODE_PATH]: { submit: enableFactorOnPage },
  [BACKUP_CODES_PATH]: { show: showBackupCodes, submit: renewBackupCodesOnPage },
  [PASSKEYS_PATH]: { show: showNewPasskey, submit: beginPasskeyOnPage },
  [CREATED_PASSKEY_PATH]: { submit: addPasskeyOnPage },
  [PASSKEY_NAME_PATH]: { show: showPasskeyName, submit: renamePasskeyOnPage },
  [REMOVED_PASSKEY_PATH]: { show: showPasskeyRemoval, submit: removePasskeyOnPage },
  [SESSIONS_PATH]: { submit: endSessionOnPage },
  [KEYS_PATH]: { show: showNewKey, submit: createKeyOnPage },
  [REVOKED_PATH]: { submit: revokeKeyOnPage },
  [LINK_IDENTITY_PATH]: { show: showLinkIdentity, submit: linkOnPage },
  [UNLINK_PATH]: { submit: unlinkOnPage },
  [SIGN_OUT_PATH]: { submit: signOutOnPage },
};

/** Absent without passkeys. */
const OF_PASSKEYS = [
  PASSKEY_SIGN_IN_PATH,
  PASSKEYS_PATH,
  CREATED_PASSKEY_PATH,
  PASSKEY_NAME_PATH,
  REMOVED_PASSKEY_PATH,
];

/** The paths of all pages. */
export const PATHS: readonly string[] = [...Object.keys(PAGES), ...Object.keys(ACCOUNT_PAGES)];

/** The pages for sign-in and accounts, which an application may replace with its own (AUTH_PAGES_URL). */
export function pagesRouter(auth: RoutedAuth): Router {
  const router = Router({ strict: true, caseSensitive: true });
  const isServed = ([path]: readonly [string, unknown]) => auth.passkeys !== null || !OF_PASSKEYS.includes(path);
  const own = Object.entries(ACCOUNT_PAGES).map(([path, page]): [string, Page<Visit>] => [path, ofAccount(page)]);
  for (const [path, { show, submit, verifiesPassword }] of [...Object.entries(PAGES), ...own].filter(isServed)) {
    const get = show && handlerOf(auth, (visit) => show(visit));
    const sent = async (visit: Visit) => {
      if (verifiesPassword) auth.hashing.requirePlace(visit.client);
      await submit!(visit, await readForm(visit.request));
    };
    const post = submit && handlerOf(auth, sent);
    router.all(path, byMethod({ ...(get && { GET: get }), ...(post && { POST: post }) }));
  }
  return router;
}

/** The same for a user who is signed in; anyone else signs in first. */
function ofAccount({ show, submit }: Page<AccountVisit>): Page<Visit> {
  const admitted = async (visit: Visit, form: URLSearchParams | null, work: Show<AccountVisit>) => {
    const found = await accountVisitOf(visit, form);
    if (found !== null) await work(found);
  };
  return {
    ...(show && { show: (visit) => admitted(visit, null, show) }),
    ...(submit && { submit: (visit, form) => admitted(visit, form, (found) => submit(found, form)) }),
  };
}

function handlerOf(auth: RoutedAuth, work: (visit: Visit) => Promise<void>): RequestHandler {
  return async (request: Request, response: Response) => {
    const call = callOf(auth, request, response);
    try {
      // Browsers name the origin of a form. A page of another one could sign the user in to an account of the attacker.
      if (request.method === "POST") auth.sameOrigin.require(request.headers);
      await work(visitOf(call));
    } catch (error) {
      await failWithPage(call, error, "This did not work");
    }
  };
}

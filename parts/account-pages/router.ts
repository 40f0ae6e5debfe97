import { type Request, type RequestHandler, type Response, Router } from "express";
import { byMethod } from "../../gate/pipeline/express.ts";
import { readForm } from "../../rest-gateway/auth/bodies.ts";
import { failWithPage } from "../../rest-gateway/auth/pages/failure.ts";
import { ACCOUNT_PATH, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { callOf, type RoutedAuth } from "../../rest-gateway/auth/route.ts";
import { showAccount } from "./account.ts";
import { confirmEmailOnPage, endSessionOnPage, revokeKeyOnPage, signOutOnPage, unlinkOnPage } from "./changes.ts";
import { appRemovalPage, backupCodesPage, enableFactorOnPage, newAppPage } from "./factor.ts";
import type { Page } from "./form-page.ts";
import { linkOnPage, showLinkIdentity } from "./identities.ts";
import { newKeyPage } from "./keys.ts";
import { emailPage, passwordPage } from "./login-changes.ts";
import { mailCodePage } from "./mail-code.ts";
import { requestPage } from "./mails.ts";
import { addPasskeyOnPage, newPasskeyPage, passkeyNamePage, passkeyRemovalPage } from "./passkeys.ts";
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
import { signUpPage } from "./sign-up.ts";
import { type AccountVisit, accountVisitOf, type Visit, visitOf } from "./visit.ts";

/** The pages for everyone. What they change at other places is what the JSON routes change: they call the same functions. */
const PAGES: Readonly<Record<string, Page<Visit>>> = {
  [SIGN_IN_PATH]: { show: showSignIn, submit: signInOnPage, verifiesPassword: true },
  [PASSKEY_SIGN_IN_PATH]: { submit: signInWithPasskeyOnPage },
  [MAIL_SIGN_IN_PATH]: requestPage("sign-in"),
  [MAIL_CODE_PATH]: mailCodePage,
  [SIGN_UP_PATH]: signUpPage,
  [FORGOT_PATH]: requestPage("reset"),
  [CONFIRM_PATH]: requestPage("confirm"),
};

/** The pages for a signed-in user. */
const ACCOUNT_PAGES: Readonly<Record<string, Page<AccountVisit>>> = {
  [ACCOUNT_PATH]: { show: showAccount },
  [PASSWORD_PATH]: passwordPage,
  [EMAIL_PATH]: emailPage,
  [ACCOUNT_CONFIRM_PATH]: { submit: confirmEmailOnPage },
  [FACTOR_PATH]: newAppPage,
  [REMOVED_APP_PATH]: appRemovalPage,
  [FACTOR_CODE_PATH]: { submit: enableFactorOnPage },
  [BACKUP_CODES_PATH]: backupCodesPage,
  [PASSKEYS_PATH]: newPasskeyPage,
  [CREATED_PASSKEY_PATH]: { submit: addPasskeyOnPage },
  [PASSKEY_NAME_PATH]: passkeyNamePage,
  [REMOVED_PASSKEY_PATH]: passkeyRemovalPage,
  [SESSIONS_PATH]: { submit: endSessionOnPage },
  [KEYS_PATH]: newKeyPage,
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
  const admitted = async (visit: Visit, form: URLSearchParams | null, work: (visit: AccountVisit) => Promise<void>) => {
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

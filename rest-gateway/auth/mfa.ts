import { type Request, type Response, Router } from "express";
import { toDataURL } from "qrcode";
import { byMethod } from "../../http/express.ts";
import type { Account } from "../../identity/account.ts";
import { loginRequired } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { clientOf } from "./client.ts";
import { ownerOf } from "./owner.ts";
import type { Wrong } from "./password-check.ts";
import { noFactorEnabled, wrongCode, wrongPassword } from "./problem.ts";
import { route } from "./route.ts";
import { readCode, readConfirmation } from "./second-factor-input.ts";

const SCAN =
  "scan the QR code with an authenticator app, or type the secret into it; then send its code to /api/mfa/verify";
const ENABLED = "the second factor is enabled: from now on logins need a code";
const KEEP =
  "keep these codes in a safe place: they are shown only now, and each is good once, in place of a code of the app";

/** `/api/mfa/…`: the second factor of whoever is signed in. */
export function mfaRouter(auth: Auth): Router {
  const { enrolment, limits, addressOf } = auth;

  const enable = route(async (request, response) => {
    const { secret, uri } = await enrolment.begin(await accountOf(auth, request));
    response.json({ secret, qrCode: await toDataURL(uri), message: SCAN });
  });

  const verify = route(async (request, response) => {
    const account = await accountOf(auth, request);
    const code = await readCode(request, limits);
    const backupCodes = await enrolment.enable(account, code, clientOf(auth, request, response));
    response.json({ message: ENABLED, backupCodes, warning: KEEP });
  });

  const renew = route(async (request, response) => {
    const account = await confirmedAccountOf(auth, request, response);
    const backupCodes = await enrolment.renewBackupCodes(account, addressOf(request));
    response.json({ message: "the old backup codes are worth nothing any more", backupCodes, warning: KEEP });
  });

  const disable = route(async (request, response) => {
    const account = await confirmedAccountOf(auth, request, response);
    await enrolment.disable(account, addressOf(request));
    response.json({ message: "the second factor is disabled" });
  });

  const router = Router({ strict: true, caseSensitive: true });
  router.all("/api/mfa/enable", byMethod({ POST: enable }));
  router.all("/api/mfa/verify", byMethod({ POST: verify }));
  router.all("/api/mfa/backup-codes", byMethod({ POST: renew }));
  router.all("/api/mfa/disable", byMethod({ POST: disable }));
  return router;
}

async function accountOf(auth: Auth, request: Request): Promise<Account> {
  const account = await auth.store.accountOf(await ownerOf(request));
  if (account === null) throw loginRequired();
  return account;
}

/**
 * The account, of which the password is known too: what somebody left signed in, or a key, is not enough. The code is the
 * caller's to send, as those who have lost their codes must get rid of the factor; one that is sent must be right.
 */
async function confirmedAccountOf(auth: Auth, request: Request, response: Response): Promise<Account> {
  const { passwords, secondFactor, limits } = auth;
  const who = await accountOf(auth, request);
  const { password, code } = await readConfirmation(request, limits);
  if (!who.hasFactor) throw noFactorEnabled();
  const client = clientOf(auth, request, response);
  return passwords.check({ who, password }, client, WRONG, async (account, count) => {
    if (code === null || (await secondFactor.accepts(account, code, client))) return account;
    count();
    throw wrongCode();
  });
}

const WRONG: Wrong = { event: "password_failed", error: wrongPassword };

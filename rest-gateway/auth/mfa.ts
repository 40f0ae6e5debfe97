import type { Request, Response, Router } from "express";
import { toDataURL } from "qrcode";
import type { Account } from "../../identity/account.ts";
import { loginRequired } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { CodeBody, ConfirmationBody, parse, readBody } from "./bodies.ts";
import type { WrongPassword } from "./password-check.ts";
import { noFactorEnabled, wrongCode, wrongPassword } from "./problem.ts";
import { clientOf, ownerOf, route, routes } from "./route.ts";

const SCAN =
  "scan the QR code with an authenticator app, or type the secret into it; then send its code to /api/mfa/verify";
const ENABLED = "the second factor is enabled: every login now requires a code";
const KEEP = "store these codes safely: they are not shown again, and each replaces a code of the app once";

/** `/api/mfa/…`: the second factor of the signed-in user. */
export function mfaRouter(auth: Auth): Router {
  const { enrolment, addressOf } = auth;

  const enable = route(async (request, response) => {
    const { secret, uri } = await enrolment.begin(await accountOf(auth, request));
    response.json({ secret, qrCode: await toDataURL(uri), message: SCAN });
  });

  const verify = route(async (request, response) => {
    const account = await accountOf(auth, request);
    const code = await codeOf(auth, request);
    const backupCodes = await enrolment.enable(account, code, clientOf(auth, request, response));
    response.json({ message: ENABLED, backupCodes, warning: KEEP });
  });

  const renew = route(async (request, response) => {
    const account = await confirmedAccountOf(auth, request, response);
    const backupCodes = await enrolment.renewBackupCodes(account, addressOf(request));
    response.json({ message: "the old backup codes are no longer valid", backupCodes, warning: KEEP });
  });

  const disable = route(async (request, response) => {
    const account = await confirmedAccountOf(auth, request, response);
    await enrolment.disable(account, addressOf(request));
    response.json({ message: "the second factor is disabled" });
  });

  return routes({
    "/api/mfa/enable": { POST: enable },
    "/api/mfa/verify": { POST: verify },
    "/api/mfa/backup-codes": { POST: renew },
    "/api/mfa/disable": { POST: disable },
  });
}

/** Reads `?code=123456`, or `{ code }`, which proxies do not log. Rejects with RestError. */
async function codeOf({ limits }: Auth, request: Request): Promise<string> {
  const hasBody = request.query.code === undefined && request.headers["content-type"] !== undefined;
  const { code } = parse(CodeBody, hasBody ? await readBody(request, limits) : { code: request.query.code });
  return code;
}

async function accountOf(auth: Auth, request: Request): Promise<Account> {
  const { id } = await ownerOf(request);
  const account = await auth.repository.accountOf(id);
  if (account === null) throw loginRequired();
  return account;
}

/**
 * The account of the caller, after the password is verified: a browser that was left signed in must not be enough. The code is
 * optional, so that users who have lost their app can remove the factor; if a code is sent, it must be right.
 */
async function confirmedAccountOf(auth: Auth, request: Request, response: Response): Promise<Account> {
  const { passwords, secondFactor, throttle, limits } = auth;
  const { id: userId, hasFactor } = await accountOf(auth, request);
  const { password, code = null } = parse(ConfirmationBody, await readBody(request, limits));
  if (!hasFactor) throw noFactorEnabled();
  const client = clientOf(auth, request, response);
  const { account, factor, attempt } = await passwords.verify({ userId }, password, client, WRONG);
  const trial = code === null ? null : secondFactor.tryCode(account, { factor, code, challenge: null }, client);
  const isConfirmed = trial === null || (await throttle.guard(attempt, trial)) === "accepted";
  await throttle.settle(attempt, !isConfirmed);
  if (!isConfirmed) throw wrongCode();
  return account;
}

const WRONG: WrongPassword = { event: "password_failed", error: wrongPassword };

import type { Request, Router } from "express";
import { toDataURL } from "qrcode";
import { readBytes } from "../../http/body.ts";
import { parseBody } from "../conventions/json-body.ts";
import type { Auth } from "./auth.ts";
import { CodeBody, ConfirmationBody, EnrolmentBody, parse, readBody } from "./bodies.ts";
import {
  accountOf,
  type Confirmation,
  type Confirmed,
  confirm,
  isRecent,
  requirePassword,
  requireRecentSignIn,
} from "./confirmation.ts";
import { noFactorEnabled } from "./problem.ts";
import { clientOf, ownerOf, route, routes, signedInWith } from "./route.ts";
import type { Client } from "./throttle.ts";

const SCAN =
  "scan the QR code with an authenticator app, or type the secret into it; then send its code to /api/mfa/verify";
const ENABLED = "the second factor is enabled: every login now requires a code";
const KEEP = "store these codes safely: they are not shown again, and each replaces a code of the app once";

/** `/api/mfa/…`: the second factor of the signed-in user. */
export function mfaRouter(auth: Auth): Router {
  const { enrolment } = auth;

  const enable = route(async (request, response) => {
    const owner = await ownerOf(request);
    // Otherwise a thief could lock the owner out with a factor of their own.
    const confirmation = isRecent(auth, owner) ? {} : await passwordIn(auth, request);
    await requireRecentSignIn(auth, owner, confirmation, clientOf(auth, request, response));
    const { secret, uri } = await enrolment.begin(await accountOf(auth, owner));
    response.json({ secret, qrCode: await toDataURL(uri), message: SCAN });
  });

  const verify = route(async (request, response) => {
    const owner = await ownerOf(request);
    const code = await codeOf(auth, request);
    const backupCodes = await enrolment.enable(signedInWith(owner), code, clientOf(auth, request, response));
    response.json({ message: ENABLED, backupCodes, warning: KEEP });
  });

  const renew = route(async (request, response) => {
    const client = clientOf(auth, request, response);
    const backupCodes = await enrolment.renewBackupCodes(await confirmed(auth, request, client), client);
    response.json({ message: "the old backup codes are no longer valid", backupCodes, warning: KEEP });
  });

  const disable = route(async (request, response) => {
    const client = clientOf(auth, request, response);
    await enrolment.disable(await confirmed(auth, request, client), client);
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

/** The password, if it is sent: a recent sign-in needs no body, and then it is not read. */
async function passwordIn({ limits }: Auth, request: Request): Promise<Confirmation> {
  const bytes = await readBytes(request, limits.size);
  return bytes.length === 0 ? {} : parse(EnrolmentBody, parseBody(bytes, request.headers["content-type"], limits));
}

/** The account of the caller, after the password is verified, and the code: a stolen token or session must not be enough. */
async function confirmed(auth: Auth, request: Request, client: Client): Promise<Confirmed> {
  const owner = await ownerOf(request);
  const confirmation = parse(ConfirmationBody, await readBody(request, auth.limits));
  const account = await accountOf(auth, owner);
  requirePassword(account, confirmation.password);
  if (!account.hasFactor) throw noFactorEnabled();
  return confirm(auth, owner, confirmation, client);
}

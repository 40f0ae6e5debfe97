import type { Request } from "express";
import type { z } from "zod";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import { CodeBody, type ConfirmationBody, EnrolmentBody, parse, readBody, readOptional } from "./bodies.ts";
import {
  type Confirmation,
  type Confirmed,
  confirm,
  isRecent,
  refuseAnonymous,
  requireAccount,
  requirePassword,
  requireRecentSignIn,
} from "./confirmation.ts";
import { beginFactor, disableFactor, enableFactor, replaceBackupCodes } from "./factors.ts";
import { wrongCode } from "./problem.ts";
import { pngOf } from "./qr-code.ts";
import { type Call, currentSignInOf } from "./route.ts";

const SCAN =
  "scan the QR code with an authenticator app, or type the secret into it; then send its code to /api/mfa/verify";
const ENABLED = "the second factor is enabled: every login now requires a code";
const STILL = "this second factor is disabled: another one is still enabled";
const KEEP = "store these codes safely: they are not shown again, and each replaces a code of the app once";

export async function startEnrolment(call: Call<"account">) {
  const { auth, request, signedIn } = call;
  const confirmation = isRecent(auth, signedIn) ? {} : await passwordIn(auth, request);
  const { secret, qrCode } = await beginOwnFactor(call, confirmation, null);
  return { secret, qrCode, message: SCAN };
}

/** Without a name, it is the only app of the user. */
export async function beginOwnFactor(
  { auth, client, signedIn }: Call<"account">,
  confirmation: Confirmation,
  name: string | null,
) {
  // Otherwise a thief could lock the owner out with a factor of their own.
  refuseAnonymous(signedIn);
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const { id, secret, uri } = await beginFactor(auth, await requireAccount(auth, signedIn), name);
  return { id, secret, qrCode: await pngOf(uri) };
}

export async function completeEnrolment({ auth, request, client, signedIn }: Call<"account">) {
  const code = await codeOf(auth, request);
  const backupCodes = await enableFactor(auth, currentSignInOf(signedIn), null, code, client);
  if (backupCodes === null) throw wrongCode();
  return { message: ENABLED, backupCodes, warning: KEEP };
}

export async function renewBackupCodes(call: ConfirmedCall) {
  const backupCodes = await replaceBackupCodes(call.auth, await confirmed(call), call.client);
  return { message: "the old backup codes are no longer valid", backupCodes, warning: KEEP };
}

export async function disableApp(call: ConfirmedCall) {
  const { hasFactor } = await removeOwnFactor(call, null);
  return { message: hasFactor ? STILL : "the second factor is disabled" };
}

/** Reads `?code=123456`, or `{ code }`, which proxies do not log. Rejects with Problem. */
async function codeOf({ limits }: Auth, request: Request): Promise<string> {
  const hasBody = request.query.code === undefined && request.headers["content-type"] !== undefined;
  const { code } = parse(CodeBody, hasBody ? await readBody(request, limits) : { code: request.query.code });
  return code;
}

/** The password, if it is sent. Not called if the sign-in is recent, which needs no body. */
const passwordIn = ({ limits }: Auth, request: Request): Promise<Confirmation> =>
  readOptional(limits, request, EnrolmentBody);

/** Removes a second factor, or the app whose code is sent. Rejects with Problem. */
export const removeOwnFactor = async (call: ConfirmedCall, id: string | null) =>
  disableFactor(call.auth, await confirmed(call), id, currentSignInOf(call.signedIn).session, call.client);

export type ConfirmedCall = Call<"account", z.infer<typeof ConfirmationBody>>;

/** The account of the caller, after the password is verified, and the code: a stolen token or session must not be enough. */
async function confirmed({ auth, client, signedIn, body }: ConfirmedCall): Promise<Confirmed> {
  const account = await requireAccount(auth, signedIn);
  requirePassword(account, body.password);
  if (!account.hasFactor) throw problem("no factor enabled");
  return confirm(auth, signedIn, body, client);
}

import type { Request } from "express";
import type { z } from "zod";
import type { Account, Clock } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import { CodeBody, type ConfirmationBody, EnrolmentBody, parse, readBody, readOptional } from "./bodies.ts";
import {
  accountOf,
  type Confirmation,
  type Confirmed,
  confirm,
  isRecent,
  refuseAnonymous,
  requireAccepted,
  requirePassword,
  requireRecentSignIn,
} from "./confirmation.ts";
import type { Disabled, FactorRepository, RemovedFactor } from "./factor-repository.ts";
import { wrongCode } from "./problem.ts";
import { pngOf } from "./qr-code.ts";
import { type Call, currentSignInOf } from "./route.ts";
import type { FactorKeys } from "./second-factor.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import type { Client, CodeLimits, Throttle } from "./throttle.ts";
import { newTotpSecret, stepOf, totpUri } from "./totp.ts";

const SCAN =
  "scan the QR code with an authenticator app, or type the secret into it; then send its code to /api/mfa/verify";
const ENABLED = "the second factor is enabled: every login now requires a code";
const STILL = "this second factor is disabled: another one is still enabled";
const KEEP = "store these codes safely: they are not shown again, and each replaces a code of the app once";

export async function enableFactor(call: Call<"account">) {
  const { auth, request, signedIn } = call;
  const confirmation = isRecent(auth, signedIn) ? {} : await passwordIn(auth, request);
  const { secret, qrCode } = await beginFactor(call, confirmation, null);
  return { secret, qrCode, message: SCAN };
}

/** Without a name, it is the only app of the user. */
export async function beginFactor(
  { auth, client, signedIn }: Call<"account">,
  confirmation: Confirmation,
  name: string | null,
) {
  // Otherwise a thief could lock the owner out with a factor of their own.
  refuseAnonymous(signedIn);
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const { id, secret, uri } = await auth.enrolment.begin(await accountOf(auth, signedIn), name);
  return { id, secret, qrCode: await pngOf(uri) };
}

export async function verifyFactor({ auth, request, client, signedIn }: Call<"account">) {
  const code = await codeOf(auth, request);
  const backupCodes = await auth.enrolment.enable(currentSignInOf(signedIn), null, code, client);
  if (backupCodes === null) throw wrongCode();
  return { message: ENABLED, backupCodes, warning: KEEP };
}

export async function renewBackupCodes(call: ConfirmedCall) {
  const backupCodes = await call.auth.enrolment.renewBackupCodes(await confirmed(call), call.client);
  return { message: "the old backup codes are no longer valid", backupCodes, warning: KEEP };
}

export async function disableFactor(call: ConfirmedCall) {
  const { hasFactor } = await removeFactor(call, { id: null, session: null });
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

/** Removes a second factor. Rejects with Problem. */
export const removeFactor = async (call: ConfirmedCall, factor: RemovedFactor): Promise<Disabled> =>
  call.auth.enrolment.disable(await confirmed(call), factor, call.client);

export type ConfirmedCall = Call<"account", z.infer<typeof ConfirmationBody>>;

/** The account of the caller, after the password is verified, and the code: a stolen token or session must not be enough. */
async function confirmed({ auth, client, signedIn, body }: ConfirmedCall): Promise<Confirmed> {
  const account = await accountOf(auth, signedIn);
  requirePassword(account, body.password);
  if (!account.hasFactor) throw problem("no factor enabled");
  return confirm(auth, signedIn, body, client);
}

type EnrolmentOptions = FactorKeys & {
  readonly factors: FactorRepository;
  readonly throttle: Throttle;
  readonly clock: Clock;
  /** The host name of the service, which authenticator apps show above the codes. */
  readonly issuer: string;
};

/** A new secret as text, and as the URI for a QR code. */
type Begun = { readonly id: string; readonly secret: string; readonly uri: string };

/** Second factors per account, with pending ones. */
export const MAX_FACTORS = 10;

/** Why no enrolment begins. */
const REFUSED = { enabled: "factor enabled", taken: "factor name taken", full: "too many factors" } as const;

/** Milliseconds for which a secret waits for its first code. */
const PENDING_FOR = 10 * 60 * 1000;

/** Enables and disables the second factors of a user, and renews the backup codes. */
export class Enrolment {
  readonly #options: EnrolmentOptions;

  constructor(options: EnrolmentOptions) {
    this.#options = options;
  }

  /**
   * Creates the pending secret of the only factor, or of one with a name. Apps show it with `issuer`, which is the host name of the
   * service unless it is given. Rejects with the Problem of REFUSED.
   */
  async begin(
    { id, username }: Account,
    name: string | null = null,
    issuer: string = this.#options.issuer,
  ): Promise<Begun> {
    const { factors, box, clock } = this.#options;
    const secret = newTotpSecret();
    const named = name === null ? null : { name, max: MAX_FACTORS };
    const begun = await factors.begin(id, box.seal(secret, id), clock() + PENDING_FOR, named);
    if (begun.outcome !== "begun") throw problem(REFUSED[begun.outcome], { name: name ?? "" });
    return { id: begun.id, secret, uri: totpUri(secret, issuer, username) };
  }

  /**
   * Enables a pending factor with its first code; null is the one without a name, for which it returns the backup codes, which cannot be
   * read again. All other sign-ins of the user end. The code is spent: a login no longer accepts it. Returns null for a wrong code. Rejects
   * with Problem if no factor is pending, and with Problem "too many attempts" or "busy".
   */
  async enable(
    signIn: CurrentSignIn,
    factorId: string | null,
    code: string,
    client: Client,
  ): Promise<readonly string[] | null> {
    const { id } = signIn;
    const { factors, throttle, box, clock, backupCodes } = this.#options;
    const { address } = client;
    const { pending, secret } = await this.#pendingOf(id, factorId);
    const attempt = await throttle.reserveCode(id, client);
    const step = stepOf(secret, code, clock());
    if (step === null) {
      await throttle.settle(attempt, true, { event: "code_failed", userId: id, address });
      return null;
    }
    await throttle.settle(attempt, false);
    const { codes, hashes } = factorId === null ? backupCodes.make(id) : { codes: [], hashes: [] };
    const factor = { pending, secret: box.reseal(pending, id)!, step, codes: hashes };
    if (!(await factors.enable(signIn, factor, address))) throw problem("no factor pending");
    return codes;
  }

  /** Spends the code and replaces all backup codes. Rejects as requireAccepted does. */
  async renewBackupCodes({ account, code }: Confirmed, client: Client): Promise<readonly string[]> {
    const { factors, backupCodes, throttle } = this.#options;
    if (code === null) throw problem("no factor enabled");
    const { codes, hashes } = backupCodes.make(account.id);
    const renew = (limits: CodeLimits) => factors.replaceBackupCodes(account, code, hashes, limits);
    requireAccepted(await throttle.spendCode(renew, client));
    return codes;
  }

  /** Spends the code and removes the factor. Rejects as requireAccepted does. */
  async disable({ account, code }: Confirmed, factor: RemovedFactor, client: Client): Promise<Disabled> {
    const { factors, throttle } = this.#options;
    if (code === null) throw problem("no factor enabled");
    const disable = (limits: CodeLimits) => factors.disable(account, factor, code, limits);
    const tried = await throttle.spendCode(disable, client);
    // Removed meanwhile.
    if (tried.outcome === "none" && factor.id !== null) throw problem("no such factor");
    return { hasFactor: requireAccepted(tried).hasFactor };
  }

  /** A pending secret that cannot be decrypted counts as missing: the user starts again. */
  async #pendingOf(
    userId: string,
    factorId: string | null,
  ): Promise<{ readonly pending: Buffer; readonly secret: string }> {
    const { factors, box } = this.#options;
    const known = await factors.list(userId);
    const found = known.find(({ id, name }) => (factorId === null ? name === "" : id === factorId))?.pending ?? null;
    const pending = found === null ? null : Buffer.from(found, "hex");
    const secret = pending && box.open(pending, userId);
    if (pending === null || secret === null) throw problem("no factor pending");
    return { pending, secret };
  }
}

import type { Account, Clock } from "../../identity/account.ts";
import { type Confirmed, requireAccepted } from "./confirmation.ts";
import type { FactorRepository } from "./factor-repository.ts";
import { factorEnabled, noFactorEnabled, noFactorPending, wrongCode } from "./problem.ts";
import type { SignedIn } from "./repository.ts";
import type { FactorKeys } from "./second-factor.ts";
import type { Client, CodeLimits, Throttle } from "./throttle.ts";
import { newTotpSecret, stepOf, totpUri } from "./totp.ts";

export type EnrolmentOptions = FactorKeys & {
  readonly factors: FactorRepository;
  readonly throttle: Throttle;
  readonly clock: Clock;
  /** The name of the service, as authenticator apps show it. */
  readonly issuer: string;
  /** Drops cached identities of a user, whose sign-ins have ended. */
  forget(userId: string): void;
};

/** A new secret as text, and as the URI for a QR code. */
export type Begun = { readonly secret: string; readonly uri: string };

/** Milliseconds for which a secret waits for its first code. */
const PENDING_FOR = 10 * 60 * 1000;

/** Enables and disables the second factor of a user, and renews the backup codes. */
export class Enrolment {
  readonly #options: EnrolmentOptions;

  constructor(options: EnrolmentOptions) {
    this.#options = options;
  }

  /** Creates a pending secret. Rejects with RestError if a factor is enabled. */
  async begin({ id, username }: Account): Promise<Begun> {
    const { factors, box, clock, issuer } = this.#options;
    const secret = newTotpSecret();
    if (!(await factors.begin(id, box.seal(secret, id), clock() + PENDING_FOR))) throw factorEnabled();
    return { secret, uri: totpUri(secret, issuer, username) };
  }

  /**
   * Enables the pending factor with its first code, and returns the backup codes, which cannot be read again. All other
   * sign-ins of the user end. The code is spent: a login no longer accepts it. Rejects with RestError for a wrong code or if
   * no factor is pending, and with RefusedError "too many attempts" or "busy".
   */
  async enable(signedIn: SignedIn, code: string, client: Client): Promise<readonly string[]> {
    const { id } = signedIn;
    const { factors, backupCodes, throttle, clock } = this.#options;
    const { address } = client;
    const { pending, secret } = await this.#pendingOf(id);
    const attempt = await throttle.reserveCode(id, client);
    const step = stepOf(secret, code, clock());
    if (step === null) {
      await throttle.settle(attempt, true, { event: "code_failed", userId: id, address });
      throw wrongCode();
    }
    await throttle.settle(attempt, false);
    const { codes, hashes } = backupCodes.make(id);
    const factor = { pending: await this.#resealed(id, pending), step, codes: hashes };
    if (!(await factors.enable(signedIn, factor, address))) throw noFactorPending();
    this.#options.forget(id);
    return codes;
  }

  /** Spends the code and replaces all backup codes. Rejects as requireAccepted does. */
  async renewBackupCodes({ account, code }: Confirmed, client: Client): Promise<readonly string[]> {
    const { factors, backupCodes, throttle } = this.#options;
    if (code === null) throw noFactorEnabled();
    const { codes, hashes } = backupCodes.make(account.id);
    const renew = (limits: CodeLimits) => factors.replaceBackupCodes(account, code, hashes, limits);
    requireAccepted(await throttle.spendCode(renew, client));
    return codes;
  }

  /** Spends the code and removes the factor. Rejects as requireAccepted does. */
  async disable({ account, code }: Confirmed, client: Client): Promise<void> {
    const { factors, throttle } = this.#options;
    if (code === null) throw noFactorEnabled();
    const disable = (limits: CodeLimits) => factors.disable(account, code, limits);
    requireAccepted(await throttle.spendCode(disable, client));
  }

  /** The pending secret, encrypted with the current key; it is stored again if it was encrypted with the previous one. */
  async #resealed(userId: string, pending: Buffer): Promise<Buffer> {
    const { factors, box, clock } = this.#options;
    const resealed = box.reseal(pending, userId)!;
    const isSame = resealed === pending || (await factors.begin(userId, resealed, clock() + PENDING_FOR));
    if (!isSame) throw factorEnabled();
    return resealed;
  }

  /** A pending secret that cannot be decrypted counts as missing: the user starts again. */
  async #pendingOf(userId: string): Promise<{ readonly pending: Buffer; readonly secret: string }> {
    const { factors, box } = this.#options;
    const found = (await factors.find(userId))?.pending ?? null;
    const pending = found === null ? null : Buffer.from(found, "hex");
    const secret = pending && box.open(pending, userId);
    if (pending === null || secret === null) throw noFactorPending();
    return { pending, secret };
  }
}

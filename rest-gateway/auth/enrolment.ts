import type { Account, Clock } from "../../identity/account.ts";
import { factorEnabled, noFactorEnabled, noFactorPending, wrongCode } from "./problem.ts";
import type { AuthStore } from "./repository.ts";
import type { FactorKeys } from "./second-factor.ts";
import type { Client, Throttle } from "./throttle.ts";
import { newTotpSecret, stepOf, totpUri } from "./totp.ts";

export type EnrolmentOptions = FactorKeys & {
  readonly store: AuthStore;
  readonly throttle: Throttle;
  readonly clock: Clock;
  /** What apps show above the codes. */
  readonly issuer: string;
};

/** What is shown to those who begin: for the eyes, and for the camera. */
export type Begun = { readonly secret: string; readonly uri: string };

/** Milliseconds from the first step to the code that shows that the app has the secret. */
const PENDING_FOR = 10 * 60 * 1000;

/** How a user comes to a second factor, and gets rid of it. */
export class Enrolment {
  readonly #options: EnrolmentOptions;

  constructor(options: EnrolmentOptions) {
    this.#options = options;
  }

  /** Begins, with a new secret each time. Rejects with RestError when a factor is enabled. */
  async begin({ id, username }: Account): Promise<Begun> {
    const { store, box, throttle, clock, issuer } = this.#options;
    const secret = newTotpSecret();
    if (!(await store.beginFactor(id, box.seal(secret, id), clock() + PENDING_FOR))) throw factorEnabled();
    await throttle.forgetCodes(id);
    return { secret, uri: totpUri(secret, issuer, username) };
  }

  /**
   * Ends it by the first code; gives the backup codes, which nobody can read again. Rejects with RestError for a wrong
   * code and when nothing is pending, with RefusedError "too many attempts" and "busy". The code is spent: it signs nobody in.
   */
  async enable({ id }: Account, code: string, client: Client): Promise<readonly string[]> {
    const { store, backupCodes, throttle, clock } = this.#options;
    const { address } = client;
    const { pending, secret } = await this.#pendingOf(id);
    const step = await throttle.code(id, client, async (count) => {
      const step = stepOf(secret, code, clock());
      if (step !== null) return step;
      count();
      await store.note({ event: "code_failed", userId: id, address });
      throw wrongCode();
    });
    const { codes, hashes } = backupCodes.make(id);
    const kept = await this.#resealed(id, pending);
    if (!(await store.enableFactor(id, kept, step, hashes))) throw noFactorPending();
    await store.note({ event: "mfa_enabled", userId: id, address });
    return codes;
  }

  /** New backup codes in place of all old ones. Rejects with RestError without a factor. */
  async renewBackupCodes({ id }: Account, address: string): Promise<readonly string[]> {
    const { store, backupCodes } = this.#options;
    const { codes, hashes } = backupCodes.make(id);
    if (!(await store.replaceBackupCodes(id, hashes))) throw noFactorEnabled();
    await store.note({ event: "backup_codes_renewed", userId: id, address });
    return codes;
  }

  /** Rejects with RestError without a factor. */
  async disable({ id }: Account, address: string): Promise<void> {
    const { store } = this.#options;
    if (!(await store.removeFactor(id))) throw noFactorEnabled();
    await store.note({ event: "mfa_disabled", userId: id, address });
  }

  /** What was sealed with a key of before is not to outlive it. */
  async #resealed(userId: string, pending: Buffer): Promise<Buffer> {
    const { store, box, clock } = this.#options;
    const resealed = box.reseal(pending, userId)!;
    const isSame = resealed === pending || (await store.beginFactor(userId, resealed, clock() + PENDING_FOR));
    if (!isSame) throw factorEnabled();
    return resealed;
  }

  /** What was sealed with another key is as if it were not there: the user begins again. */
  async #pendingOf(userId: string): Promise<{ readonly pending: Buffer; readonly secret: string }> {
    const { store, box } = this.#options;
    const found = (await store.factorOf(userId))?.pending ?? null;
    const pending = found === null ? null : Buffer.from(found, "hex");
    const secret = pending && box.open(pending, userId);
    if (pending === null || secret === null) throw noFactorPending();
    return { pending, secret };
  }
}

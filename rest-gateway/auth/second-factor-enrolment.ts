import { RestError } from "../conventions/problem.ts";
import type { FactorKeys } from "./second-factor.ts";
import type { CodeLimit } from "./second-factor-limit.ts";
import type { Account, AuthStore, Clock } from "./store.ts";
import { newTotpSecret, stepOf, totpUri } from "./totp.ts";

export type EnrolmentOptions = FactorKeys & {
  readonly store: AuthStore;
  readonly limit: CodeLimit;
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
    const { store, box, clock, issuer } = this.#options;
    const secret = newTotpSecret();
    if (!(await store.beginFactor(id, box.seal(secret, id), clock() + PENDING_FOR))) throw isEnabled();
    return { secret, uri: totpUri(secret, issuer, username) };
  }

  /**
   * Ends it by the first code; gives the backup codes, which nobody can read again. Rejects with RestError for a wrong
   * code and when nothing is pending, with RefusedError "too many attempts". The code is spent: it signs nobody in.
   */
  async enable({ id }: Account, code: string, address: string): Promise<readonly string[]> {
    const { store, backupCodes, limit, clock } = this.#options;
    const { pending, secret } = await this.#pendingOf(id);
    const attempt = await limit.attempt(id);
    const step = stepOf(secret, code, clock());
    if (step === null) {
      await store.note({ event: "code_failed", userId: id, address });
      throw wrongCode();
    }
    await attempt.forgive();
    const { codes, hashes } = backupCodes.make(id);
    if (!(await store.enableFactor(id, pending, step, hashes))) throw nothingPending();
    await store.note({ event: "mfa_enabled", userId: id, address });
    return codes;
  }

  /** New backup codes in place of all old ones. Rejects with RestError without a factor. */
  async renewBackupCodes({ id }: Account, address: string): Promise<readonly string[]> {
    const { store, backupCodes } = this.#options;
    const { codes, hashes } = backupCodes.make(id);
    if (!(await store.replaceBackupCodes(id, hashes))) throw isNotEnabled();
    await store.note({ event: "backup_codes_renewed", userId: id, address });
    return codes;
  }

  /** Rejects with RestError without a factor. */
  async disable({ id }: Account, address: string): Promise<void> {
    const { store } = this.#options;
    if (!(await store.removeFactor(id))) throw isNotEnabled();
    await store.note({ event: "mfa_disabled", userId: id, address });
  }

  /** What was sealed with another key is as if it were not there: the user begins again. */
  async #pendingOf(userId: string): Promise<{ readonly pending: Buffer; readonly secret: string }> {
    const { store, box } = this.#options;
    const found = (await store.factorOf(userId))?.pending ?? null;
    const pending = found === null ? null : Buffer.from(found, "hex");
    const secret = pending && box.open(pending, userId);
    if (pending === null || secret === null) throw nothingPending();
    return { pending, secret };
  }
}

const isEnabled = () =>
  new RestError({
    status: 409,
    code: "RESOURCE_CONFLICT",
    message: "a second factor is enabled already: disable it first, at POST /api/mfa/disable",
  });

export const isNotEnabled = () =>
  new RestError({ status: 409, code: "RESOURCE_CONFLICT", message: "no second factor is enabled" });

const nothingPending = () =>
  new RestError({
    status: 400,
    code: "BAD_REQUEST",
    message: "no second factor is being enabled, or its 10 minutes are over: begin with POST /api/mfa/enable",
  });

export const wrongCode = () =>
  new RestError({
    status: 400,
    code: "VALIDATION_ERROR",
    message: "the code is wrong: enter the one that the app shows now",
    faults: [{ field: "code", message: "wrong code" }],
  });

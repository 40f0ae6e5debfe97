import { RestError } from "../conventions/problem.ts";
import { BackupCodes, isBackupCode } from "./backup-codes.ts";
import type { CodeLimit } from "./second-factor-limit.ts";
import { deriveKey, SecretBox } from "./secret-box.ts";
import type { Account, AuthStore, Clock } from "./store.ts";
import { stepOf } from "./totp.ts";

/** What the codes of all users are made with and checked by. */
export type FactorKeys = { readonly box: SecretBox; readonly backupCodes: BackupCodes };

export type SecondFactorOptions = FactorKeys & {
  readonly store: AuthStore;
  readonly limit: CodeLimit;
  readonly clock: Clock;
};

/** Those who lose the secret lose all factors. */
export const factorKeys = (secret: string): FactorKeys => ({
  box: new SecretBox(deriveKey(secret, "second factors")),
  backupCodes: new BackupCodes(deriveKey(secret, "backup codes")),
});

/** Checks the codes of those who sign in: of their app, or of their list of backup codes. */
export class SecondFactor {
  readonly #options: SecondFactorOptions;

  constructor(options: SecondFactorOptions) {
    this.#options = options;
  }

  /**
   * Whether the code is right and was not spent; spends it. Rejects with RefusedError "too many attempts" whatever the code
   * is, and with RestError when the user's secret can't be read.
   */
  async acceptCode(account: Account, code: string, address: string): Promise<boolean> {
    const attempt = await this.#options.limit.attempt(account.id);
    const isRight = isBackupCode(code)
      ? await this.#spendBackupCode(account, code, address)
      : await this.#spendTotp(account, code, address);
    if (isRight) await attempt.forgive();
    return isRight;
  }

  async #spendBackupCode({ id }: Account, code: string, address: string): Promise<boolean> {
    const { store, backupCodes } = this.#options;
    const isRight = await store.useBackupCode(id, backupCodes.hashOf(code, id));
    if (isRight) await store.note({ event: "backup_code_used", userId: id, address });
    return isRight;
  }

  async #spendTotp({ id }: Account, code: string, address: string): Promise<boolean> {
    const { store, box, clock } = this.#options;
    const sealed = (await store.factorOf(id))?.secret ?? null;
    if (sealed === null) return false;
    const secret = box.open(Buffer.from(sealed, "hex"), id);
    if (secret === null) {
      await store.note({ event: "factor_unreadable", userId: id, address });
      throw unreadable();
    }
    const step = stepOf(secret, code, clock());
    return step !== null && (await store.acceptStep(id, step));
  }
}

/** The service has another key than the one that the factor was enrolled with. */
const unreadable = () =>
  new RestError({
    status: 503,
    code: "INTERNAL_ERROR",
    message: "the second factor can't be checked: the service has another MFA_KEY than when it was enabled",
    hint: "Ask the operator to restore the key, or to reset the factor.",
  });

import type { Account, Clock } from "../../identity/account.ts";
import { BackupCodes, isBackupCode } from "./backup-codes.ts";
import { factorUnreadable } from "./problem.ts";
import type { AuthStore } from "./repository.ts";
import { deriveKey, SecretBox } from "./secret-box.ts";
import type { Client, Throttle } from "./throttle.ts";
import { stepOf } from "./totp.ts";

/** What the codes of all users are made with and checked by. */
export type FactorKeys = { readonly box: SecretBox; readonly backupCodes: BackupCodes };

export type SecondFactorOptions = FactorKeys & {
  readonly store: AuthStore;
  readonly throttle: Throttle;
  readonly clock: Clock;
};

/** The names are those of the service's settings; "" is unset. */
export type FactorSettings = { readonly mfaKey: string; readonly mfaPreviousKey: string };

/** Made from MFA_KEY, or else from `secret`, which is that of the service. Those who lose it lose all factors. */
export function factorKeys({ mfaKey, mfaPreviousKey }: FactorSettings, secret: string): FactorKeys {
  const previous = mfaPreviousKey === "" ? [] : [mfaPreviousKey];
  const keysFor = (purpose: string) =>
    [deriveKey(mfaKey || secret, purpose), previous.map((key) => deriveKey(key, purpose))] as const;
  return {
    box: new SecretBox(...keysFor("second factors")),
    backupCodes: new BackupCodes(...keysFor("backup codes")),
  };
}

/** Checks the codes of those who sign in: of their app, or of their list of backup codes. */
export class SecondFactor {
  readonly #options: SecondFactorOptions;

  constructor(options: SecondFactorOptions) {
    this.#options = options;
  }

  /**
   * Whether the code is right and was not spent; spends it. Rejects with RefusedError "too many attempts" whatever the code
   * is, and "busy"; with RestError when the user's secret can't be read.
   */
  accepts(account: Account, code: string, client: Client): Promise<boolean> {
    const { store, throttle } = this.#options;
    const { address } = client;
    return throttle.code(account.id, client, async (count) => {
      const isRight = isBackupCode(code)
        ? await this.#spendBackupCode(account, code, address)
        : await this.#spendTotp(account, code, address);
      if (isRight) return true;
      count();
      await store.note({ event: "code_failed", userId: account.id, address });
      return false;
    });
  }

  async #spendBackupCode({ id }: Account, code: string, address: string): Promise<boolean> {
    const { store, backupCodes } = this.#options;
    for (const hash of backupCodes.hashesOf(code, id)) {
      if (!(await store.useBackupCode(id, hash))) continue;
      await store.note({ event: "backup_code_used", userId: id, address });
      return true;
    }
    return false;
  }

  async #spendTotp({ id }: Account, code: string, address: string): Promise<boolean> {
    const { store, box, clock } = this.#options;
    const sealed = (await store.factorOf(id))?.secret ?? null;
    if (sealed === null) return false;
    const secret = box.open(Buffer.from(sealed, "hex"), id);
    if (secret === null) {
      await store.note({ event: "factor_unreadable", userId: id, address });
      throw factorUnreadable();
    }
    const step = stepOf(secret, code, clock());
    return step !== null && (await store.acceptStep(id, step));
  }
}

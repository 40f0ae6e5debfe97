import type { Account, Clock } from "../../identity/account.ts";
import { BackupCodes, isBackupCode } from "./backup-codes.ts";
import { factorUnreadable } from "./problem.ts";
import type { AuthRepository } from "./repository.ts";
import { deriveKey, SecretBox } from "./secret-box.ts";
import type { Client, Throttle } from "./throttle.ts";
import { stepOf } from "./totp.ts";

/** The keys that encrypt secrets and hash backup codes. */
export type FactorKeys = { readonly box: SecretBox; readonly backupCodes: BackupCodes };

export type SecondFactorOptions = FactorKeys & {
  readonly repository: AuthRepository;
  readonly throttle: Throttle;
  readonly clock: Clock;
};

/** Named like the settings of the service; "" if unset. */
export type FactorSettings = { readonly mfaKey: string; readonly mfaPreviousKey: string };

/** Derives the keys from MFA_KEY, or from `secret`, the JWT secret, if it is unset. */
export function factorKeys({ mfaKey, mfaPreviousKey }: FactorSettings, secret: string): FactorKeys {
  const previous = mfaPreviousKey === "" ? [] : [mfaPreviousKey];
  const keysFor = (purpose: string) =>
    [deriveKey(mfaKey || secret, purpose), previous.map((key) => deriveKey(key, purpose))] as const;
  return {
    box: new SecretBox(...keysFor("second factors")),
    backupCodes: new BackupCodes(...keysFor("backup codes")),
  };
}

/** Verifies codes of the authenticator app and backup codes. */
export class SecondFactor {
  readonly #options: SecondFactorOptions;

  constructor(options: SecondFactorOptions) {
    this.#options = options;
  }

  /**
   * Spends a code, and its challenge. Rejects with RefusedError "too many attempts" even if the code is right, with "busy", and
   * with RestError if the secret of the user cannot be decrypted.
   */
  async tryCode(
    { id }: Account,
    { factor, code, challenge }: SentCode,
    client: Client,
  ): Promise<"accepted" | "wrong" | "spent"> {
    const { throttle, backupCodes } = this.#options;
    const { address } = client;
    if (isBackupCode(code)) {
      const hashes = backupCodes.hashesOf(code, id);
      return throttle.tryCode(id, { secret: null, step: null, hashes, challenge, address }, client);
    }
    const step = factor === null ? null : await this.#stepOf(id, factor, code, address);
    return throttle.tryCode(id, { secret: factor, step, hashes: [], challenge, address }, client);
  }

  async #stepOf(userId: string, factor: string, code: string, address: string): Promise<number | null> {
    const { repository, box, clock } = this.#options;
    const secret = box.open(Buffer.from(factor, "hex"), userId);
    if (secret !== null) return stepOf(secret, code, clock());
    await repository.note({ event: "factor_unreadable", userId, address });
    throw factorUnreadable();
  }
}

/** A code that a user has sent. `factor` is the encrypted secret of the user, in hex. */
export type SentCode = {
  readonly factor: string | null;
  readonly code: string;
  /** The id of the challenge that the code completes. */
  readonly challenge: string | null;
};

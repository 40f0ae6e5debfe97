import type { Account, Clock } from "../../identity/account.ts";
import { BackupCodes, isBackupCode } from "./backup-codes.ts";
import type { FactorRepository } from "./factor-repository.ts";
import { factorUnreadable } from "./problem.ts";
import type { AuthRepository } from "./repository.ts";
import { deriveKey, SecretBox } from "./secret-box.ts";
import type { Client, CodeLimits, CodeToTry, Throttle } from "./throttle.ts";
import { stepOf } from "./totp.ts";

/** The keys that encrypt secrets and hash backup codes. */
export type FactorKeys = { readonly box: SecretBox; readonly backupCodes: BackupCodes };

export type SecondFactorOptions = FactorKeys & {
  readonly repository: Pick<AuthRepository, "note">;
  readonly factors: FactorRepository;
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
   * Spends a code, and the challenge that it completes, by its id. Rejects with RefusedError "too many attempts" even if the
   * code is right, with "busy", and with RestError if the secret of the user cannot be decrypted.
   */
  async tryCode(
    account: Account,
    sent: SentCode,
    challenge: string | null,
    client: Client,
  ): Promise<"accepted" | "wrong" | "spent"> {
    const { throttle, factors } = this.#options;
    const code = await this.read(account, sent, client.address);
    const change = (limits: CodeLimits) => factors.tryCode(account.id, code, challenge, limits);
    const { outcome } = await throttle.spendCode(change, client);
    return outcome as "accepted" | "wrong" | "spent";
  }

  /** Reads a code, which the database then compares and spends. Rejects with RestError if the secret cannot be decrypted. */
  async read({ id }: Account, { factor, code }: SentCode, address: string): Promise<CodeToTry> {
    const { backupCodes } = this.#options;
    if (isBackupCode(code)) return { secret: null, step: null, hashes: backupCodes.hashesOf(code, id), address };
    const step = factor === null ? null : await this.#stepOf(id, factor, code, address);
    return { secret: factor, step, hashes: [], address };
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
};

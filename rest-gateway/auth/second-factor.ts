import { createHmac, randomBytes } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { Account } from "../../identity/account.ts";
import type { Auth } from "./auth.ts";
import type { PasskeySignature } from "./passkeys/credentials.ts";
import type { Signed } from "./passkeys/passkeys.ts";
import { factorUnreadable } from "./problem.ts";
import { noteEvent } from "./repository.ts";
import { deriveKey, SecretBox } from "./secret-box.ts";
import { type Client, type CodeOutcome, type CodeToTry, spendCode, type TriedCode } from "./throttle.ts";
import { stepOf } from "./totp.ts";

/** The keys that encrypt secrets and hash backup codes. */
export type FactorKeys = { readonly box: SecretBox; readonly backupCodes: BackupCodes };

export type FactorSettings = Pick<Config, "mfaKey" | "mfaPreviousKey">;

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

/**
 * Spends a code, and the challenge that it completes, by its id. Rejects with Problem "too many attempts" even if the code is right, with
 * "busy", and with Problem if the secret of the user cannot be decrypted.
 */
export async function tryCode(
  auth: Auth,
  account: Account,
  sent: SentCode,
  challenge: string | null,
  client: Client,
): Promise<"accepted" | "wrong" | "refused" | "spent"> {
  const code = await readCode(auth, account, sent, client.address);
  const { outcome } = await trySentCode(auth, account.id, code, challenge, client);
  return outcome as "accepted" | "wrong" | "refused" | "spent";
}

/** The same for a code that was read. */
export function trySentCode(
  auth: Auth,
  userId: string,
  code: CodeToTry,
  challenge: string | null,
  client: Client,
): Promise<TriedCode> {
  const change = (sent: string | null) =>
    auth.functions.call<CodeOutcome | null>("try_code($1, $2::jsonb, $3::uuid)", [userId, sent, challenge]);
  return spendCode(auth, code, change, client);
}

/**
 * Reads a code or verifies a passkey, which the database then compares and spends. Rejects with Problem if a secret cannot be decrypted,
 * and for a passkey of a page that may not use it.
 */
export async function readCode(
  auth: Auth,
  { id }: Account,
  { factors, code }: SentCode,
  address: string,
): Promise<CodeToTry> {
  const { backupCodes, passkeys, factorBox, clock } = auth;
  if (typeof code !== "string") {
    const signed = "counter" in code ? code : ((await passkeys?.verify(code)) ?? null);
    return { ...NO_CODE, passkey: signed?.userId === id ? signed : null, address };
  }
  if (isBackupCode(code)) return { secret: null, step: null, hashes: backupCodes.hashesOf(code, id), address };
  const opened = factors.map((factor) => ({ factor, secret: factorBox.open(Buffer.from(factor, "hex"), id) }));
  for (const { factor, secret } of opened) {
    const step = secret === null ? null : stepOf(secret, code, clock());
    if (step !== null) return { secret: factor, step, hashes: [], address };
  }
  if (opened.every(({ secret }) => secret !== null)) return { ...NO_CODE, address };
  await noteEvent(auth, { event: "factor_unreadable", userId: id, address });
  throw factorUnreadable();
}

/** A code that a user has sent. `factors` are the encrypted secrets whose codes are right, in hex. */
type SentCode = {
  readonly factors: readonly string[];
  readonly code: FactorProof | Signed;
};

/** What proves the second factor: a code of the app, a backup code, or what a passkey has signed. */
export type FactorProof = string | PasskeySignature;

const NO_CODE = { secret: null, step: null, hashes: [] };

/** 32 characters, so that a random byte chooses each equally often. 0, O, 1 and I are easily confused: 0 and 1 are left out. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH = 8;
/** Backup codes per user. Source: the contract, Limits. */
const COUNT = 10;

/** Codes that replace a code of the authenticator app, once each. They are shown once and stored as keyed hashes. */
export class BackupCodes {
  readonly #keys: readonly [Buffer, ...Buffer[]];

  /**
   * A code has only 40 bits: if the hashes had no key, a copy of the database would reveal it in minutes. Codes that were
   * created with a previous key remain valid.
   */
  constructor(key: Buffer, previousKeys: readonly Buffer[] = []) {
    this.#keys = [key, ...previousKeys];
  }

  /** New codes for a user, and the hashes to store. */
  make(userId: string): { readonly codes: readonly string[]; readonly hashes: readonly Buffer[] } {
    const codes = Array.from({ length: COUNT }, newCode);
    const [key] = this.#keys;
    return { codes, hashes: codes.map((code) => hashOf(key, code, userId)) };
  }

  /** The hashes under which a code may be stored, one per key; equal for `ABCDEFGH`, `abcd-efgh` and `ABCD EFGH`. */
  hashesOf(code: string, userId: string): readonly Buffer[] {
    return this.#keys.map((key) => hashOf(key, code, userId));
  }
}

const hashOf = (key: Buffer, code: string, userId: string): Buffer =>
  createHmac("sha256", key)
    .update(`${userId}:${withoutSeparators(code).toUpperCase()}`)
    .digest();

/** Whether the text has the form of a backup code. Spaces, dashes and lower case are accepted. */
export const isBackupCode = (code: string): boolean => FORM.test(withoutSeparators(code));

const FORM = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`, "i");

const withoutSeparators = (code: string) => code.replace(/[-\s]/g, "");

const newCode = () => Array.from(randomBytes(LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");

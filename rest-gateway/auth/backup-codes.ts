import { createHmac, randomBytes } from "node:crypto";

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

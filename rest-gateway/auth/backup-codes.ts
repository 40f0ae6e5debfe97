import { createHmac, randomBytes } from "node:crypto";

/** 32 characters, so that five bits of a byte choose one evenly; without those that look alike: 0 and O, 1 and I. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH = 8;
/** Codes of a user. Source: the contract, Limits. */
const COUNT = 10;

/** Codes that replace a code of the app once each: shown when they are created, stored as keyed hashes. */
export class BackupCodes {
  readonly #keys: readonly [Buffer, ...Buffer[]];

  /**
   * Codes have 40 bits: without the key, which is not in the database, their hashes could be guessed in minutes. Codes that
   * were created with a previous key remain valid.
   */
  constructor(key: Buffer, previousKeys: readonly Buffer[] = []) {
    this.#keys = [key, ...previousKeys];
  }

  /** New codes of a user, and the hashes to store. */
  make(userId: string): { readonly codes: readonly string[]; readonly hashes: readonly Buffer[] } {
    const codes = Array.from({ length: COUNT }, newCode);
    const [key] = this.#keys;
    return { codes, hashes: codes.map((code) => hashOf(key, code, userId)) };
  }

  /** The hashes that a code may be stored as, one for each key. The same for `ABCDEFGH`, `abcd-efgh` and `ABCD EFGH`. */
  hashesOf(code: string, userId: string): readonly Buffer[] {
    return this.#keys.map((key) => hashOf(key, code, userId));
  }
}

const hashOf = (key: Buffer, code: string, userId: string): Buffer =>
  createHmac("sha256", key)
    .update(`${userId}:${withoutMarks(code).toUpperCase()}`)
    .digest();

/** Whether the text has the form of a backup code, as people type it. */
export const isBackupCode = (code: string): boolean => FORM.test(withoutMarks(code));

const FORM = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`, "i");

const withoutMarks = (code: string) => code.replace(/[-\s]/g, "");

const newCode = () => Array.from(randomBytes(LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");

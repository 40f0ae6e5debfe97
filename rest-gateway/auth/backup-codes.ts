import { createHmac, randomBytes } from "node:crypto";

/** 32 signs, so that each takes five bits of a byte evenly; without those that look alike: 0 and O, 1 and I. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH = 8;
/** Codes that a user gets. Source: the contract, Limits. */
const COUNT = 10;

/** Codes in place of a second factor, each good once: shown when they are made, kept as keyed hashes. */
export class BackupCodes {
  readonly #keys: readonly [Buffer, ...Buffer[]];

  /**
   * They have 40 bits: without the key, which is not in the database, their hashes would be guessed in minutes. Codes that
   * were made with keys of before are known by them.
   */
  constructor(key: Buffer, previousKeys: readonly Buffer[] = []) {
    this.#keys = [key, ...previousKeys];
  }

  /** For a user, by his id: the codes, and what is kept of them. */
  make(userId: string): { readonly codes: readonly string[]; readonly hashes: readonly Buffer[] } {
    const codes = Array.from({ length: COUNT }, newCode);
    const [key] = this.#keys;
    return { codes, hashes: codes.map((code) => hashOf(key, code, userId)) };
  }

  /** By one of which a code is kept, with each key another one. The same for `ABCDEFGH`, `abcd-efgh` and `ABCD EFGH`. */
  hashesOf(code: string, userId: string): readonly Buffer[] {
    return this.#keys.map((key) => hashOf(key, code, userId));
  }
}

const hashOf = (key: Buffer, code: string, userId: string): Buffer =>
  createHmac("sha256", key)
    .update(`${userId}:${withoutMarks(code).toUpperCase()}`)
    .digest();

/** Whether it has the form of one, as people type it. */
export const isBackupCode = (code: string): boolean => FORM.test(withoutMarks(code));

const FORM = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`, "i");

const withoutMarks = (code: string) => code.replace(/[-\s]/g, "");

const newCode = () => Array.from(randomBytes(LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");

import { createHmac, randomBytes } from "node:crypto";

/** 32 signs, so that each takes five bits of a byte evenly; without those that look alike: 0 and O, 1 and I. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH = 8;
/** Codes that a user gets. Source: the contract, Limits. */
const COUNT = 10;

/** Codes in place of a second factor, each good once: shown when they are made, kept as keyed hashes. */
export class BackupCodes {
  readonly #key: Buffer;

  /** They have 40 bits: without the key, which is not in the database, their hashes would be guessed in minutes. */
  constructor(key: Buffer) {
    this.#key = key;
  }

  /** For a user, by his id: the codes, and what is kept of them. */
  make(userId: string): { readonly codes: readonly string[]; readonly hashes: readonly Buffer[] } {
    const codes = Array.from({ length: COUNT }, newCode);
    return { codes, hashes: codes.map((code) => this.hashOf(code, userId)) };
  }

  /** The same for `ABCDEFGH`, `abcd-efgh` and `ABCD EFGH`. */
  hashOf(code: string, userId: string): Buffer {
    return createHmac("sha256", this.#key)
      .update(`${userId}:${withoutMarks(code).toUpperCase()}`)
      .digest();
  }
}

/** Whether it has the form of one, as people type it. */
export const isBackupCode = (code: string): boolean => FORM.test(withoutMarks(code));

const FORM = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`, "i");

const withoutMarks = (code: string) => code.replace(/[-\s]/g, "");

const newCode = () => Array.from(randomBytes(LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");

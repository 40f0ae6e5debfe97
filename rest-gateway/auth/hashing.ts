import { randomBytes } from "node:crypto";
import { RefusedError } from "../../identity/refused.ts";
import { argon2, hashPassword, MAX_PASSWORD } from "./passwords.ts";

/** Each takes a thread, 19 MiB and some 15 ms: more at once would only slow everything else down. */
const AT_ONCE = 2;
const MAX_WAITING = 64;

/** Hashes and compares passwords for all requests: a few at a time, and those that would wait too long not at all. */
export class PasswordHashing {
  readonly #hash: typeof hashPassword;
  /** Verified when there is no such account, so that an unknown name costs the same work as a wrong password. */
  readonly #decoy: Promise<string>;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(hash = hashPassword) {
    this.#hash = hash;
    this.#decoy = hash(randomBytes(32).toString("hex"));
  }

  /** Rejects with RefusedError "busy". */
  hash(password: string): Promise<string> {
    return this.#inTurn(() => this.#hash(password));
  }

  /** False for a password that is too long to be one; null for `hash` is an account that there is not. */
  async matches(password: string, hash: string | null): Promise<boolean> {
    const isPossible = password !== "" && password.length <= MAX_PASSWORD && !password.includes("\0");
    const text = isPossible ? password.normalize("NFC") : "";
    const isRight = await this.#inTurn(async () => argon2.verify(hash ?? (await this.#decoy), text));
    return isRight && hash !== null && isPossible;
  }

  async #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#running >= AT_ONCE) {
      if (this.#waiting.length >= MAX_WAITING) throw new RefusedError("busy");
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // The place is handed over, or given back.
      if (next) next();
      else this.#running--;
    }
  }
}

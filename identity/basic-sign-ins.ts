import { hash, randomBytes } from "node:crypto";
import { bytesOf, Cache } from "../cache/cache.ts";
import type { Caller } from "../db/caller.ts";
import { networkOf } from "../db/network.ts";
import { isRefusal, problem } from "../problems/problem.ts";
import { type Account, type Clock, callerOfAccount } from "./account.ts";
import type { BasicCredentials } from "./credentials.ts";
import type { Sender } from "./sender.ts";

/** Milliseconds after which a password is hashed again, which takes longer than most requests. */
const MAX_AGE = 60_000;

export type BasicSignInsOptions = {
  readonly clock: Clock;
  /** Rejects with Problem. */
  signIn(credentials: BasicCredentials, sender: Sender): Promise<Account>;
};

type Verified = {
  /** A hash of the password under the key of this process, so that comparing it leaks nothing about the password. */
  readonly proof: string;
  readonly caller: Caller;
  readonly expiresAt: number;
};

/**
 * Callers who send their password with each request. For each username and network the last valid password is cached,
 * as a hash under a key that no other process has, until the database reports a change of the user. While the listening
 * connection is lost, nothing is cached.
 */
export class BasicSignIns {
  readonly #options: BasicSignInsOptions;
  readonly #key = randomBytes(32).toString("hex");
  readonly #verified = new Cache<Verified>({
    name: "identities",
    sizeOf: (verified, login) => bytesOf(login) + 2 * bytesOf(verified),
  });
  /** Concurrent requests with the same credentials share one attempt. */
  readonly #pending = new Map<string, Promise<Caller>>();
  #isListening = true;

  constructor(options: BasicSignInsOptions) {
    this.#options = options;
  }

  /** Rejects with Problem. */
  callerOf(credentials: BasicCredentials, sender: Sender): Caller | Promise<Caller> {
    const verified = this.#find(credentials, sender.address);
    const isFresh = verified !== null && verified.expiresAt > this.#options.clock();
    return isFresh ? verified.caller : this.#signIn(credentials, sender);
  }

  /** The cached caller, even if the password must be hashed again; null for other credentials. */
  known(credentials: BasicCredentials, address: string): Caller | null {
    return this.#find(credentials, address)?.caller ?? null;
  }

  forget(userId: string): void {
    this.#verified.deleteWhere(({ caller }) => caller.claims.sub === userId);
    // An attempt that started before the change is not cached when it ends.
    this.#pending.clear();
  }

  /** Sets whether changes in the database are being reported. */
  setListening(isListening: boolean): void {
    this.#isListening = isListening;
    this.#verified.clear();
    this.#pending.clear();
  }

  #find(credentials: BasicCredentials, address: string): Verified | null {
    const verified = this.#verified.get(loginOf(credentials, address));
    return verified !== undefined && verified.proof === this.#proofOf(credentials) ? verified : null;
  }

  async #signIn(credentials: BasicCredentials, sender: Sender): Promise<Caller> {
    const login = loginOf(credentials, sender.address);
    const proof = this.#proofOf(credentials);
    const key = `${login}\0${proof}`;
    const pending = this.#pending.get(key) ?? this.#attempt(credentials, sender);
    this.#pending.set(key, pending);
    try {
      const caller = await pending;
      const isCurrent = this.#isListening && this.#pending.get(key) === pending;
      if (isCurrent) this.#verified.set(login, { proof, caller, expiresAt: this.#options.clock() + MAX_AGE });
      return caller;
    } finally {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  async #attempt(credentials: BasicCredentials, sender: Sender): Promise<Caller> {
    try {
      const account = await this.#options.signIn(credentials, sender);
      const caller = callerOfAccount(account, this.#options.clock());
      return { ...caller, credential: { kind: "basic", id: null } };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Otherwise a throttled client could still find out which password is right: the cached one.
      if (error.reason === "too many attempts") this.#verified.delete(loginOf(credentials, sender.address));
      const isWrong = WRONG.has(error.reason);
      throw isWrong ? problem("wrong password", { scheme: "Basic" }) : error;
    }
  }

  /** Not an HMAC, which takes Node twenty times as long: nothing is signed, and the hash never leaves this process. */
  #proofOf({ password }: BasicCredentials): string {
    return hash("sha256", this.#key + password, "hex");
  }
}

/** What gets the same error as a wrong password. */
const WRONG: ReadonlySet<string> = new Set(["wrong password", "wrong password or not confirmed", "account disabled"]);

/** Usernames contain no NUL. */
const loginOf = ({ username }: BasicCredentials, address: string) => `${username.toLowerCase()}\0${networkOf(address)}`;

import { hash, randomBytes } from "node:crypto";
import type { Caller } from "../db/caller.ts";
import { type Account, type Clock, callerOfAccount } from "./account.ts";
import type { BasicCredentials } from "./credentials.ts";
import { RefusedError } from "./refused.ts";

/** Milliseconds that a password counts as right without being hashed again, which takes longer than most requests. */
const GOOD_FOR = 60_000;
const MAX_KNOWN = 10_000;

export type BasicSignInsOptions = {
  readonly clock: Clock;
  /** Rejects with RefusedError. */
  signIn(credentials: BasicCredentials, address: string): Promise<Account>;
};

type Known = {
  /** What the password is compared by: nobody can tell it apart character by character without the key. */
  readonly proof: string;
  readonly caller: Caller;
  readonly until: number;
};

/**
 * Callers who send their password with each request: the last one that was right is remembered for each login at each
 * address, as a hash under a key that no other process knows, until the database tells of a change of the user. While nobody
 * listens to it nothing is remembered.
 */
export class BasicSignIns {
  readonly #options: BasicSignInsOptions;
  /** Of this process alone. */
  readonly #key = randomBytes(32).toString("hex");
  readonly #known = new Map<string, Known>();
  /** Requests that come at once are one attempt. */
  readonly #asked = new Map<string, Promise<Caller>>();
  #isListening = true;

  constructor(options: BasicSignInsOptions) {
    this.#options = options;
  }

  /** Rejects with RefusedError. */
  callerOf(credentials: BasicCredentials, address: string): Caller | Promise<Caller> {
    const known = this.#find(credentials, address);
    return known !== null && known.until > this.#options.clock() ? known.caller : this.#signIn(credentials, address);
  }

  /** Who that is, where it is remembered; null for all others. */
  known(credentials: BasicCredentials, address: string): Caller | null {
    return this.#find(credentials, address)?.caller ?? null;
  }

  forget(userId: string): void {
    for (const [login, { caller }] of this.#known) if (caller.claims.sub === userId) this.#known.delete(login);
    // What was asked before a change is told is not remembered after it.
    this.#asked.clear();
  }

  /** Whether changes are heard of. */
  listen(isListening: boolean): void {
    this.#isListening = isListening;
    this.#known.clear();
    this.#asked.clear();
  }

  #find(credentials: BasicCredentials, address: string): Known | null {
    const known = this.#known.get(loginOf(credentials, address));
    return known !== undefined && known.proof === this.#proofOf(credentials) ? known : null;
  }

  async #signIn(credentials: BasicCredentials, address: string): Promise<Caller> {
    const login = loginOf(credentials, address);
    const proof = this.#proofOf(credentials);
    const key = `${login}\0${proof}`;
    const asked = this.#asked.get(key) ?? this.#ask(credentials, address);
    this.#asked.set(key, asked);
    try {
      const caller = await asked;
      const isKnown = this.#isListening && this.#asked.get(key) === asked;
      if (isKnown) this.#remember(login, { proof, caller, until: this.#options.clock() + GOOD_FOR });
      return caller;
    } finally {
      if (this.#asked.get(key) === asked) this.#asked.delete(key);
    }
  }

  async #ask(credentials: BasicCredentials, address: string): Promise<Caller> {
    try {
      const account = await this.#options.signIn(credentials, address);
      return { ...callerOfAccount(account), credential: { kind: "basic", id: null } };
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      // Who guesses too often must not learn from us which guess was right.
      if (error.reason === "too many attempts") this.#known.delete(loginOf(credentials, address));
      const isWrong = error.reason === "wrong password" || error.reason === "account disabled";
      throw isWrong ? new RefusedError("wrong password", { scheme: "Basic" }) : error;
    }
  }

  #remember(login: string, known: Known): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(login, known);
  }

  /** Not an HMAC, which takes Node twenty times as long: nothing is signed here, and nobody sees it. */
  #proofOf({ password }: BasicCredentials): string {
    return hash("sha256", this.#key + password, "hex");
  }
}

/** A name has no NUL. */
const loginOf = ({ username }: BasicCredentials, address: string) => `${username.toLowerCase()}\0${address}`;

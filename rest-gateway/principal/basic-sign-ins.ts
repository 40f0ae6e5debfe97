import { hash, randomBytes } from "node:crypto";
import type { Caller } from "../../db/caller.ts";
import type { Account, AccountState, Clock } from "../auth/store.ts";
import { callerOfAccount } from "./account-caller.ts";
import type { BasicCredentials } from "./credentials.ts";
import { RefusedError } from "./refused.ts";
import type { Remembered } from "./remembered.ts";

/** Milliseconds that a password counts as right without being hashed again, which takes longer than most requests. */
const GOOD_FOR = 60_000;
const MAX_KNOWN = 10_000;

export type BasicSignInsOptions = {
  /** By the user's id: an account that has changed since is signed in anew. */
  readonly accounts: Remembered<AccountState | null>;
  readonly clock: Clock;
  /** Rejects with RefusedError. */
  signIn(credentials: BasicCredentials, address: string): Promise<Account>;
};

type Known = {
  /** What the password is compared by: nobody can tell it apart character by character without the key. */
  readonly proof: string;
  readonly epoch: number;
  readonly caller: Caller;
  readonly until: number;
};

/**
 * Callers who send their password with each request: the last one that was right is remembered for each login at each
 * address, as a hash under a key that no other process knows.
 */
export class BasicSignIns {
  readonly #options: BasicSignInsOptions;
  /** Of this process alone. */
  readonly #key = randomBytes(32).toString("hex");
  readonly #known = new Map<string, Known>();
  /** Requests that come at once are one attempt. */
  readonly #asked = new Map<string, Promise<Caller>>();

  constructor(options: BasicSignInsOptions) {
    this.#options = options;
  }

  /** Rejects with RefusedError. */
  callerOf(credentials: BasicCredentials, address: string): Caller | Promise<Caller> {
    const known = this.#find(credentials, address);
    if (known === null || known.until <= this.#options.clock()) return this.#signIn(credentials, address);
    const state = this.#options.accounts.of(String(known.caller.claims.sub));
    if (state instanceof Promise) return state.then((found) => this.#unlessChanged(known, found, credentials, address));
    return this.#unlessChanged(known, state, credentials, address);
  }

  /** Who that is, where it is remembered; null for all others. */
  known(credentials: BasicCredentials, address: string): Caller | null {
    return this.#find(credentials, address)?.caller ?? null;
  }

  #find(credentials: BasicCredentials, address: string): Known | null {
    const known = this.#known.get(loginOf(credentials, address));
    return known !== undefined && known.proof === this.#proofOf(credentials) ? known : null;
  }

  #unlessChanged(
    known: Known,
    state: AccountState | null,
    credentials: BasicCredentials,
    address: string,
  ): Caller | Promise<Caller> {
    const isSame = state?.epoch === known.epoch && state.role === known.caller.role;
    return isSame ? known.caller : this.#signIn(credentials, address);
  }

  #signIn(credentials: BasicCredentials, address: string): Promise<Caller> {
    const key = `${loginOf(credentials, address)}\0${this.#proofOf(credentials)}`;
    const asked = this.#asked.get(key) ?? this.#ask(credentials, address).finally(() => this.#asked.delete(key));
    this.#asked.set(key, asked);
    return asked;
  }

  async #ask(credentials: BasicCredentials, address: string): Promise<Caller> {
    const { signIn, clock } = this.#options;
    const login = loginOf(credentials, address);
    try {
      const account = await signIn(credentials, address);
      const caller: Caller = { ...callerOfAccount(account), credential: { kind: "basic", id: null } };
      const known = { proof: this.#proofOf(credentials), epoch: account.epoch, caller, until: clock() + GOOD_FOR };
      this.#remember(login, known);
      return caller;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      // Who guesses too often must not learn from us which guess was right.
      if (error.reason === "too many attempts") this.#known.delete(login);
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

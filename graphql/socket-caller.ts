import type { WebSocket } from "ws";
import type { Caller } from "../db/caller.ts";
import type { IdentityChange } from "../db/changes/feed.ts";
import { ApiError } from "../db/errors.ts";

export const FORBIDDEN = 4403;
/** The longest that a timer can wait. */
const MAX_TIMEOUT = 2 ** 31 - 1;
/** Milliseconds until somebody is looked up again who could not be. */
const RETRY = 1000;

export type SocketCallerOptions = {
  readonly socket: WebSocket;
  /** By the same credentials each time. Throws, or rejects with, ApiError when the client is to go. */
  resolve(): Caller | Promise<Caller>;
};

/** Who speaks over a socket. It is closed as soon as its credentials are of somebody else, or of nobody any more. */
export class SocketCaller {
  readonly #options: SocketCallerOptions;
  #timer: NodeJS.Timeout | undefined;
  #current: Caller;

  /** `caller` is whom `resolve` has just given. */
  constructor(caller: Caller, options: SocketCallerOptions) {
    this.#options = options;
    this.#current = caller;
    options.socket.once("close", () => clearTimeout(this.#timer));
    this.#watchEnd();
  }

  get current(): Caller {
    return this.#current;
  }

  isConcernedBy(change: IdentityChange): boolean {
    if (change === "lost" || !isSomebody(this.#current)) return false;
    const { claims, credential } = this.#current;
    if (change === "back") return true;
    if ("user" in change) return change.user === claims.sub;
    return credential?.id === ("session" in change ? change.session : change.key);
  }

  /** Looks again, and closes the socket when it is not the same caller any more. Rejects when nobody can look. */
  async check(): Promise<boolean> {
    if (!isSomebody(this.#current)) return true;
    const found = await this.#resolve();
    if (found === null || !isSame(found, this.#current)) {
      this.#close(found);
      return false;
    }
    this.#current = found;
    return true;
  }

  /** The same for those who do not wait. */
  checkSoon(): void {
    this.check().then(
      (isStill) => isStill && this.#watchEnd(),
      () => this.#checkIn(RETRY),
    );
  }

  /** Null when the client is to go. */
  async #resolve(): Promise<Caller | null> {
    try {
      return await this.#options.resolve();
    } catch (error) {
      if (error instanceof ApiError && error.problem.status < 500) return null;
      throw error;
    }
  }

  #watchEnd(): void {
    const { expiresAt } = this.#current;
    if (expiresAt !== null) this.#checkIn(Math.max(1, Math.min(expiresAt - Date.now(), MAX_TIMEOUT)));
  }

  #checkIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    const { socket } = this.#options;
    if (socket.readyState === socket.OPEN) this.#timer = setTimeout(() => this.checkSoon(), milliseconds);
  }

  #close(found: Caller | null): void {
    const isKey = this.#current.credential?.kind === "key";
    const ended = isKey ? "the API key has expired" : "the access token has expired";
    this.#options.socket.close(FORBIDDEN, found?.refused === "expired" ? ended : "signed out: sign in again");
  }
}

const isSomebody = ({ claims, credential }: Caller) => claims.sub !== undefined || credential !== undefined;

const isSame = (one: Caller, other: Caller) =>
  one.role === other.role && one.claims.sub === other.claims.sub && one.refused === other.refused;

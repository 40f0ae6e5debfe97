import type { WebSocket } from "ws";
import type { Caller } from "../db/caller.ts";
import type { IdentityChange } from "../db/changes/notifications.ts";
import { ApiError } from "../db/errors.ts";

export const FORBIDDEN = 4403;
/** The longest delay of a timer, in milliseconds. */
const MAX_TIMEOUT = 2 ** 31 - 1;
/** Milliseconds after which a failed check is repeated. */
const RETRY = 1000;

export type SocketCallerOptions = {
  readonly socket: WebSocket;
  /** Resolves the credentials of the socket. Throws, or rejects with, ApiError if they are rejected. */
  resolve(): Caller | Promise<Caller>;
};

/** The caller on a WebSocket. The socket is closed when its credentials expire, are revoked or identify another caller. */
export class SocketCaller {
  readonly #options: SocketCallerOptions;
  #timer: NodeJS.Timeout | undefined;
  #current: Caller;

  /** `caller` is the result of the first `resolve`. */
  constructor(caller: Caller, options: SocketCallerOptions) {
    this.#options = options;
    this.#current = caller;
    options.socket.once("close", () => clearTimeout(this.#timer));
    this.#checkAtExpiry();
  }

  get current(): Caller {
    return this.#current;
  }

  /** Whether the change may affect this caller. */
  isAffectedBy(change: IdentityChange): boolean {
    if (change === "lost" || change === "providers" || !isIdentified(this.#current)) return false;
    const { claims, credential } = this.#current;
    if (change === "back") return true;
    if ("user" in change) return change.user === claims.sub;
    return credential?.id === ("session" in change ? change.session : change.key);
  }

  /**
   * Resolves the credentials again. If they no longer identify this caller, closes the socket and returns false. Rejects
   * if the lookup fails.
   */
  async check(): Promise<boolean> {
    if (!isIdentified(this.#current)) return true;
    const found = await this.#resolve();
    if (found === null || !isSame(found, this.#current)) {
      this.#close(found);
      return false;
    }
    this.#current = found;
    return true;
  }

  /** Checks in the background, and again later if the lookup fails. */
  checkSoon(): void {
    this.check().then(
      (isUnchanged) => isUnchanged && this.#checkAtExpiry(),
      () => this.#checkIn(RETRY),
    );
  }

  /** Null if the credentials are rejected. */
  async #resolve(): Promise<Caller | null> {
    try {
      return await this.#options.resolve();
    } catch (error) {
      if (error instanceof ApiError && error.problem.status < 500) return null;
      throw error;
    }
  }

  #checkAtExpiry(): void {
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

/** False for an anonymous caller without any credential: no change can affect them. */
const isIdentified = ({ claims, credential }: Caller) => claims.sub !== undefined || credential !== undefined;

const isSame = (one: Caller, other: Caller) =>
  one.role === other.role && one.claims.sub === other.claims.sub && one.refused === other.refused;

import type { Caller } from "../db/caller.ts";
import type { IdentityChange } from "../db/follow/notifications.ts";
import { isRefusal, Problem } from "../problems/problem.ts";

/** The longest delay of a timer, in milliseconds. */
const MAX_TIMEOUT = 2 ** 31 - 1;
/** Milliseconds after which a failed check is repeated. */
const RETRY = 1000;

export type SocketCallerOptions = {
  /** Resolves the credentials again. Throws, or rejects with, Problem if they are refused. */
  resolve(): Caller | Promise<Caller>;
  /** Called once, when the credentials have expired, have been revoked or identify another caller. The message says why. */
  onEnded(message: string): void;
};

/** The callers on the sockets of an interface. Their credentials are checked when they expire and when an identity changes. */
export class SocketCallers {
  readonly #callers = new Set<SocketCaller>();

  /** `onIdentityChange` calls back when the rights of a user, session or key have changed. */
  constructor(onIdentityChange: (listener: (change: IdentityChange) => void) => void) {
    onIdentityChange((change) => {
      for (const caller of this.#callers) if (caller.isAffectedBy(change)) caller.checkSoon();
    });
  }

  /** `caller` is the result of the first `resolve`. The result must be closed. */
  open(caller: Caller, options: SocketCallerOptions): SocketCaller {
    const opened: SocketCaller = new SocketCaller(caller, options, () => this.#callers.delete(opened));
    this.#callers.add(opened);
    return opened;
  }
}

/** The caller on a socket, as long as its credentials identify the same caller. */
export class SocketCaller {
  readonly #options: SocketCallerOptions;
  readonly #onClosed: () => void;
  #timer: NodeJS.Timeout | undefined;
  #current: Caller;
  #isClosed = false;

  /** Used by SocketCallers only. */
  constructor(caller: Caller, options: SocketCallerOptions, onClosed: () => void) {
    this.#options = options;
    this.#current = caller;
    this.#onClosed = onClosed;
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

  /** Resolves the credentials again. False if they no longer identify this caller. Rejects if the lookup fails. */
  async check(): Promise<boolean> {
    if (this.#isClosed) return false;
    if (!isIdentified(this.#current)) return true;
    const found = await this.#resolve();
    // Closed, or checked again, meanwhile.
    if (this.#isClosed) return false;
    if (typeof found === "string" || !isSame(found, this.#current)) {
      this.#end(found);
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

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#onClosed();
  }

  /** The message of the refusal if the credentials are refused. */
  async #resolve(): Promise<Caller | string> {
    try {
      return await this.#options.resolve();
    } catch (error) {
      if (error instanceof Problem && error.status < 500) return isRefusal(error) ? error.message : SIGNED_OUT;
      throw error;
    }
  }

  #checkAtExpiry(): void {
    const { expiresAt } = this.#current;
    if (expiresAt !== null) this.#checkIn(Math.max(1, Math.min(expiresAt - Date.now(), MAX_TIMEOUT)));
  }

  #checkIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => this.checkSoon(), milliseconds);
  }

  #end(found: Caller | string): void {
    this.close();
    const message = typeof found === "string" ? found : (found.refused?.message ?? SIGNED_OUT);
    this.#options.onEnded(message);
  }
}

const SIGNED_OUT = "signed out: sign in again";

/** False for an anonymous caller without any credential: no change can affect them. */
const isIdentified = ({ claims, credential }: Caller) => claims.sub !== undefined || credential !== undefined;

const isSame = (one: Caller, other: Caller) =>
  one.role === other.role && one.claims.sub === other.claims.sub && one.refused?.message === other.refused?.message;

import type { Clock } from "./account.ts";

/** Milliseconds between two requests for a newer value, and after one that failed. Every caller can cause such requests. */
const COOLDOWN = 30_000;
/** Milliseconds between two requests while there is no value; clients receive it as Retry-After. */
const RETRY = 5000;

export type RemoteValueOptions<Value> = {
  /** Requests the value. Returns the previous one if it is still the same. */
  read(previous: Value | null): Promise<Value>;
  /** Milliseconds after which the value is read again. */
  readonly maxAge: number;
  readonly clock: Clock;
  /** Called when the value has changed. */
  onChange?(): void;
  /** Reports a request that failed. */
  onError(error: unknown): void;
};

/**
 * A value that another service publishes, such as its keys. It is read when it is first needed, again after `maxAge` in the
 * background, and when a newer one is needed: then at most once per COOLDOWN. If a request fails, the previous value stays and is
 * requested again after COOLDOWN; if there is none, it is requested again after RETRY.
 */
export class RemoteValue<Value> {
  readonly #options: RemoteValueOptions<Value>;
  #value: Value | null = null;
  #failure: unknown = null;
  /** When the value is read again in the background. */
  #dueAt = Number.NEGATIVE_INFINITY;
  /** When a request for a newer value, or in place of a failed one, is allowed again. */
  #allowedAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(options: RemoteValueOptions<Value>) {
    this.#options = options;
  }

  /** Rejects with the error of the last request if the value has never been read. */
  async current(): Promise<Value> {
    if (this.#value === null) await this.#readInTurn();
    else this.refresh();
    if (this.#value === null) throw this.#failure;
    return this.#value;
  }

  /** Reads the value again in the background if that is due. */
  refresh(): void {
    if (this.#value !== null && this.#options.clock() > this.#dueAt) void this.#read();
  }

  /** The value after another request, if one is allowed. */
  async newer(): Promise<Value> {
    await this.#readInTurn();
    return this.current();
  }

  /** Concurrent calls share one request. */
  async #readInTurn(): Promise<void> {
    if (this.#reading !== null || this.#takeTurn()) await this.#read();
  }

  #takeTurn(): boolean {
    const now = this.#options.clock();
    if (now < this.#allowedAt) return false;
    this.#allowedAt = now + (this.#value === null ? RETRY : COOLDOWN);
    return true;
  }

  #read(): Promise<void> {
    this.#reading ??= this.#request().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #request(): Promise<void> {
    const { read, maxAge, clock, onChange, onError } = this.#options;
    const previous = this.#value;
    const start = clock();
    this.#dueAt = start + COOLDOWN;
    try {
      this.#value = await read(previous);
      this.#dueAt = start + maxAge;
    } catch (error) {
      this.#failure = error;
      return onError(error);
    }
    // The first request for a newer value is allowed immediately: the value may have changed since it was read.
    if (previous === null) this.#allowedAt = Number.NEGATIVE_INFINITY;
    if (this.#value !== previous) onChange?.();
  }
}

import { bytesOf, Cache } from "../cache/cache.ts";
import type { Sender } from "./sender.ts";

export type LookupCacheOptions<Value> = {
  /** Reads the value from the database. `sender` is null for work of the service. */
  lookUp(key: string, sender: Sender | null): Promise<Value>;
  /** Milliseconds that a value may be used even if no change is reported; Infinity if only a change can invalidate it. */
  maxAge(value: Value): number;
  readonly clock: () => number;
};

type Entry<Value> = { readonly value: Value; readonly expiresAt: number };

/**
 * Rows of the database, cached until the database reports a change. While the listening connection is lost, nothing is
 * cached. A cached value is returned without a promise; lookups of the same key at the same time share one query.
 */
export class LookupCache<Value> {
  readonly #options: LookupCacheOptions<Value>;
  readonly #entries = new Cache<Entry<Value>>({
    name: "identities",
    sizeOf: (entry, key) => bytesOf(key) + bytesOf(entry),
  });
  readonly #pending = new Map<string, Promise<Value>>();
  #isListening = true;
  /** Increases with every value that may no longer be used. */
  version = 0;

  constructor(options: LookupCacheOptions<Value>) {
    this.#options = options;
  }

  get(key: string, sender: Sender | null): Value | Promise<Value> {
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.expiresAt > this.#options.clock()) return entry.value;
    return this.#lookUp(key, sender);
  }

  /** The last value without a lookup. It may have expired a few seconds ago. */
  peek(key: string): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  delete(key: string): void {
    this.version++;
    this.#entries.delete(key);
    // A lookup that started before the change is not cached when it ends.
    this.#pending.delete(key);
  }

  deleteWhere(matches: (value: Value) => boolean): void {
    this.version++;
    this.#entries.deleteWhere(({ value }) => matches(value));
    this.#pending.clear();
  }

  /** Sets whether changes in the database are being reported. */
  setListening(isListening: boolean): void {
    this.#isListening = isListening;
    this.version++;
    this.#entries.clear();
    this.#pending.clear();
  }

  async #lookUp(key: string, sender: Sender | null): Promise<Value> {
    const pending = this.#pending.get(key) ?? this.#options.lookUp(key, sender);
    this.#pending.set(key, pending);
    try {
      const value = await pending;
      if (this.#isListening && this.#pending.get(key) === pending) this.#store(key, value);
      return value;
    } finally {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  #store(key: string, value: Value): void {
    const { clock, maxAge } = this.#options;
    this.#entries.set(key, { value, expiresAt: clock() + maxAge(value) });
  }
}

import { LRUCache } from "lru-cache";

export type CacheLimits<Value> = {
  readonly maxEntries: number;
  /** Characters of all entries together. Clients choose the keys, so this bounds the memory that they can fill. */
  readonly capacity: number;
  /** Longer entries are not cached: a few of them would displace all others. */
  readonly maxEntryLength: number;
  /** Characters of text that a value holds besides its key. */
  lengthOf(value: Value): number;
};

/** Values that are computed from the text of a request. The least recently used entries are evicted first. */
export class TextCache<Value extends object> {
  readonly #limits: CacheLimits<Value>;
  readonly #entries: LRUCache<string, Value>;

  constructor(limits: CacheLimits<Value>) {
    this.#limits = limits;
    this.#entries = new LRUCache({
      max: limits.maxEntries,
      maxSize: limits.capacity,
      maxEntrySize: limits.maxEntryLength,
      sizeCalculation: (value, text) => text.length + limits.lengthOf(value) + 1,
    });
  }

  /** All callers share the value: they must not change it. Errors of `compute` are not cached. */
  getOrCompute(text: string, compute: (text: string) => Value): Value {
    const cached = this.#entries.get(text);
    if (cached !== undefined) return cached;
    if (text.length >= this.#limits.maxEntryLength) return compute(text);
    // A copy, because a slice in V8 keeps the whole text that it was cut from.
    const key = Buffer.from(text).toString();
    const value = compute(key);
    this.#entries.set(key, value);
    return value;
  }
}

/** For parsers of short texts, such as one header. */
export const parserCache = <Value extends object>() =>
  new TextCache<Value>({ maxEntries: 1000, capacity: 60_000, maxEntryLength: 2000, lengthOf: () => 20 });

/** For plans and statements, by the shape of the request. */
export const shapeCache = <Value extends object>(lengthOf: (value: Value) => number) =>
  new TextCache<Value>({ maxEntries: 4000, capacity: 2_000_000, maxEntryLength: 50_000, lengthOf });

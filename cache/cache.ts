import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Metrics } from "../telemetry/metrics.ts";

export type CacheOptions<Value> = {
  /** The name in the metrics. Caches with the same name count together. */
  readonly name: string;
  /** Bytes that an entry holds: see `bytesOf`. */
  sizeOf(value: Value, key: string): number;
  /** Called for each entry that makes room for others. */
  onEvict?(): void;
};

/** Values by text, as long as they fit into the memory of all caches. The least recently used ones are evicted first. */
export class Cache<Value extends object> {
  readonly name: string;
  readonly #sizeOf: CacheOptions<Value>["sizeOf"];
  readonly #onEvict: CacheOptions<Value>["onEvict"];
  readonly #memory: CacheMemory;
  // `max` would allocate all entries at the start.
  readonly #entries = new LRUCache<string, Value>({ maxSize: Number.MAX_SAFE_INTEGER });

  constructor({ name, sizeOf, onEvict }: CacheOptions<Value>, memory: CacheMemory = cacheMemory) {
    this.name = name;
    this.#sizeOf = sizeOf;
    this.#onEvict = onEvict;
    this.#memory = memory;
    memory.add(this);
  }

  /** Bytes that its entries hold. */
  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key);
  }

  /** An entry that would take much of the memory is not kept. */
  set(key: string, value: Value): void {
    const size = Math.ceil(this.#sizeOf(value, key)) + ENTRY_BYTES;
    if (size > this.#memory.maxEntry) return void this.#entries.delete(key);
    this.#entries.set(key, value, { size });
    this.#memory.makeRoom();
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  deleteWhere(matches: (value: Value) => boolean): void {
    const keys = [...this.#entries.entries()].filter(([, value]) => matches(value)).map(([key]) => key);
    for (const key of keys) this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  evictOldest(): void {
    this.#entries.pop();
    this.#onEvict?.();
  }
}

/** Bytes of each entry for the map, the list and the key. */
const ENTRY_BYTES = 150;

/** Entries above this part of the memory are not kept: a few of them would displace all others. */
const MAX_ENTRY_PART = 1 / 4;

/**
 * The memory of all caches of this process. When it is full, the largest cache evicts its oldest entries: a flood of new keys in one
 * cache displaces nothing in the smaller ones.
 */
export class CacheMemory {
  // A cache that is no longer used is forgotten with its owner.
  readonly #caches = new Set<WeakRef<Cache<any>>>();
  /** Includes the names of caches that were garbage-collected, because a series of a metric must not end. */
  readonly #names = new Set<string>();
  #max = Number.POSITIVE_INFINITY;

  /** Bytes. */
  limitTo(max: number): void {
    this.#max = max;
    this.makeRoom();
  }

  /** The size of the largest entry that is kept. */
  get maxEntry(): number {
    return this.#max * MAX_ENTRY_PART;
  }

  add(cache: Cache<any>): void {
    this.#caches.add(new WeakRef(cache));
    this.#names.add(cache.name);
  }

  makeRoom(): void {
    for (;;) {
      let sum = 0;
      let largest: Cache<any> | null = null;
      for (const cache of this.#all()) {
        sum += cache.bytes;
        if (largest === null || cache.bytes > largest.bytes) largest = cache;
      }
      if (sum <= this.#max) return;
      largest!.evictOldest();
    }
  }

  registerMetrics(metrics: Metrics): void {
    metrics.gauge({
      name: "cache_bytes",
      about: "Memory of the caches, by what they hold.",
      labels: ["cache"],
      read: () => [...this.bytesByName()].map(([cache, value]) => ({ labels: { cache }, value })),
    });
  }

  bytesByName(): ReadonlyMap<string, number> {
    const sums = new Map([...this.#names].map((name) => [name, 0]));
    for (const { name, bytes } of this.#all()) sums.set(name, sums.get(name)! + bytes);
    return sums;
  }

  *#all(): Generator<Cache<any>> {
    for (const reference of this.#caches) {
      const cache = reference.deref();
      if (cache === undefined) this.#caches.delete(reference);
      else yield cache;
    }
  }
}

/** Of this process. */
export const cacheMemory = new CacheMemory();

/** Of the object itself, and of each of its fields, in V8. */
const OBJECT_BYTES = 32;
const FIELD_BYTES = 16;
const STRING_BYTES = 16;

/** The bytes of a value that is plain data, such as the claims of a token. Parts that it shares with other values are counted too. */
export function bytesOf(value: unknown): number {
  // V8 keeps one byte for each character of most texts, otherwise two.
  if (typeof value === "string") return STRING_BYTES + Buffer.byteLength(value);
  if (typeof value !== "object" || value === null) return 0;
  let sum = OBJECT_BYTES;
  if (Array.isArray(value) || value instanceof Set) {
    for (const item of value) sum += FIELD_BYTES + bytesOf(item);
  } else if (value instanceof Map) {
    for (const [key, item] of value) sum += 2 * FIELD_BYTES + bytesOf(key) + bytesOf(item);
  } else {
    for (const key in value) sum += FIELD_BYTES + bytesOf((value as Record<string, unknown>)[key]);
  }
  return sum;
}

/**
 * Values that are computed from the text of a request. Most texts occur either once or all the time: a value is cached when its text
 * occurs for the second time, so that texts that occur once evict nothing.
 */
export class TextCache<Value extends object> {
  readonly #cache: Cache<Value>;
  readonly #seen = new SeenTexts();

  constructor(options: CacheOptions<Value>) {
    this.#cache = new Cache(options);
  }

  /** All callers share the value: they must not change it. Errors of `compute` are not cached. */
  getOrCompute(text: string, compute: (text: string) => Value): Value {
    const cached = this.#cache.get(text);
    if (cached !== undefined) return cached;
    if (!this.#seen.again(text)) return compute(text);
    // A copy, because a slice in V8 keeps the whole text that it was cut from.
    const key = Buffer.from(text).toString();
    const value = compute(key);
    this.#cache.set(key, value);
    return value;
  }

  clear(): void {
    this.#cache.clear();
  }
}

/** A power of two. */
const SLOTS = 8192;

/** Remembers about the last 8,000 different texts, by a part of their hash. */
export class SeenTexts {
  /** Allocated with the first text. */
  #hashes: Uint32Array | null = null;

  /** Whether the text has occurred before. Rarely true for a new text, and false for one that last occurred long ago. */
  again(text: string): boolean {
    this.#hashes ??= new Uint32Array(SLOTS);
    const digest = hash("sha1", text, "buffer");
    const slot = digest.readUInt32LE(0) & (SLOTS - 1);
    const mark = digest.readUInt32LE(4);
    if (this.#hashes[slot] === mark) return true;
    this.#hashes[slot] = mark;
    return false;
  }
}

/** For parsers of short texts, such as one header. Their results are plain data. */
export const parserCache = <Value extends object>() =>
  new TextCache<Value>({ name: "parsed", sizeOf: (value, text) => bytesOf(text) + bytesOf(value) });

/** For plans and statements, by the shape of the request. `lengthOf` is the length of their SQL. */
export const shapeCache = <Value extends object>(lengthOf: (value: Value) => number) =>
  new TextCache<Value>({
    name: "statements",
    sizeOf: (value, shape) => bytesOf(shape) + lengthOf(value) * BYTES_PER_CHARACTER_OF_SQL,
  });

/** Of the SQL and the plan that it is written from: measured by the bench `soak`. */
const BYTES_PER_CHARACTER_OF_SQL = 8;

/** A function of an object that returns the same result for the same object, as long as it exists. */
export function forObjects<One extends object, Result>(make: (one: One) => Result): (one: One) => Result {
  const known = new WeakMap<One, Result>();
  return (one) => {
    const result = known.get(one);
    if (result !== undefined) return result;
    const made = make(one);
    known.set(one, made);
    return made;
  };
}

/**
 * A function of two objects that returns the same result for the same two, as long as both exist.
 *
 *   const intersectionOf = forPairs((one: Set<string>, other: Set<string>) => one.intersection(other))
 */
export function forPairs<One extends object, Other extends object, Result>(
  make: (one: One, other: Other) => Result,
): (one: One, other: Other) => Result {
  const ofOne = forObjects((one: One) => forObjects((other: Other) => make(one, other)));
  return (one, other) => ofOne(one)(other);
}

import { hash } from "node:crypto";
import { bytesOf, Cache, type CacheOptions } from "./cache.ts";

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

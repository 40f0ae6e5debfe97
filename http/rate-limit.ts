import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import type { AddressReader } from "./address.ts";

/** What became of a request in its bucket. */
export type Taken = {
  readonly isOver: boolean;
  /** Requests that may follow at once. */
  readonly remaining: number;
  /** Whole seconds until the next request may come. */
  readonly retryAfter: number;
};

/** Where the buckets are. */
export type RateLimitStore = {
  /** Takes `cost` requests out of a bucket if it has them; 0 looks into it. */
  take(key: string, cost: 0 | 1): Taken;
};

/** Asked by machines, as often as they like. */
const EXEMPT = /^\/(live|health)(\?|$)/;

export type RateLimitOptions = {
  /** Requests a minute. */
  readonly limit: number;
  readonly store: RateLimitStore;
  readonly addressOf: AddressReader;
  /**
   * Who sends a request, when its credential is known to be good; null for everybody else. The first request of somebody
   * counts for his address, and so does every one whose credential is bad.
   */
  knownAs(request: IncomingMessage): string | null;
};

/** How many requests a client may send, and what the answers say of it. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #limit: string;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#limit = String(options.limit);
  }

  /** Counts a request, unless it is exempt: a preflight is the browser's, not the page's. */
  count(request: IncomingMessage): Taken {
    return this.#options.store.take(this.#keyOf(request), isExempt(request) ? 0 : 1);
  }

  /** Names and values of the headers by turns. */
  headersOf({ remaining }: Taken): string[] {
    return ["X-RateLimit-Limit", this.#limit, "X-RateLimit-Remaining", String(remaining)];
  }

  /** Whose requests are counted together. No address looks like the name of a caller, which has a space. */
  #keyOf(request: IncomingMessage): string {
    const { knownAs, addressOf } = this.#options;
    return knownAs(request) ?? networkOf(addressOf(request));
  }
}

const isExempt = ({ method, url = "/", headers }: IncomingMessage) =>
  (method === "OPTIONS" && headers["access-control-request-method"] !== undefined) || EXEMPT.test(url);

/**
 * What one client has at least: of IPv6 the first half of the address.
 *
 *   networkOf("203.0.113.7")         // "203.0.113.7"
 *   networkOf("::ffff:203.0.113.7")  // "203.0.113.7"
 *   networkOf("2001:DB8::7")         // "2001:db8:0:0"
 */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [before = "", after = ""] = address.split("::");
  const groups = before === "" ? [] : before.split(":");
  const last = after === "" ? [] : after.replace(/\d+\.\d+\.\d+\.\d+$/, "0:0").split(":");
  const zeros = new Array<string>(Math.max(0, 8 - groups.length - last.length)).fill("0");
  return [...groups, ...zeros, ...last]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}

type Bucket = { tokens: number; at: number };

export type MemoryBucketsOptions = {
  /** Requests a minute. */ readonly limit: number;
  /** Milliseconds on a clock that only goes forward. */
  readonly now?: () => number;
  /** Buckets that are remembered: this many of the recent ones, and as many older ones. */
  readonly maxKeys?: number;
};

const MINUTE = 60_000;
const MAX_KEYS = 50_000;

/**
 * Buckets of this process. Each fills up within a minute, so that one which nobody has touched for a minute is like one
 * that never was: the older half is forgotten whenever a minute is over, or sooner when the recent half is full.
 */
export class MemoryBuckets implements RateLimitStore {
  readonly #limit: number;
  readonly #now: () => number;
  readonly #maxKeys: number;
  #recent = new Map<string, Bucket>();
  #older = new Map<string, Bucket>();
  #turnedAt: number;

  constructor({ limit, now = () => performance.now(), maxKeys = MAX_KEYS }: MemoryBucketsOptions) {
    this.#limit = limit;
    this.#now = now;
    this.#maxKeys = maxKeys;
    this.#turnedAt = now();
  }

  /** Buckets that are remembered. */
  get size(): number {
    return this.#recent.size + this.#older.size;
  }

  take(key: string, cost: 0 | 1): Taken {
    const now = this.#now();
    const bucket = this.#bucketOf(key, now);
    bucket.tokens = Math.min(this.#limit, bucket.tokens + ((now - bucket.at) * this.#limit) / MINUTE);
    bucket.at = now;
    const isOver = bucket.tokens < cost;
    if (!isOver) bucket.tokens -= cost;
    const missing = Math.max(0, 1 - bucket.tokens);
    const retryAfter = missing === 0 ? 0 : Math.ceil((missing * MINUTE) / this.#limit / 1000);
    return { isOver, remaining: Math.floor(bucket.tokens), retryAfter };
  }

  #bucketOf(key: string, now: number): Bucket {
    if (now - this.#turnedAt >= MINUTE) this.#turn(now);
    const known = this.#recent.get(key);
    if (known) return known;
    const bucket = this.#older.get(key) ?? { tokens: this.#limit, at: now };
    this.#older.delete(key);
    if (this.#recent.size >= this.#maxKeys) this.#turn(now);
    this.#recent.set(key, bucket);
    return bucket;
  }

  #turn(now: number): void {
    this.#older = this.#recent;
    this.#recent = new Map();
    this.#turnedAt = now;
  }
}

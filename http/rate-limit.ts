import type { IncomingMessage } from "node:http";
import { networkOf } from "../db/network.ts";
import type { AddressReader } from "./request.ts";

/** The state of a bucket after a request. */
export type Taken = {
  readonly isOver: boolean;
  /** Requests that may follow immediately. */
  readonly remaining: number;
  /** Whole seconds until the next request is allowed. */
  readonly retryAfter: number;
};

/** Stores the buckets. */
export type RateLimitStore = {
  /** Takes `cost` requests from a bucket if it has them; 0 only reads it. */
  take(key: string, cost: 0 | 1): Taken;
};

/** Probes are not limited, unless they have a credential that must be verified. */
const EXEMPT = /^\/(live|ready|health|metrics)(\?|$)/;

export type RateLimitOptions = {
  /** Requests per minute; 0 means no limit. */
  readonly limit: number;
  readonly addressOf: AddressReader;
};

/**
 * Limits the requests of a known caller, or else of an IP address. The first request of a caller counts for the IP address,
 * and so does every request without a valid credential, so that a flood of them is limited before it costs a query.
 */
export class RateLimit {
  readonly #addressOf: AddressReader;
  #limit = "0";
  #store: RateLimitStore | null = null;

  constructor({ limit, addressOf }: RateLimitOptions) {
    this.#addressOf = addressOf;
    this.follow(limit);
  }

  /** Replaces the limit. All callers then have the full limit again. */
  follow(limit: number): void {
    if (String(limit) === this.#limit) return;
    this.#limit = String(limit);
    this.#store = limit === 0 ? null : new MemoryBuckets({ limit });
  }

  /**
   * Counts a request; null without a limit. Health checks without a credential are exempt, and so are preflights, which the browser adds to the
   * requests of a page.
   */
  count(request: IncomingMessage, knownName: string | null): Taken | null {
    if (this.#store === null) return null;
    // An IP address never looks like the name of a caller, which contains a space.
    const key = knownName ?? networkOf(this.#addressOf(request));
    return this.#store.take(key, isExempt(request) ? 0 : 1);
  }

  /** Headers of every response; names and values alternate. */
  headersOf({ remaining }: Taken): string[] {
    return ["X-RateLimit-Limit", this.#limit, "X-RateLimit-Remaining", String(remaining)];
  }
}

const isExempt = ({ method, url = "/", headers }: IncomingMessage) =>
  (method === "OPTIONS" && headers["access-control-request-method"] !== undefined) ||
  (EXEMPT.test(url) && !url.includes("api_key") && !CREDENTIALS.some((name) => name in headers));

const CREDENTIALS = ["authorization", "apikey", "x-api-key", "cookie"];

type Bucket = { tokens: number; at: number };

export type MemoryBucketsOptions = {
  /** Requests per minute. */ readonly limit: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** Maximum number of recent buckets, and of older ones. */
  readonly maxKeys?: number;
};

const MINUTE = 60_000;
const MAX_KEYS = 50_000;

/**
 * Buckets in the memory of this process. After a minute without requests a bucket is full, like a new one. So the older
 * half of the buckets is dropped every minute, or earlier when the recent half is full.
 */
export class MemoryBuckets implements RateLimitStore {
  readonly #limit: number;
  readonly #now: () => number;
  readonly #maxKeys: number;
  #recent = new Map<string, Bucket>();
  #older = new Map<string, Bucket>();
  #rotatedAt: number;

  constructor({ limit, now = () => performance.now(), maxKeys = MAX_KEYS }: MemoryBucketsOptions) {
    this.#limit = limit;
    this.#now = now;
    this.#maxKeys = maxKeys;
    this.#rotatedAt = now();
  }

  /** The number of buckets in memory. */
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
    if (now - this.#rotatedAt >= MINUTE) this.#rotate(now);
    const known = this.#recent.get(key);
    if (known) return known;
    const bucket = this.#older.get(key) ?? { tokens: this.#limit, at: now };
    this.#older.delete(key);
    if (this.#recent.size >= this.#maxKeys) this.#rotate(now);
    this.#recent.set(key, bucket);
    return bucket;
  }

  #rotate(now: number): void {
    this.#older = this.#recent;
    this.#recent = new Map();
    this.#rotatedAt = now;
  }
}

import type { IncomingMessage } from "node:http";
import { NETWORKS_PER_SITE, siteOf } from "../../db/network.ts";
import { KEY_PARAMETERS } from "../../identity/credentials.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import type { Metrics, Sample } from "../../telemetry/metrics.ts";

/** What a client has open. */
const HELD = ["connections", "sockets", "channels"] as const;
type Held = (typeof HELD)[number];

/** What a client does within a second. */
const RATES = ["messages", "joins"] as const;
type Rate = (typeof RATES)[number];

/** The state of RATE_LIMIT after a request or operation. */
type Taken = {
  readonly isOver: boolean;
  /** Requests that may follow immediately. */
  readonly remaining: number;
  /** Whole seconds until the next request is allowed. */
  readonly retryAfter: number;
};

const SECOND = 1000;
const MINUTE = 60_000;
const MAX_CLIENTS = 50_000;

/** Tells the other processes what clients have used of RATE_LIMIT. */
export type RateLedger = {
  /** The client has asked for something, with this limit per minute. */
  add(client: Client, limit: number): void;
};

/** What all clients of a process have in common. */
type Shared = { readonly now: () => number; ledger: RateLedger | null };

type ClientsOptions = {
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** Maximum number of recent clients, and of older ones, that hold nothing. */
  readonly max?: number;
};

/**
 * The clients of this process: networks (`networkOf`), and known callers (`user 7`). Every limit on a client counts here, except those
 * on bytes and database connections. A client that holds nothing and has sent nothing for a minute is like a new one. So the older half
 * of the clients is dropped every minute, or earlier when the recent half is full.
 */
export class Clients {
  readonly #shared: Shared;
  readonly #max: number;
  /** Those with a network among the clients. */
  readonly #sites = new Map<string, Client>();
  #recent = new Map<string, Client>();
  #older = new Map<string, Client>();
  #rotatedAt: number;

  constructor({ now = () => performance.now(), max = MAX_CLIENTS }: ClientsOptions = {}) {
    this.#shared = { now, ledger: null };
    this.#max = max;
    this.#rotatedAt = now();
  }

  /** From now on, RATE_LIMIT counts what other processes grant too. */
  share(ledger: RateLedger): void {
    this.#shared.ledger = ledger;
  }

  /** The number of clients in memory. */
  get size(): number {
    return this.#recent.size + this.#older.size;
  }

  /** The client with the name of a known caller, which contains a space, or of a network, which does not. */
  of(name: string): Client {
    const now = this.#shared.now();
    if (now - this.#rotatedAt >= MINUTE) this.#rotate(now);
    const known = this.#recent.get(name);
    if (known) return known;
    const client = this.#older.get(name) ?? this.#create(name);
    this.#older.delete(name);
    if (this.#recent.size >= this.#max) this.#rotate(now);
    this.#recent.set(name, client);
    return client;
  }

  /** How many clients hold something of this kind. */
  holding(counter: Held): number {
    return this.#all().filter((client) => client.held[counter] > 0).length;
  }

  /** `limit` reads the requests per minute. */
  registerMetrics(metrics: Metrics, limit: () => number): void {
    const read = (fold: (counts: readonly number[]) => number) => () => this.#samples(limit(), fold);
    metrics.gauge({
      name: "clients",
      about:
        "IP networks and known callers that are counted, by what they hold, or do per second (requests: per minute).",
      labels: ["counter"],
      read: read((counts) => counts.length),
    });
    metrics.gauge({
      name: "clients_highest",
      about: "The highest count of one client, by what is counted.",
      labels: ["counter"],
      aggregation: "max",
      read: read((counts) => counts.reduce((highest, count) => Math.max(highest, count), 0)),
    });
  }

  /** `fold` makes one number of the counts above 0. */
  #samples(limit: number, fold: (counts: readonly number[]) => number): readonly Sample[] {
    const all = this.#all();
    const now = this.#shared.now();
    return [...HELD, ...RATES, "requests" as const].map((counter) => {
      const counts = all.map((client) => client.read(counter, now, limit)).filter((count) => count > 0);
      return { labels: { counter }, value: fold(counts) };
    });
  }

  #all(): readonly Client[] {
    return [...this.#recent.values(), ...this.#older.values()];
  }

  #create(name: string): Client {
    const siteName = siteOf(name);
    if (siteName === null) return new Client(name, this.#shared);
    const site = this.#sites.get(siteName) ?? new Client(siteName, this.#shared);
    this.#sites.set(siteName, site);
    site.networks++;
    return new Client(name, this.#shared, site);
  }

  #rotate(now: number): void {
    const kept = new Map<string, Client>();
    for (const [name, client] of this.#older) {
      if (HELD.some((counter) => client.held[counter] > 0)) kept.set(name, client);
      else if (client.site !== null && --client.site.networks === 0) this.#sites.delete(client.site.name);
    }
    this.#older = this.#recent;
    this.#recent = kept;
    this.#rotatedAt = now;
  }
}

/** What one client has open and does. Limits of a network apply to its site too, multiplied. */
export class Client {
  readonly name: string;
  /** The site of an IPv6 network; null for other clients. */
  readonly site: Client | null;
  readonly held: Record<Held, number> = { connections: 0, sockets: 0, channels: 0 };
  /** Used by Clients only: of a site, its networks among the clients. */
  networks = 0;
  /** For the ledger: what it was granted since the last exchange. */
  unshared = 0;
  readonly #shared: Shared;
  readonly #rates: Partial<Record<Rate, IntervalCount>> = {};
  /** Requests that may follow, at the time `#at`; a new client has the whole limit. */
  #tokens = Number.POSITIVE_INFINITY;
  #at = 0;

  constructor(name: string, shared: Shared, site: Client | null = null) {
    this.name = name;
    this.site = site;
    this.#shared = shared;
  }

  /** Whether so many more would exceed the limit. */
  isFull(counter: Held, limit: number, more = 1): boolean {
    if (this.held[counter] + more > limit) return true;
    return this.site?.isFull(counter, limit * NETWORKS_PER_SITE, more) ?? false;
  }

  /** Counts one, or as many, until the result is called, once. */
  hold(counter: Held, count = 1): () => void {
    this.held[counter] += count;
    const release = this.site?.hold(counter, count);
    return () => {
      this.held[counter] -= count;
      release?.();
    };
  }

  /** Counts one in the present second, and returns whether there are more than the limit. */
  exceeds(counter: Rate, limit: number): boolean {
    this.#rates[counter] ??= new IntervalCount();
    if (this.#rates[counter].add(this.#shared.now()) > limit) return true;
    return this.site?.exceeds(counter, limit * NETWORKS_PER_SITE) ?? false;
  }

  /** Takes `cost` requests if they are left of `limit` per minute, which is refilled evenly; 0 only reads. */
  take(limit: number, cost: number): Taken {
    const ofSite = this.site?.take(limit * NETWORKS_PER_SITE, 0) ?? null;
    const isOver = this.#refill(limit, this.#shared.now()) < cost || (cost > 0 && ofSite?.remaining === 0);
    if (!isOver) this.#spend(cost);
    this.#shared.ledger?.add(this, limit);
    const own = { isOver, remaining: Math.max(0, Math.floor(this.#tokens)), retryAfter: this.#secondsUntilNext(limit) };
    if (ofSite === null) return own;
    const site = isOver ? ofSite : this.site!.take(limit * NETWORKS_PER_SITE, cost);
    return {
      isOver,
      remaining: Math.min(own.remaining, site.remaining),
      retryAfter: Math.max(own.retryAfter, site.retryAfter),
    };
  }

  /** The requests that may follow, as far as this process knows; negative if all processes together have granted too many. */
  left(limit: number): number {
    return Math.max(-limit, this.#refill(limit, this.#shared.now()));
  }

  /** What all processes together have left of the limit. */
  learn(left: number, limit: number): void {
    if (!(Math.abs(left) <= limit)) return;
    this.#tokens = left - this.unshared;
    this.#at = this.#shared.now();
  }

  /** The present count; per second, that of the last whole second. */
  read(counter: Held | Rate | "requests", now: number, limit: number): number {
    if (counter === "requests") return limit === 0 ? 0 : Math.ceil(limit - this.#refill(limit, now));
    if (counter === "messages" || counter === "joins") return this.#rates[counter]?.last(now) ?? 0;
    return this.held[counter];
  }

  #spend(cost: number): void {
    this.#tokens -= cost;
    this.unshared += cost;
  }

  #refill(limit: number, now: number): number {
    this.#tokens = Math.min(limit, this.#tokens + ((now - this.#at) * limit) / MINUTE);
    this.#at = now;
    return this.#tokens;
  }

  #secondsUntilNext(limit: number): number {
    return Math.ceil((Math.max(0, 1 - this.#tokens) * MINUTE) / limit / SECOND);
  }
}

/** Counts what happens in the present second, or in another interval. Times are milliseconds. */
export class IntervalCount {
  readonly #length: number;
  #interval = 0;
  #count = 0;
  #before = 0;

  constructor(length = SECOND) {
    this.#length = length;
  }

  /** Returns the number in this interval. */
  add(now = performance.now()): number {
    this.#advance(Math.floor(now / this.#length));
    return ++this.#count;
  }

  /** The number in the last whole interval. */
  last(now: number): number {
    this.#advance(Math.floor(now / this.#length));
    return this.#before;
  }

  #advance(interval: number): void {
    if (interval === this.#interval) return;
    this.#before = interval === this.#interval + 1 ? this.#count : 0;
    this.#interval = interval;
    this.#count = 0;
  }
}

/** Probes are not limited, unless they have a credential that must be verified. */
const EXEMPT = /^\/(live|ready|health|metrics)(\?|$)/;

/** An operation on a socket counts again for each so many characters of its document or filters: to read them takes the longer. */
export const CHARACTERS_PER_OPERATION = 1000;

export type RateLimitOptions = {
  /** Requests per minute; 0 means no limit. */
  readonly limit: number;
  readonly clients: Clients;
  onLimit?(setting: string, client: Client): void;
};

/** The headers of each response to a request, names and values alternating, and why it is refused, or null. */
export type CountedRequest = { readonly headers: readonly string[]; readonly refusal: Problem | null };

export const NOT_COUNTED: CountedRequest = { headers: [], refusal: null };

/**
 * Limits the requests and the operations on WebSockets of a known caller, or else of a network. The first request of a caller counts
 * for the network, and so does every request without a valid credential, so that a flood of them is limited before it costs a query.
 */
export class RateLimit {
  readonly #options: RateLimitOptions;
  #limit: number;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#limit = options.limit;
  }

  /** Requests per minute; 0 means no limit. */
  get limit(): number {
    return this.#limit;
  }

  /** Replaces the limit. What callers have left of the previous limit stays, up to the new one. */
  follow(limit: number): void {
    this.#limit = limit;
  }

  /**
   * Counts a request of the client with this name. Health checks without a credential are exempt, and so are preflights, which the
   * browser adds to the requests of a page.
   */
  count(name: string, request: IncomingMessage): CountedRequest {
    return this.#count(name, isExempt(request) ? 0 : 1);
  }

  /**
   * Counts an operation on a socket, or what a request multiplies, such as its messages, like `cost` requests, but never more than the
   * limit. Returns why it is refused, or null.
   */
  countMore(name: string, cost: number): Problem | null {
    return this.#count(name, Math.max(1, Math.min(cost, this.#limit - 1))).refusal;
  }

  #count(name: string, cost: number): CountedRequest {
    if (this.#limit === 0) return NOT_COUNTED;
    const client = this.#options.clients.of(name);
    const { isOver, remaining, retryAfter } = client.take(this.#limit, cost);
    if (isOver) this.#options.onLimit?.("RATE_LIMIT", client);
    const headers = ["X-RateLimit-Limit", String(this.#limit), "X-RateLimit-Remaining", String(remaining)];
    return { headers, refusal: isOver ? problem("too many requests", { retryAfter }) : null };
  }
}

const isExempt = ({ method, url = "/", headers }: IncomingMessage) =>
  (method === "OPTIONS" && headers["access-control-request-method"] !== undefined) ||
  (EXEMPT.test(url) &&
    !KEY_PARAMETERS.some((name) => url.includes(name)) &&
    !CREDENTIALS.some((name) => name in headers));

const CREDENTIALS = ["authorization", "apikey", "x-api-key", "cookie"];

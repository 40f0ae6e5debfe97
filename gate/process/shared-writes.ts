import { hash } from "node:crypto";
import type { Logger } from "pino";
import type { SharedWrites } from "../../db/replicas/reading.ts";
import type { Lsn } from "../../db/replicas/recent-writes.ts";
import { type Redis, scriptOf } from "./redis.ts";

/** Keeps the last of a client's positions, for so many milliseconds from now on. */
const NOTE = scriptOf(`
local known = redis.call('HMGET', KEYS[1], 'lsn')[1]
if not known or known < ARGV[1] then redis.call('HSET', KEYS[1], 'lsn', ARGV[1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);

/**
 * The last position of each client, "" without one. Null if the server has lost its data so lately that it may have been in them:
 * the first key says since when it has all.
 */
const LAST = scriptOf(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = redis.call('HMGET', KEYS[1], 'since')[1]
if not since then
  since = string.format('%.0f', now)
  redis.call('HSET', KEYS[1], 'since', since)
end
if now - since < tonumber(ARGV[1]) then return false end
local last = {}
for i = 2, #KEYS do last[i - 1] = redis.call('HMGET', KEYS[i], 'lsn')[1] or '' end
return last`);

/** Hexadecimal digits: so texts have the order of positions. */
const DIGITS = 17;

export type SharedWritesOptions = {
  readonly redis: Pick<Redis, "prefix" | "run" | "connectedAt">;
  /** Milliseconds for which a write is remembered. */
  readonly milliseconds: number;
  readonly log: Pick<Logger, "info" | "warn">;
};

/** A question to the server, for all reads that wait for it. */
type Question = {
  /** The clients, and where the answer has their positions. */
  readonly clients: Map<string, number>;
  /** Null if it is uncertain. */
  readonly answer: Promise<readonly Lsn[] | null>;
};

/** The last write of each client at any process, on one Valkey or Redis, which does not see who they are. */
export class WritesInRedis implements SharedWrites {
  readonly #options: SharedWritesOptions;
  /** Resolves with the last question that has been sent. */
  #sent: Promise<unknown> = Promise.resolve();
  /** The question that is sent after it. */
  #next: Question | null = null;
  #isWarned = false;

  constructor(options: SharedWritesOptions) {
    this.#options = options;
  }

  async note(client: string, lsn: Lsn): Promise<void> {
    const { redis, milliseconds } = this.#options;
    await redis.run(NOTE, [this.#keyOf(client)], [lsn.toString(16).padStart(DIGITS, "0"), String(milliseconds)]);
  }

  /** A question costs as much CPU as half a read, so reads that come while one is under way share the next one. */
  async lastOf(clients: readonly string[]): Promise<Lsn | null> {
    this.#next ??= this.#ask();
    const { clients: all, answer } = this.#next;
    for (const client of clients) if (!all.has(client)) all.set(client, all.size);
    const positions = await answer;
    return positions && clients.map((client) => positions[all.get(client)!]!).reduce((a, b) => (a > b ? a : b));
  }

  #ask(): Question {
    const clients: Question["clients"] = new Map();
    const answer = this.#sent.then(() => {
      this.#next = null;
      return this.#read([...clients.keys()]);
    });
    this.#sent = answer;
    return { clients, answer };
  }

  async #read(clients: readonly string[]): Promise<readonly Lsn[] | null> {
    const { redis, milliseconds } = this.#options;
    try {
      const keys = [`${redis.prefix}:writes`, ...clients.map((client) => this.#keyOf(client))];
      const last = (await redis.run(LAST, keys, [String(milliseconds)])) as readonly string[] | null;
      this.#know(true);
      // After a failover the server may lack what the one before it had confirmed. The first connection may follow one, too.
      if (last === null || performance.now() - redis.connectedAt < milliseconds) return null;
      return last.map((lsn) => BigInt(`0x0${lsn}`));
    } catch {
      this.#know(false);
      return null;
    }
  }

  #keyOf(client: string): string {
    return `${this.#options.redis.prefix}:write:${hash("sha256", client, "base64url")}`;
  }

  /** One line for each loss. */
  #know(isKnown: boolean): void {
    if (isKnown !== this.#isWarned) return;
    this.#isWarned = !isKnown;
    const { log } = this.#options;
    if (isKnown) log.info("REDIS_URL says again what clients have written: reads go to replicas");
    else
      log.warn("REDIS_URL does not say what clients have written: reads without a Change-Position go to the primary");
  }
}

import { createHash } from "node:crypto";
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
 * The last position of several clients, "" without any. Null if the server has lost its data so lately that it may have been in them:
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
local last = ''
for i = 2, #KEYS do
  local lsn = redis.call('HMGET', KEYS[i], 'lsn')[1]
  if lsn and lsn > last then last = lsn end
end
return last`);

/** Hexadecimal digits: so texts have the order of positions. */
const DIGITS = 17;

export type SharedWritesOptions = {
  readonly redis: Pick<Redis, "prefix" | "run" | "connectedAgain">;
  /** Milliseconds for which a write is remembered. */
  readonly milliseconds: number;
  readonly log: Pick<Logger, "info" | "warn">;
};

/** The last write of each client at any process, on one Valkey or Redis, which does not see who they are. */
export class WritesInRedis implements SharedWrites {
  readonly #options: SharedWritesOptions;
  #isWarned = false;

  constructor(options: SharedWritesOptions) {
    this.#options = options;
  }

  async note(client: string, lsn: Lsn): Promise<void> {
    const { redis, milliseconds } = this.#options;
    await redis.run(NOTE, [this.#keyOf(client)], [lsn.toString(16).padStart(DIGITS, "0"), String(milliseconds)]);
  }

  async lastOf(clients: readonly string[]): Promise<Lsn | null> {
    const { redis, milliseconds } = this.#options;
    try {
      const keys = [`${redis.prefix}:writes`, ...clients.map((client) => this.#keyOf(client))];
      const last = await redis.run(LAST, keys, [String(milliseconds)]);
      this.#know(true);
      // After a failover the server may lack what the one before it had confirmed.
      if (last === null || performance.now() - redis.connectedAgain < milliseconds) return null;
      return BigInt(`0x0${last}`);
    } catch {
      this.#know(false);
      return null;
    }
  }

  #keyOf(client: string): string {
    return `${this.#options.redis.prefix}:write:${createHash("sha256").update(client).digest("base64url")}`;
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

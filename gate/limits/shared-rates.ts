import { type Redis, scriptOf } from "../process/redis.ts";
import type { Client, RateLedger } from "./clients.ts";

/** Milliseconds between two exchanges about a client. */
const INTERVAL = 20;
/** Clients in one call of the script, which blocks the server for about a microsecond each. */
const MAX_PER_CALL = 500;

/**
 * Takes `cost` from the bucket of each client, and returns what is left. A bucket is refilled evenly. It may owe as much as it holds,
 * because processes grant first and tell later. One that the server does not have has what the process knows: at first the whole
 * limit, and after a restart of the server what was left. The server's clock counts, and never goes back.
 */
const TAKE = scriptOf(`
local time = redis.call('TIME')
local present = time[1] * 1000 + math.floor(time[2] / 1000)
local left = {}
for i, key in ipairs(KEYS) do
  local limit, cost, known = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local bucket = redis.call('HMGET', key, 'tokens', 'at')
  local now, tokens = present, known
  if bucket[1] then
    now = math.max(present, bucket[2])
    tokens = math.max(-limit, math.min(limit, bucket[1] + (now - bucket[2]) * limit / 60000) - cost)
  end
  if cost > 0 then
    redis.call('HSET', key, 'tokens', tostring(tokens), 'at', string.format('%.0f', now))
    redis.call('PEXPIRE', key, 120000)
  end
  left[i] = tostring(tokens)
end
return left`);

/**
 * RATE_LIMIT over all processes on one Valkey or Redis. A process decides alone, with what it knows of the client, so no request
 * waits. It then tells the server what it has granted, of all clients together every few milliseconds, and learns what the others
 * have. What was granted too much meanwhile is owed: the client gets less afterwards.
 */
export class SharedRates implements RateLedger {
  readonly #redis: Redis;
  /** The clients of the next exchange, and their limits. */
  readonly #listed = new Map<Client, number>();
  /** Until the exchange has ended: only one at a time, and the next one has whatever came meanwhile. */
  #timer: NodeJS.Timeout | null = null;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Tells the others about the client soon. */
  add(client: Client, limit: number): void {
    if (!this.#redis.isReady) {
      client.unshared = 0;
      return;
    }
    this.#listed.set(client, limit);
    this.#timer ??= setTimeout(() => this.#exchange(), INTERVAL).unref();
  }

  async #exchange(): Promise<void> {
    const listed = [...this.#listed];
    this.#listed.clear();
    const calls = Array.from({ length: Math.ceil(listed.length / MAX_PER_CALL) }, (_, i) =>
      this.#take(listed.slice(i * MAX_PER_CALL, (i + 1) * MAX_PER_CALL)),
    );
    await Promise.all(calls);
    this.#timer = this.#listed.size > 0 ? setTimeout(() => this.#exchange(), INTERVAL).unref() : null;
  }

  async #take(listed: readonly (readonly [Client, limit: number])[]): Promise<void> {
    const keys = listed.map(([client]) => `${this.#redis.prefix}:rate:${client.name}`);
    const values = listed.flatMap(([client, limit]) => [limit, client.unshared, client.left(limit)].map(String));
    for (const [client] of listed) client.unshared = 0;
    try {
      const left = (await this.#redis.run(TAKE, keys, values)) as string[];
      for (const [i, [client, limit]] of listed.entries()) client.learn(Number(left[i]), limit);
    } catch {
      // The connection is lost, which is in the log: this process goes on alone.
    }
  }
}

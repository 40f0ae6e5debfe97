import type { HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, type BenchDatabase } from "../database.ts";
import { applyOpenLoad, type OpenLoadResult } from "../overload/open-load.ts";
import type { BenchRedis } from "../redis.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";

/** Starts at the same time. */
const AT_ONCE = 2;

/** All instances together have at most as many connections as the database. */
const programOf = (redisUrl: string): Program => ({
  name: "ours",
  about: "",
  base: "",
  command: (database, port) => ourCommand(database, port, { DB_POOL: "3", REDIS_URL: redisUrl }),
});

/** Instances of one process on one database. With Valkey or Redis, the first one reads the write-ahead log for all. */
export class Instances {
  readonly database: BenchDatabase;
  readonly redis: BenchRedis | null;
  readonly #all: RunningServer[] = [];
  #paused: readonly RunningServer[] = [];

  private constructor(database: BenchDatabase, redis: BenchRedis | null) {
    this.database = database;
    this.redis = redis;
  }

  static async start(count: number, database: BenchDatabase, redis: BenchRedis | null): Promise<Instances> {
    const instances = new Instances(database, redis);
    const start = async () => {
      instances.#all.push(await startServer(programOf(redis?.url ?? ""), database));
    };
    try {
      await start();
      while (instances.#all.length < count)
        await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - instances.#all.length) }, start));
    } catch (error) {
      await instances[Symbol.asyncDispose]();
      throw error;
    }
    return instances;
  }

  /** The first ones. */
  first(count: number): readonly RunningServer[] {
    return this.#all.slice(0, count);
  }

  /** Stops all but the first ones, and resolves when these have caught up. */
  async only(count: number): Promise<readonly RunningServer[]> {
    this.#paused = this.#all.slice(count);
    for (const each of this.#paused) each.pause();
    await Promise.all(this.first(count).map((each) => each.resume()));
    return this.first(count);
  }

  /** Continues those that are stopped. */
  async resume(): Promise<void> {
    await Promise.all(this.#paused.map((each) => each.resume()));
    this.#paused = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((each) => each[Symbol.asyncDispose]()));
  }
}

const CONNECTIONS = 16;

export type ReadLoad = {
  readonly rate: number;
  readonly seconds: number;
  readonly settleSeconds: number;
  readonly connections?: number;
};

/** Reads of one row by its key. */
export function readRows({ address }: RunningServer, load: ReadLoad, signal: AbortSignal): Promise<OpenLoadResult> {
  const headers = { apikey: ANON_KEY, Authorization: bearer() };
  const requests = Array.from({ length: 200 }, (_, i): HttpRequest => {
    const path = `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`;
    return { method: "GET", path, headers, body: null };
  });
  return applyOpenLoad({ address, requests, connections: CONNECTIONS, ...load }, signal);
}

import { hasRedis, startRedis } from "../test/support/redis.ts";

const { REDIS_URL = "" } = process.env;

/** Valkey or Redis for the instances. `pid` is null if the bench has not started it. */
export type BenchRedis = AsyncDisposable & { readonly url: string; readonly pid: number | null };

/** That of REDIS_URL, else one that is started; null if neither package is installed. */
export async function openRedis(): Promise<BenchRedis | null> {
  if (REDIS_URL !== "") return { url: REDIS_URL, pid: null, async [Symbol.asyncDispose]() {} };
  if (!hasRedis) return null;
  const redis = await startRedis();
  return { url: redis.url, pid: redis.pid, [Symbol.asyncDispose]: () => redis.kill() };
}

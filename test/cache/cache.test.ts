import { expect, test } from "vitest";
import { Cache, CacheMemory } from "../../cache/cache.ts";
import { Metrics } from "../../telemetry/metrics.ts";

const memoryOf = (max: number) => {
  const memory = new CacheMemory();
  memory.limitTo(max);
  return memory;
};
const cacheIn = (memory: CacheMemory, name = "sizes") =>
  new Cache<{ size: number }>({ name, sizeOf: ({ size }) => size }, memory);

test("when the memory is full, the largest cache evicts the entries that were not used for the longest time", () => {
  const memory = memoryOf(100_000);
  const small = cacheIn(memory);
  const large = cacheIn(memory);
  small.set("oldest", { size: 10_000 });
  for (const key of ["a", "b", "c", "d"]) large.set(key, { size: 20_000 });
  large.get("a");
  large.set("e", { size: 20_000 });
  expect(["a", "b", "c", "d", "e"].filter((key) => large.get(key))).toEqual(["a", "c", "d", "e"]);
  expect(small.get("oldest")).toBeDefined();
});

test("a cache grows at the cost of a larger one until both are equal", () => {
  const memory = memoryOf(100_000);
  const [first, second] = [cacheIn(memory), cacheIn(memory)];
  for (let i = 0; i < 50; i++) first.set(`${i}`, { size: 2000 });
  for (let i = 0; i < 50; i++) second.set(`${i}`, { size: 2000 });
  expect(Math.abs(first.bytes - second.bytes)).toBeLessThan(5000);
});

test("an entry above a quarter of the memory is not kept and displaces nothing", () => {
  const cache = cacheIn(memoryOf(100_000));
  cache.set("other", { size: 20_000 });
  cache.set("large", { size: 25_001 });
  expect([cache.get("large"), cache.get("other")]).toEqual([undefined, { size: 20_000 }]);
});

test("a lower limit applies at once", () => {
  const memory = memoryOf(100_000);
  const cache = cacheIn(memory);
  for (const key of ["a", "b", "c"]) cache.set(key, { size: 20_000 });
  memory.limitTo(50_000);
  expect(["a", "b", "c"].filter((key) => cache.get(key))).toEqual(["b", "c"]);
});

test("the metrics have the bytes of all caches by name", async () => {
  const memory = memoryOf(100_000);
  const caches = [cacheIn(memory, "tokens"), cacheIn(memory, "tokens"), cacheIn(memory, "statements")];
  for (const cache of caches) cache.set("a", { size: 850 });
  const metrics = new Metrics();
  memory.registerMetrics(metrics);
  const text = await metrics.text();
  expect(text).toContain('content_service_cache_bytes{cache="tokens"} 2000');
  expect(text).toContain('content_service_cache_bytes{cache="statements"} 1000');
});

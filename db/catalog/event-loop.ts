import { setImmediate } from "node:timers/promises";

/** Milliseconds of work before others get their turn. */
const STRETCH = 5;

/** Maps in short stretches, between which requests are served. */
export async function mapYielding<From, To>(items: Iterable<From>, map: (item: From) => To): Promise<To[]> {
  const results: To[] = [];
  // Whoever calls this has worked already.
  let start = Number.NEGATIVE_INFINITY;
  for (const item of items) {
    if (performance.now() - start > STRETCH) {
      await setImmediate();
      start = performance.now();
    }
    results.push(map(item));
  }
  return results;
}

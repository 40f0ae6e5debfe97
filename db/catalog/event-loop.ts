import { setImmediate } from "node:timers/promises";

/** Milliseconds of work before the event loop runs other work. */
const SLICE = 5;

/** Maps the items in short slices and yields to the event loop between them, so that requests are served meanwhile. */
export async function mapYielding<From, To>(items: Iterable<From>, map: (item: From) => To): Promise<To[]> {
  const results: To[] = [];
  // Yields before the first item as well: the caller may have worked for a while.
  let start = Number.NEGATIVE_INFINITY;
  for (const item of items) {
    if (performance.now() - start > SLICE) {
      await setImmediate();
      start = performance.now();
    }
    results.push(map(item));
  }
  return results;
}

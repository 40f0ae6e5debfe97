import { setImmediate } from "node:timers/promises";

/** Microseconds of work before the event loop runs other work. */
const SLICE = 5000;

/** The CPU time at the last yield. It is shared: several short maps in a row are one slice. */
let sliceStart = Number.NEGATIVE_INFINITY;

/**
 * Maps the items in short slices and yields to the event loop between them, so that requests are served meanwhile. A slice is CPU time:
 * a process that waits for a core would otherwise yield after nearly each item, and serve all its requests before the next one.
 */
export async function mapYielding<From, To>(items: Iterable<From>, map: (item: From) => To): Promise<To[]> {
  const results: To[] = [];
  for (const item of items) {
    if (cpuTime() - sliceStart > SLICE) {
      await setImmediate();
      sliceStart = cpuTime();
    }
    results.push(map(item));
  }
  return results;
}

/** Microseconds of CPU that this thread has used. */
function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

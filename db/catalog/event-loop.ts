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
    const end = endOfSlice();
    if (end) await end;
    results.push(map(item));
  }
  return results;
}

/** Lets the event loop run other work if the slice has taken its time. */
export function endOfSlice(): Promise<void> | undefined {
  return cpuTime() - sliceStart > SLICE ? nextSlice() : undefined;
}

async function nextSlice(): Promise<void> {
  await setImmediate();
  sliceStart = cpuTime();
}

/** Microseconds of CPU that this thread has used. */
export function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** Microseconds of work before the event loop runs other work. */
const SLICE = 5000;

/** When the slice began, in CPU time and by the clock. It is shared: several short maps in a row are one slice. */
let start = { cpu: Number.NEGATIVE_INFINITY, clock: Number.NEGATIVE_INFINITY };
let isOver = false;
/** Those that wait for a slice. Each begins it in a turn of its own. */
const waiting: (() => void)[] = [];

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
  return sliceIsOver() ? nextSlice() : undefined;
}

/** The clock is read first: it costs less, and is never behind. */
function sliceIsOver(): boolean {
  isOver ||= (performance.now() - start.clock) * 1000 > SLICE && cpuTime() - start.cpu > SLICE;
  return isOver;
}

function nextSlice(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(beginSlice);
  });
}

function beginSlice(): void {
  start = { cpu: cpuTime(), clock: performance.now() };
  isOver = false;
  waiting.shift()!();
  if (waiting.length > 0) setImmediate(beginSlice);
}

/** Microseconds of CPU that this thread has used. */
export function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

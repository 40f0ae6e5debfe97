import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Logger } from "pino";
import type { ByteBudget } from "../db/admission/byte-budget.ts";

/** Part of the heap at which the service ends clients. V8 then collects again when half of the rest is used. */
const NEARLY_FULL = 0.75;
/** What V8 adds to the limit for young objects: three times the 16 MiB of V8_OPTIONS. */
const YOUNG_BYTES = 50_331_648;

type HeapGuardOptions = {
  readonly budget: ByteBudget;
  readonly log: Logger;
  onLimit(name: string): void;
};

type GcEntry = PerformanceEntry & { readonly detail: { readonly kind: number } };

/**
 * Ends the clients of the largest network when the heap is nearly full after a garbage collection: otherwise V8 would end the process.
 * If that was not enough, the next largest network follows.
 */
export class HeapGuard {
  readonly #options: HeapGuardOptions;
  readonly #observer = new PerformanceObserver((list) => {
    if (list.getEntries().some(isMajor)) this.#check();
  });
  #waits = false;

  constructor(options: HeapGuardOptions) {
    this.#options = options;
    this.#observer.observe({ entryTypes: ["gc"] });
  }

  close(): void {
    this.#observer.disconnect();
  }

  #check(): void {
    const used = usedBytes();
    const limit = getHeapStatistics().heap_size_limit - YOUNG_BYTES;
    const isNearlyFull = used >= limit * NEARLY_FULL;
    // The first collection after clients were ended may have begun before, and then keeps what they held.
    if (isNearlyFull && !this.#waits) this.#waits = this.#end(used, limit);
    else this.#waits = false;
  }

  /** Whether a network has been ended. */
  #end(heapUsed: number, heapLimit: number): boolean {
    const { budget, log, onLimit } = this.#options;
    const ended = budget.shed();
    if (ended === null) return false;
    onLimit("HEAP");
    const { network, bytes } = ended;
    log.warn(
      { network, bytes, heapUsed, heapLimit },
      "the heap is nearly full: the connections of the largest network were closed",
    );
    return true;
  }
}

const isMajor = (entry: PerformanceEntry) => (entry as GcEntry).detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR;

/** Bytes of all objects that are not young. */
const usedBytes = () =>
  getHeapSpaceStatistics()
    .filter(({ space_name }) => !space_name.startsWith("new_"))
    .reduce((sum, { space_used_size }) => sum + space_used_size, 0);

/** A collection takes 1.4 ms for each MB in use, and nothing else runs meanwhile. */
const QUICKLY_COLLECTED_BYTES = 104_857_600;

/**
 * Collects the garbage of the start, a fifth of the resident memory. Node would collect it only after much more has accumulated. A heap
 * that has grown, with hundreds of tables, has been collected in steps.
 */
export function freeMemoryOfStart(): void {
  if (getHeapStatistics().used_heap_size > QUICKLY_COLLECTED_BYTES) return;
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: { type: "major"; flavor: "last-resort" }) => void;
  // This flavor also makes the space of young objects small again.
  collect({ type: "major", flavor: "last-resort" });
}

/** Milliseconds in which any number may wait. Only then the limit applies. */
const BURST = 1000;

export type QueueLimitOptions = {
  /** This many may always wait; 0 for no limit. */
  readonly least: number;
  /** Milliseconds: as many may wait as are done in this time. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
};

/**
 * Decides how many may wait. If more come than can be done, a queue without a limit would grow, and all would wait longer and
 * longer. Counts what is done each second, because the right length depends on it.
 */
export class QueueLimit {
  readonly #options: QueueLimitOptions;
  readonly #now: () => number;
  /** The present second, and what had been done before it; null while few wait. */
  #second: { readonly start: number; readonly done: number } | null = null;
  #max = Number.POSITIVE_INFINITY;

  constructor(options: QueueLimitOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether this many are too many. `done` is what has been done since the process started. */
  isExceeded(waiting: number, done: number): boolean {
    const { least, time } = this.#options;
    if (this.#second === null && (waiting <= least || least === 0)) return false;
    const now = this.#now();
    const { start, done: before } = this.#second ?? { start: now, done };
    if (this.#second === null) this.#second = { start, done };
    if (now - start >= BURST) {
      this.#max = Math.max(least, ((done - before) * time) / (now - start));
      this.#second = { start: now, done };
    }
    return waiting > this.#max;
  }

  /** To be called when fewer wait than before. A burst may come again when few are left. */
  decreased(waiting: number): void {
    if (waiting >= this.#options.least / 2) return;
    this.#second = null;
    this.#max = Number.POSITIVE_INFINITY;
  }
}

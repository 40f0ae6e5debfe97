import { pause } from "../repeat.ts";
import { pauseAfter, retryLocked } from "./lock-retries.ts";

/** A burst of changes, such as a migration, causes one run, which starts after this pause. */
const QUIET_MILLISECONDS = 100;
/** If the changes do not pause, the run starts after this time. */
const MAX_WAIT_MILLISECONDS = 500;
/** A failed run is repeated after this time, which doubles with each further failure. */
const RETRY_MILLISECONDS = 1000;
const MAX_RETRY_MILLISECONDS = 60_000;

/**
 * Repeats an action after changes: once per burst, one run at a time, and again later when a run has failed. A run that was
 * blocked by a lock is retried sooner, and counts as failed only if the lock persists.
 */
export class Debounced {
  readonly #action: () => Promise<void>;
  readonly #onFailed: (error: Error) => void;
  /** When the first change occurred after the start of the latest run; null if there is none. */
  #changedAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryMilliseconds = RETRY_MILLISECONDS;
  /** Runs that met a lock since the last one that succeeded. */
  #lockedRuns = 0;
  #running: Promise<void> | null = null;
  /** When the latest run began that has ended. */
  #ranAt = 0;
  /** Resolves at the end of the next run. */
  #next = Promise.withResolvers<void>();
  #successes = 0;
  #closed = false;

  constructor(action: () => Promise<void>, onFailed: (error: Error) => void) {
    this.#action = action;
    this.#onFailed = onFailed;
  }

  /** Whether an action is running or scheduled. */
  get isPending(): boolean {
    return this.#running !== null || this.#changedAt !== null;
  }

  /** The first run. Rejects when it fails, and does not repeat it. */
  async first(): Promise<void> {
    const run = retryLocked(this.#action);
    this.#follow(run.catch(() => {}));
    await run;
  }

  /** Schedules a run after a change, once the changes pause. */
  soon(): void {
    if (this.#closed) return;
    this.#changedAt ??= Date.now();
    // The current run may have read the old state: another one follows when it ends.
    if (this.#running) return;
    clearTimeout(this.#timer);
    const remaining = this.#changedAt + MAX_WAIT_MILLISECONDS - Date.now();
    this.#timer = setTimeout(() => this.#follow(this.#run()), Math.max(0, Math.min(QUIET_MILLISECONDS, remaining)));
  }

  /** Runs at once, or waits for the current run. */
  async now(): Promise<void> {
    if (!this.#running && !this.#closed) this.#follow(this.#run());
    await this.#running;
  }

  /** Waits until a run has seen all changes so far, and runs again if the latest one began more than so many milliseconds before this call. */
  async recent(age: number): Promise<void> {
    const oldest = Date.now() - age;
    await this.settled();
    if (this.#ranAt < oldest) await this.now();
  }

  /** Runs at once, or after the current run. Resolves when a run that began after this call has succeeded, or at the end. */
  async afresh(): Promise<void> {
    await this.#running;
    const before = this.#successes;
    while (!this.#closed) {
      await this.now();
      if (this.#successes > before) return;
      await pause(RETRY_MILLISECONDS);
    }
  }

  /** Schedules another run after a failure. */
  later(): void {
    this.#retryAfter(this.#retryMilliseconds);
    this.#retryMilliseconds = Math.min(2 * this.#retryMilliseconds, MAX_RETRY_MILLISECONDS);
  }

  /** Waits until a run has seen all changes so far. */
  async settled(): Promise<void> {
    await this.#running;
    if (this.#changedAt !== null && !this.#closed) await this.#next.promise;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#retry);
    await this.#running;
    this.#next.resolve();
  }

  #follow(run: Promise<void>): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#retry);
    this.#changedAt = null;
    const began = Date.now();
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    this.#running = run.then(() => {
      this.#running = null;
      this.#ranAt = began;
      resolve();
      if (this.#changedAt !== null) this.soon();
    });
  }

  #retryAfter(milliseconds: number): void {
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.soon(), milliseconds);
  }

  async #run(): Promise<void> {
    try {
      await this.#action();
      this.#successes += 1;
      this.#retryMilliseconds = RETRY_MILLISECONDS;
      this.#lockedRuns = 0;
    } catch (error) {
      if (this.#closed) return;
      const pause = pauseAfter(error, this.#lockedRuns);
      if (pause !== undefined) {
        this.#lockedRuns++;
        return this.#retryAfter(pause);
      }
      this.#onFailed(error as Error);
      this.later();
    }
  }
}

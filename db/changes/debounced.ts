/** A burst of changes, such as one migration, is one run; changes without an end are not waited for any longer than this. */
const QUIET_MILLISECONDS = 100;
const PATIENCE_MILLISECONDS = 500;
/** A run that has failed is tried again after this, and then after twice as long each time. */
const RETRY_MILLISECONDS = 1000;
const MAX_RETRY_MILLISECONDS = 60_000;

/** Does a task again after changes: soon after a burst of them, one run at a time, and later where a run has failed. */
export class Debounced {
  readonly #task: () => Promise<void>;
  readonly #onFailed: (error: Error) => void;
  /** When the first change came that no run has seen; null when there is none. */
  #changedAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryMilliseconds = RETRY_MILLISECONDS;
  #running: Promise<void> | null = null;
  /** Resolves at the end of the run that begins next. */
  #next = Promise.withResolvers<void>();
  #closed = false;

  constructor(task: () => Promise<void>, onFailed: (error: Error) => void) {
    this.#task = task;
    this.#onFailed = onFailed;
  }

  /** Whether a run goes on, or is about to because of a change. */
  get isPending(): boolean {
    return this.#running !== null || this.#changedAt !== null;
  }

  /** Does the task for the first time. Other than later, a failure is told to the caller alone. */
  async first(): Promise<void> {
    const run = this.#task();
    this.#follow(run.catch(() => {}));
    await run;
  }

  /** Something has changed: the task is done once nothing more has for a moment. */
  soon(): void {
    if (this.#closed) return;
    this.#changedAt ??= Date.now();
    // The run that goes on may have seen the old state; the change is looked at when it ends.
    if (this.#running) return;
    clearTimeout(this.#timer);
    const patience = this.#changedAt + PATIENCE_MILLISECONDS - Date.now();
    this.#timer = setTimeout(() => this.#follow(this.#run()), Math.max(0, Math.min(QUIET_MILLISECONDS, patience)));
  }

  /** Does the task at once, or waits for the run that goes on. */
  async now(): Promise<void> {
    if (!this.#running && !this.#closed) this.#follow(this.#run());
    await this.#running;
  }

  /** The task has failed: it is done again after a wait. */
  later(): void {
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.soon(), this.#retryMilliseconds);
    this.#retryMilliseconds = Math.min(2 * this.#retryMilliseconds, MAX_RETRY_MILLISECONDS);
  }

  /** Waits until a run has seen every change there has been so far. */
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
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    this.#running = run.then(() => {
      this.#running = null;
      resolve();
      if (this.#changedAt !== null) this.soon();
    });
  }

  async #run(): Promise<void> {
    try {
      await this.#task();
      this.#retryMilliseconds = RETRY_MILLISECONDS;
    } catch (error) {
      if (this.#closed) return;
      this.#onFailed(error as Error);
      this.later();
    }
  }
}

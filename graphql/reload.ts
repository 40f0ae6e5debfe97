import type { Engine } from "./engine.ts";

/** A burst of changes, such as one migration, is one rebuild; changes without an end are not waited for any longer than this. */
const QUIET_MILLISECONDS = 100;
const PATIENCE_MILLISECONDS = 500;
/** A schema that can't be built is tried again after this, and then after twice as long each time. */
const RETRY_MILLISECONDS = 1000;
const MAX_RETRY_MILLISECONDS = 60_000;

export type ReloadLog = { onRebuilt(milliseconds: number): void; onFailed(error: Error): void };

/** Follows the changes of the database's schema, one rebuild at a time. A schema that can't be built keeps the old one. */
export class SchemaReload {
  /** Why the newest schema is not served; null when it is. */
  failure: string | null = null;
  readonly #engine: Engine;
  readonly #log: ReloadLog;
  /** When the first change came that no rebuild has seen; null when there is none. */
  #changedAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryMilliseconds = RETRY_MILLISECONDS;
  #running: Promise<void> | null = null;
  #closed = false;

  constructor(engine: Engine, log: ReloadLog) {
    this.#engine = engine;
    this.#log = log;
  }

  /** Something has changed: rebuild once nothing more has for a moment. */
  soon(): void {
    if (this.#closed) return;
    this.#changedAt ??= Date.now();
    // The rebuild that runs may have read the catalog already; it looks here when it is done.
    if (this.#running) return;
    clearTimeout(this.#timer);
    const patience = this.#changedAt + PATIENCE_MILLISECONDS - Date.now();
    this.#timer = setTimeout(() => this.#start(), Math.max(0, Math.min(QUIET_MILLISECONDS, patience)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#retry);
    await this.#running;
  }

  #start(): void {
    this.#changedAt = null;
    this.#running = this.#rebuild().then(() => {
      this.#running = null;
      if (this.#changedAt !== null) this.soon();
    });
  }

  async #rebuild(): Promise<void> {
    clearTimeout(this.#retry);
    const start = performance.now();
    try {
      await this.#engine.rebuild();
      this.failure = null;
      this.#retryMilliseconds = RETRY_MILLISECONDS;
      this.#log.onRebuilt(Math.round(performance.now() - start));
    } catch (error) {
      if (this.#closed) return;
      this.failure = (error as Error).message;
      this.#log.onFailed(error as Error);
      this.#retry = setTimeout(() => this.soon(), this.#retryMilliseconds);
      this.#retryMilliseconds = Math.min(2 * this.#retryMilliseconds, MAX_RETRY_MILLISECONDS);
    }
  }
}

import type { Engine } from "./engine.ts";

/** A burst of changes, such as one migration, is one rebuild; changes without an end are not waited for any longer than this. */
const QUIET_MILLISECONDS = 100;
const PATIENCE_MILLISECONDS = 500;
/** A schema that can't be built is tried again after this, and then after twice as long each time. */
const RETRY_MILLISECONDS = 1000;
const MAX_RETRY_MILLISECONDS = 60_000;

export type ReloadLog = {
  onRebuilt(milliseconds: number): void;
  /** `isServing` says whether an older schema is served meanwhile. */
  onFailed(error: Error, isServing: boolean): void;
  /** The schema that is served from now on lacks something. */
  onOmission(omission: string): void;
};

/** Builds the first schema and follows its changes, one rebuild at a time. A schema that can't be built keeps the old one. */
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

  /** What an operator should know about the schema. */
  get health(): { readonly schema: string; readonly omissions?: readonly string[] } {
    const { omissions } = this.#engine;
    return { schema: this.failure ?? "current", ...(omissions.length > 0 && { omissions }) };
  }

  /** Builds the first schema. One that can't be built is tried again; rejects when the database does not answer. */
  async start(): Promise<void> {
    try {
      await this.#build();
    } catch (error) {
      // Then it is not the schema's fault.
      await this.#engine.pingDatabase();
      this.#fail(error as Error);
    }
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
      await this.#build();
      this.#log.onRebuilt(Math.round(performance.now() - start));
    } catch (error) {
      if (!this.#closed) this.#fail(error as Error);
    }
  }

  async #build(): Promise<void> {
    const known = this.#engine.omissions;
    await this.#engine.rebuild();
    this.failure = null;
    this.#retryMilliseconds = RETRY_MILLISECONDS;
    for (const omission of this.#engine.omissions) if (!known.includes(omission)) this.#log.onOmission(omission);
  }

  #fail(error: Error): void {
    this.failure = error.message;
    this.#log.onFailed(error, this.#engine.isServing);
    this.#retry = setTimeout(() => this.soon(), this.#retryMilliseconds);
    this.#retryMilliseconds = Math.min(2 * this.#retryMilliseconds, MAX_RETRY_MILLISECONDS);
  }
}

import type { Engine } from "./engine.ts";

/** A burst of changes, such as one migration, is one rebuild. */
const QUIET_MILLISECONDS = 100;

export type ReloadLog = { onRebuilt(milliseconds: number): void; onFailed(error: Error): void };

/** Follows the changes of the database's schema. A schema that can't be built keeps the old one. */
export class SchemaReload {
  /** Why the newest schema is not served; null when it is. */
  failure: string | null = null;
  readonly #engine: Engine;
  readonly #log: ReloadLog;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(engine: Engine, log: ReloadLog) {
    this.#engine = engine;
    this.#log = log;
  }

  /** Something has changed: rebuild once nothing more has for a moment. */
  soon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#running = this.#running.then(() => this.#rebuild());
    }, QUIET_MILLISECONDS);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #rebuild(): Promise<void> {
    const start = performance.now();
    try {
      await this.#engine.rebuild();
      this.failure = null;
      this.#log.onRebuilt(Math.round(performance.now() - start));
    } catch (error) {
      this.failure = (error as Error).message;
      this.#log.onFailed(error as Error);
    }
  }
}

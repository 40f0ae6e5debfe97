import { Debounced } from "../db/changes/debounced.ts";
import type { Engine } from "./engine.ts";

export type ReloadLog = {
  onRebuilt(milliseconds: number): void;
  /** `isServing` says whether an older schema is served meanwhile. */
  onFailed(error: Error, isServing: boolean): void;
  /** The schema that is served from now on lacks something. */
  onOmission(omission: string): void;
};

/** Builds the first schema and follows its changes. A schema that can't be built keeps the old one. */
export class SchemaReload {
  /** Why the newest schema is not served; null when it is. */
  failure: string | null = null;
  readonly #engine: Engine;
  readonly #log: ReloadLog;
  readonly #rebuilds = new Debounced(
    () => this.#rebuild(),
    (error) => this.#fail(error),
  );

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
      this.#rebuilds.later();
    }
  }

  /** Something has changed: rebuild once nothing more has for a moment. */
  soon(): void {
    this.#rebuilds.soon();
  }

  close(): Promise<void> {
    return this.#rebuilds.close();
  }

  async #rebuild(): Promise<void> {
    const start = performance.now();
    await this.#build();
    this.#log.onRebuilt(Math.round(performance.now() - start));
  }

  async #build(): Promise<void> {
    const known = this.#engine.omissions;
    await this.#engine.rebuild();
    this.failure = null;
    for (const omission of this.#engine.omissions) if (!known.includes(omission)) this.#log.onOmission(omission);
  }

  #fail(error: Error): void {
    this.failure = error.message;
    this.#log.onFailed(error, this.#engine.isServing);
  }
}

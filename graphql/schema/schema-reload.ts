import { setTimeout as sleep } from "node:timers/promises";
import { type Finding, lineOf, sentenceOf } from "../../db/findings/finding.ts";
import { Debounced } from "../../db/follow/debounced.ts";
import { within } from "../../db/repeat.ts";
import type { Engine } from "../execute/engine.ts";
import { notBuilt } from "./schema.ts";

/**
 * How long a build waits, as a multiple of the time that the catalog took to read. /rest/v1 of all processes waits for the catalog, and a
 * build would take a core from them for longer. Where many processes share few cores, both times grow.
 */
const PAUSE_FACTOR = 2;
/** Milliseconds that a build waits at most. */
const MAX_PAUSE = 1000;

/** Milliseconds that a request waits for the schema that it may be about. */
const MAX_WAIT = 10_000;

export type ReloadLog = {
  onRebuilt(milliseconds: number): void;
  /** After each attempt, whether it succeeded or not. */
  onBuilt(): void;
  /** Once for each reason. `isServing` is whether the previous schema is still served. */
  onFailed(error: Error, isServing: boolean): void;
  /** Called once for each part of the database that the new schema omits. */
  onOmission(omission: Finding): void;
};

/** `schema` is "current", or the reason why the newest schema is not served. */
export type GraphQLHealth = { readonly schema: string; readonly omissions?: readonly string[] };

/** Builds the first schema and rebuilds it after changes of the database. If a rebuild fails, the previous schema stays. */
export class SchemaReload {
  #failure: Error | null = null;
  readonly #engine: Engine;
  readonly #log: ReloadLog;
  readonly #closing = new AbortController();
  readonly #rebuilds = new Debounced(
    () => this.#rebuild(),
    (error) => this.#fail(error),
  );

  constructor(engine: Engine, log: ReloadLog) {
    this.#engine = engine;
    this.#log = log;
  }

  /** Why the newest schema is not served; null if it is. */
  get failure(): string | null {
    return this.#failure?.message ?? null;
  }

  /** The state of the schema for `/health`. */
  get health(): GraphQLHealth {
    const { omissions } = this.#engine;
    return {
      schema: this.failure ?? "current",
      ...(omissions.length > 0 && { omissions: omissions.map(sentenceOf) }),
    };
  }

  /** What the schema leaves out, and why the newest one is not served. */
  get findings(): readonly Finding[] {
    return [...(this.#failure ? [notBuilt(this.#failure)] : []), ...this.#engine.omissions];
  }

  /** Builds the first schema; a failed build is retried later. Rejects if the database does not respond. */
  async start(): Promise<void> {
    try {
      await this.#engine.readDatabase();
      await this.#build();
    } catch (error) {
      // If the database responds, the schema itself is at fault.
      await this.#engine.pingDatabase();
      this.#fail(error as Error);
      this.#rebuilds.later();
    }
  }

  /** Rebuilds the schema after a short time without further changes. */
  soon(): void {
    this.#rebuilds.soon();
  }

  /** Waits for a pending rebuild, but at most `MAX_WAIT` milliseconds. Resolves to whether there was one. */
  async untilBuilt(): Promise<boolean> {
    if (!this.#rebuilds.isPending) return false;
    await within(MAX_WAIT, this.#rebuilds.settled());
    return true;
  }

  close(): Promise<void> {
    this.#closing.abort();
    return this.#rebuilds.close();
  }

  async #rebuild(): Promise<void> {
    const start = performance.now();
    await this.#engine.readDatabase();
    const pause = Math.min(PAUSE_FACTOR * (performance.now() - start), MAX_PAUSE);
    await sleep(pause, null, { signal: this.#closing.signal });
    await this.#build();
    this.#log.onRebuilt(Math.round(performance.now() - start));
  }

  async #build(): Promise<void> {
    const known = this.#engine.omissions.map(lineOf);
    await this.#engine.rebuild();
    this.#failure = null;
    for (const omission of this.#engine.omissions)
      if (!known.includes(lineOf(omission))) this.#log.onOmission(omission);
    this.#log.onBuilt();
  }

  #fail(error: Error): void {
    const isKnown = error.message === this.failure;
    this.#failure = error;
    this.#log.onBuilt();
    if (!isKnown) this.#log.onFailed(error, this.#engine.isServing);
  }
}

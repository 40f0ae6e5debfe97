import { hash } from "node:crypto";
import type { Pool } from "pg";
import type { Metrics } from "../../telemetry/metrics.ts";
import { Debounced } from "../follow/debounced.ts";
import { buildCatalog } from "./build.ts";
import type { Catalog } from "./catalog.ts";
import { type CatalogScope, type CatalogText, parseCatalog, readCatalog } from "./read.ts";

/** Milliseconds after a read during which a request with an unknown name does not cause another one. */
const FRESH = 2000;

type LiveCatalogOptions = CatalogScope & {
  readonly pool: Pool;
  readonly log: {
    /** A changed catalog is in use. */
    onRead(milliseconds: number): void;
    /** The catalog could not be read: the previous one remains in use. */
    onFailed(error: Error): void;
  };
};

/**
 * The catalog that follows its database. Without a change it remains the same object, so that cached plans stay valid.
 */
export class LiveCatalog {
  #options: LiveCatalogOptions;
  readonly #reads = new Debounced(
    () => this.#read(),
    (error) => {
      this.loads.failed++;
      this.#options.log.onFailed(error);
    },
  );
  readonly #listeners: ((catalog: Catalog) => void)[] = [];
  #current: Catalog | null = null;
  /** Of the text of the current catalog, which takes a megabyte. */
  #digest: string | null = null;
  /** Reads so far, and the seconds that the last one took. */
  readonly loads = { succeeded: 0, failed: 0, seconds: 0 };

  constructor(options: LiveCatalogOptions) {
    this.#options = options;
  }

  /** Reads the first catalog; rejects when that fails. */
  start(): Promise<void> {
    return this.#reads.first();
  }

  get current(): Catalog {
    if (!this.#current) throw new Error("the catalog has not been read yet");
    return this.#current;
  }

  /** Schedules a read after a change of the database, once the changes pause. */
  soon(): void {
    this.#reads.soon();
  }

  /**
   * For a request that failed as if its catalog were outdated: waits for a pending read, or reads again unless the
   * catalog is fresh. Resolves to whether `current` has changed, so that the request is worth another attempt.
   */
  async refreshIfStale(): Promise<boolean> {
    const before = this.current;
    await this.#reads.recent(FRESH);
    return this.current !== before;
  }

  /** Serves these schemas, once they have been read, as a new catalog. */
  rescope(scope: CatalogScope): void {
    this.#options = { ...this.#options, ...scope };
    this.#digest = null;
    this.soon();
  }

  registerMetrics(metrics: Metrics): void {
    const { loads } = this;
    metrics.counter({
      name: "schema_cache_loads_total",
      about: "Reads of the schema.",
      labels: ["status"],
      read: () => [
        { labels: { status: "SUCCESS" }, value: loads.succeeded },
        { labels: { status: "FAIL" }, value: loads.failed },
      ],
    });
    metrics.gauge({
      name: "schema_cache_query_time_seconds",
      about: "Time that the last read of the schema took in the database.",
      aggregation: "max",
      read: () => loads.seconds,
    });
  }

  /** Reads again. Resolves when `current` knows everything that was committed before this call. */
  refreshed(): Promise<void> {
    return this.#reads.afresh();
  }

  onChange(listener: (catalog: Catalog) => void): void {
    this.#listeners.push(listener);
  }

  close(): Promise<void> {
    return this.#reads.close();
  }

  async #read(): Promise<void> {
    const start = performance.now();
    const text = await readCatalog(this.#options.pool, this.#options);
    this.loads.seconds = (performance.now() - start) / 1000;
    this.loads.succeeded++;
    // The lock on the tables of a policy may end without a change of the database.
    if (text.policies.includes('"isLocked":true')) this.#reads.later();
    const digest = digestOf(text);
    if (this.#digest === digest) return;
    const catalog = await buildCatalog(await parseCatalog(text), (this.#current?.version ?? 0) + 1);
    this.#digest = digest;
    this.#current = catalog;
    this.#options.log.onRead(Math.round(performance.now() - start));
    for (const listener of this.#listeners) listener(catalog);
  }
}

/** The texts are JSON, in which NUL does not occur. */
const digestOf = (text: CatalogText): string => hash("sha256", Object.values(text).join("\0"));

import type { Pool } from "pg";
import { Debounced } from "../changes/debounced.ts";
import { buildCatalog } from "./build.ts";
import type { Catalog } from "./catalog.ts";
import { type CatalogScope, type CatalogText, parseCatalog, readCatalog } from "./read.ts";

/** Milliseconds for which a catalog is not read again just because a request found something missing. */
const FRESH = 2000;

export type LiveCatalogLog = {
  /** A catalog with something new in it has come into use. */
  onRead(milliseconds: number): void;
  /** The catalog could not be read: the old one stays. */
  onFailed(error: Error): void;
};

export type LiveCatalogOptions = CatalogScope & { readonly pool: Pool; readonly log: LiveCatalogLog };

/** The catalog that follows its database. What is unchanged stays the same object, so that plans made from it stay good. */
export class LiveCatalog {
  readonly #options: LiveCatalogOptions;
  readonly #readings = new Debounced(
    () => this.#read(),
    (error) => this.#options.log.onFailed(error),
  );
  readonly #listeners: ((catalog: Catalog) => void)[] = [];
  #current: Catalog | null = null;
  #text: CatalogText | null = null;
  /** When the last reading began. */
  #readAt = 0;

  constructor(options: LiveCatalogOptions) {
    this.#options = options;
  }

  /** Reads the first catalog; rejects when that fails. */
  start(): Promise<void> {
    return this.#readings.first();
  }

  get current(): Catalog {
    if (!this.#current) throw new Error("the catalog has not been read yet");
    return this.#current;
  }

  /** The database has changed: it is read again once nothing more has for a moment. */
  soon(): void {
    this.#readings.soon();
  }

  /**
   * For a request that failed as if its catalog were old: waits for a reading that is under way, or reads again unless that
   * has just been done. Resolves to whether `current` is now another one, and the request worth another try.
   */
  async caughtUp(): Promise<boolean> {
    const before = this.current;
    if (this.#readings.isPending) await this.#readings.settled();
    else if (Date.now() - this.#readAt >= FRESH) await this.#readings.now();
    return this.current !== before;
  }

  onChange(listener: (catalog: Catalog) => void): void {
    this.#listeners.push(listener);
  }

  close(): Promise<void> {
    return this.#readings.close();
  }

  async #read(): Promise<void> {
    const start = performance.now();
    this.#readAt = Date.now();
    const text = await readCatalog(this.#options.pool, this.#options);
    if (this.#text && isSame(text, this.#text)) return;
    const catalog = await buildCatalog(await parseCatalog(text), (this.#current?.version ?? 0) + 1);
    this.#text = text;
    this.#current = catalog;
    this.#options.log.onRead(Math.round(performance.now() - start));
    for (const listener of this.#listeners) listener(catalog);
  }
}

const isSame = (a: CatalogText, b: CatalogText): boolean =>
  Object.keys(a).every((part) => a[part as keyof CatalogText] === b[part as keyof CatalogText]);

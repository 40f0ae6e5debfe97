import { Debounced } from "../follow/debounced.ts";
import type { Publication } from "./publication.ts";
import type { ChangeSource } from "./source.ts";

/** Where changes are read, and the tables whose changes are read; null for a publication that the service cannot see. */
export type FoundSource = { readonly source: ChangeSource; readonly publication: Publication | null };

/** Why changes cannot be read. The message names everything that is missing, with the statements for a DBA. */
export class ChangesMissing extends Error {}

export type SourceSearchOptions = {
  /** Rejects with ChangesMissing. */
  find(): Promise<FoundSource>;
  /** Called with each new reason why changes still cannot be read. */
  onMissing(reason: string): void;
  onError(error: Error): void;
};

/** A client that subscribes looks again only if the last search began more than this many milliseconds ago. */
const FRESH = 1000;

/**
 * Looks again for what was missing at the start, until changes can be read: when a client subscribes, after DDL, and from time to
 * time, because nothing announces the attributes of a login.
 */
export class SourceSearch {
  readonly #runs: Debounced;
  #ranAt = 0;
  #isFound = false;
  #reason: string | null = null;

  constructor({ find, onMissing, onError }: SourceSearchOptions, onFound: (found: FoundSource) => void) {
    const search = async () => {
      this.#ranAt = Date.now();
      if (this.#isFound) return;
      const found = await find();
      this.#isFound = true;
      onFound(found);
    };
    this.#runs = new Debounced(search, (error) => {
      if (!(error instanceof ChangesMissing)) return onError(error);
      if (error.message !== this.#reason) onMissing(error.message);
      this.#reason = error.message;
    });
    this.#runs.later();
  }

  /** Why the latest search has found nothing; null before the first one has ended. */
  get reason(): string | null {
    return this.#reason;
  }

  /** To be called after DDL. */
  soon(): void {
    if (!this.#isFound) this.#runs.soon();
  }

  async now(): Promise<void> {
    if (!this.#isFound && Date.now() - this.#ranAt > FRESH) await this.#runs.now();
  }

  close(): Promise<void> {
    return this.#runs.close();
  }
}

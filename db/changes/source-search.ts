import { Debounced } from "../follow/debounced.ts";
import type { Publication } from "./publication.ts";
import type { ChangeSource } from "./source.ts";

/** Where changes are read, and the tables whose changes are read; null for a publication that the service cannot see. */
export type FoundSource = { readonly source: ChangeSource; readonly publication: Publication | null };

/** Why changes cannot be read. The message names everything that is missing, with the statements for a DBA. */
export class ChangesMissing extends Error {}

/** The same for clients, who do not get the names of logins and tables. */
export const NOT_READ =
  "this service reads no changes of tables, because its database does not allow logical decoding or has no publication " +
  "(its log and /health name the SQL that helps)";

export type SourceSearchOptions = {
  /** Why changes cannot be read at the start. */
  readonly reason: string;
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
  #isFound = false;
  #reason: string;

  constructor({ reason, find, onMissing, onError }: SourceSearchOptions, onFound: (found: FoundSource) => void) {
    this.#reason = reason;
    const search = async () => {
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

  /** Why the latest search has found nothing. */
  get reason(): string {
    return this.#reason;
  }

  /** To be called after DDL. */
  soon(): void {
    if (!this.#isFound) this.#runs.soon();
  }

  async now(): Promise<void> {
    if (!this.#isFound) await this.#runs.recent(FRESH);
  }

  close(): Promise<void> {
    return this.#runs.close();
  }
}

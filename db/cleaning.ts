import type { DatabaseError } from "pg-protocol";
import { Batch, type NamedStatement } from "./batch.ts";

/**
 * Ends what SQL can start for a whole session. A rollback ends neither locks nor prepared statements. The state of
 * sequences is discarded before code, which alone can read it.
 */
const STATEMENTS = [
  // First: these settings affect the other statements.
  "reset all",
  // Resets the role too.
  "reset session authorization",
  "close all",
  "unlisten *",
  "discard temp",
  `select pg_catalog.pg_advisory_unlock_all(),
    pg_catalog.setseed(pg_catalog.hashtext(pg_catalog.gen_random_uuid()::text) / 2147483648::float8)`,
];

/**
 * The statements that SQL has prepared: one of them may have the name of a statement of the service. This query is sent unnamed,
 * because SQL could have replaced a named one. Of the statements above it could replace only the `select`.
 */
const PREPARED_BY_SQL = "select from pg_catalog.pg_prepared_statement() where from_sql";

const named = (text: string, i: number): NamedStatement => ({ text, values: [], name: `cleaning_${i}` });
const unnamed = (text: string): NamedStatement => ({ text, values: [], name: "" });

/** How connections are cleaned after code. */
export class Cleaning {
  readonly #maxPrepared: number;
  readonly #usual: readonly NamedStatement[];

  /** `maxPrepared`: prepared statements that the service keeps per connection. */
  constructor(maxPrepared: number) {
    this.#maxPrepared = maxPrepared;
    this.#usual = STATEMENTS.map(maxPrepared === 0 ? unnamed : named);
  }

  /**
   * A batch that cleans the connection; `done` gets an error if the connection cannot be used again. `isFramed`: an error
   * may have left a transaction open. `mayPrepare`: the code may have prepared statements.
   */
  batch(options: CleaningOptions, done: (error: Error | undefined) => void): Batch {
    const statements = [
      ...(options.isFramed ? [unnamed("rollback")] : []),
      ...this.#usual,
      ...(options.mayPrepare ? [unnamed(this.#maxPrepared === 0 ? "deallocate all" : PREPARED_BY_SQL)] : []),
    ];
    const batchOptions = {
      maxPrepared: this.#maxPrepared,
      unlimitedResult: false,
      recipient: null,
      onCompleted: undefined,
    };
    const batch: Batch = new Batch(statements, batchOptions, (error: DatabaseError | Error | null) => {
      const isReplaced = options.mayPrepare && batch.results.at(-1)!.rows.length > 0;
      done(error ?? (isReplaced ? new Error("a function has prepared statements") : undefined));
    });
    return batch;
  }
}

export type CleaningOptions = { readonly isFramed: boolean; readonly mayPrepare: boolean };

import pg from "pg";
import { type Change, type ChangeSink, type ChangeSource, FeedInterrupted } from "./feed.ts";

/** The pause between reads while there are subscribers. */
const POLL_MILLISECONDS = 100;
const MAX_ROWS = 1000;
/** The pause between deletions of changes that have been read. */
const DELETE_MILLISECONDS = 60_000;

export type OutboxSourceOptions = {
  /** A login that may read the outbox. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * Reads committed changes from the table changes.outbox, which triggers fill: for databases without logical decoding. A row
 * is read when every transaction that could precede it has ended, so none is skipped.
 */
export class OutboxSource implements ChangeSource {
  readonly #pool: pg.Pool;
  readonly #onError: (error: Error) => void;
  #sink: ChangeSink | null = null;
  #poll: NodeJS.Timeout | undefined;
  #deletion: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  /** The snapshot of the first subscription: what it sees precedes the subscription. */
  #start = "";
  /** The last change read: its transaction and number. */
  #last: readonly [transaction: string, id: string] = ["0", "0"];
  /** Transactions below this one had ended at the last deletion. */
  #horizon = "0";

  constructor({ connectionString, onError }: OutboxSourceOptions) {
    this.#onError = onError;
    this.#pool = new pg.Pool({
      connectionString,
      max: 1,
      application_name: "content-service changes",
      options: "-c role=changes_owner",
    });
    this.#pool.on("error", onError);
    this.#pool.on("connect", (client) => client.on("error", onError));
  }

  start(): void {
    this.#deletion = setInterval(() => void this.#deleteRead().catch(this.#onError), DELETE_MILLISECONDS);
    this.#deletion.unref();
  }

  async open(sink: ChangeSink): Promise<void> {
    try {
      const { rows } = await this.#pool.query<{ start: string }>("select pg_current_snapshot()::text as start");
      this.#start = rows[0]!.start;
    } catch (error) {
      this.#onError(error as Error);
      throw new FeedInterrupted("changes are not available at the moment");
    }
    this.#last = [this.#start.split(":")[0]!, "0"];
    this.#sink = sink;
    this.#schedule();
  }

  rest(): void {
    this.#sink = null;
    clearTimeout(this.#poll);
  }

  async close(): Promise<void> {
    this.rest();
    clearInterval(this.#deletion);
    await this.#reading;
    await this.#pool.end();
  }

  #schedule(): void {
    if (!this.#sink) return;
    this.#poll = setTimeout(() => {
      this.#reading = this.#read().then(
        () => this.#schedule(),
        (error: Error) => this.#fail(error),
      );
    }, POLL_MILLISECONDS);
  }

  async #read(): Promise<void> {
    for (;;) {
      const { rows } = await this.#pool.query<OutboxRow>(READ, [...this.#last, this.#start, MAX_ROWS]);
      for (const row of rows) this.#sink?.receive(changeOf(row), row.changed.length);
      const last = rows.at(-1);
      if (last) this.#last = [last.transaction, last.id];
      if (rows.length < MAX_ROWS) return;
    }
  }

  #fail(error: Error): void {
    this.#onError(error);
    const sink = this.#sink;
    this.rest();
    sink?.interrupt();
  }

  /** Deletes the changes that every service has had a minute to read. */
  async #deleteRead(): Promise<void> {
    const { rows } = await this.#pool.query<{ horizon: string }>(DELETE, [this.#horizon]);
    this.#horizon = rows[0]!.horizon;
  }
}

type OutboxRow = {
  readonly transaction: string;
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  /** A JSON object whose values are texts or null. */
  readonly changed: string;
};

const READ = `
select
  transaction::text,
  id::text,
  table_schema as schema,
  table_name as table,
  operation,
  (select json_object_agg(key, value) from jsonb_each_text(changed))::text as changed
from changes.outbox
where (transaction, id) > ($1::xid8, $2::bigint)
  and transaction < pg_snapshot_xmin(pg_current_snapshot())
  and not pg_visible_in_snapshot(transaction, $3::pg_snapshot)
order by outbox.transaction, outbox.id
limit $4`;

const DELETE = `
with deleted as (delete from changes.outbox where transaction < $1::xid8)
select pg_snapshot_xmin(pg_current_snapshot())::text as horizon`;

const changeOf = ({ schema, table, operation, changed }: OutboxRow): Change => ({
  schema,
  table,
  operation,
  row: JSON.parse(changed),
});

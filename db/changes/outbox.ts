import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Change } from "./change.ts";
import { type OutboxRow, OutboxTables, type RelationRow } from "./outbox-tables.ts";
import { parseSnapshot, streamName } from "./position.ts";
import type { ChangeSink, ChangeSource, Mark, SourceHealth } from "./source.ts";
import { ChangedTypes } from "./types.ts";

/** The pause between reads while there are readers. */
const POLL_MILLISECONDS = 100;
/** The pause after a failed read. */
const RETRY_MILLISECONDS = 1000;
const MAX_ROWS = 1000;
/** The pause between deletions of changes that have been read. */
const DELETE_MILLISECONDS = 60_000;

export type OutboxSourceOptions = {
  /** Connections with a role that may read the outbox. */
  readonly pool: pg.Pool;
  readonly onError: (error: Error) => void;
};

/**
 * Reads committed changes from the table changes.outbox, which triggers fill: for databases without logical decoding. A row
 * is read when every transaction that could precede it has ended, so none is skipped. In a position, the number of the
 * transaction stands for the place in the log, and the number of the row for the index.
 */
export class OutboxSource implements ChangeSource {
  readonly #pool: pg.Pool;
  readonly #onError: (error: Error) => void;
  readonly #tables: OutboxTables;
  #deletion: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  /** Aborted when changes are no longer wanted. */
  #resting = new AbortController();
  /** The transaction and the number of the last row that was read. */
  #last: readonly [transaction: string, id: string] = ["0", "0"];
  /** Why the last read has failed; null if it has not. */
  #failure: string | null = null;
  /** The age in seconds of the last change when it was read. */
  #lag = 0;
  /** "" until it has been read. */
  readonly hasLsns = false;
  #stream = "";
  /** Transactions below this one had ended at the last deletion. */
  #horizon = "0";

  constructor({ pool, onError }: OutboxSourceOptions) {
    this.#onError = onError;
    this.#pool = pool;
    this.#resting.abort();
    this.#tables = new OutboxTables(new ChangedTypes(async (text) => (await this.#pool.query(text)).rows));
  }

  get health(): SourceHealth {
    const state = this.#failure !== null ? "disconnected" : this.#resting.signal.aborted ? "resting" : "streaming";
    const reason = this.#failure !== null && { reason: this.#failure };
    return { mode: "outbox", state, ...reason, lag: { bytes: 0, seconds: this.#lag } };
  }

  /** A position is the number of a transaction, so the snapshot of a query has it. */
  get mark(): Mark | null {
    return this.#stream === "" ? null : { stream: this.#stream, position: null, hasLsns: false };
  }

  start(): void {
    this.#readStream().catch(this.#onError);
    this.#deletion = setInterval(() => void this.#deleteRead().catch(this.#onError), DELETE_MILLISECONDS);
    this.#deletion.unref();
  }

  open(sink: ChangeSink): void {
    this.#resting = new AbortController();
    this.#reading = this.#run(sink, this.#resting.signal);
  }

  rest(): void {
    this.#resting.abort();
  }

  async close(): Promise<void> {
    this.rest();
    clearInterval(this.#deletion);
    await this.#reading;
  }

  async #run(sink: ChangeSink, resting: AbortSignal): Promise<void> {
    let hasBegun = false;
    while (!resting.aborted) {
      let pause = POLL_MILLISECONDS;
      try {
        if (!hasBegun) await this.#begin(sink);
        hasBegun = true;
        await this.#read(sink, resting);
        this.#failure = null;
      } catch (error) {
        this.#failure = (error as Error).message;
        if (!resting.aborted) this.#onError(error as Error);
        sink.lose();
        hasBegun = false;
        pause = RETRY_MILLISECONDS;
      }
      await sleep(pause, null, { ref: false, signal: resting }).catch(() => {});
    }
  }

  async #begin(sink: ChangeSink): Promise<void> {
    const { rows } = await this.#pool.query<BeginRow>(BEGIN);
    const { horizon, first, snapshot, relations } = rows[0]!;
    this.#stream ||= await this.#readStream();
    await this.#tables.describe(relations);
    this.#last = [horizon, "0"];
    sink.begin({
      start: { lsn: BigInt(horizon), index: 0 },
      live: { lsn: BigInt(first), index: 0, snapshot: parseSnapshot(snapshot) },
      stream: this.#stream,
    });
  }

  async #readStream(): Promise<string> {
    const { rows } = await this.#pool.query<{ system: string; database: string }>(STREAM);
    const { system, database } = rows[0]!;
    this.#stream = streamName("outbox", system, database);
    return this.#stream;
  }

  async #read(sink: ChangeSink, resting: AbortSignal): Promise<void> {
    while (!resting.aborted) {
      const { rows } = await this.#pool.query<{ end: string; rows: OutboxRow[]; relations: RelationRow[] }>(READ, [
        ...this.#last,
        MAX_ROWS,
      ]);
      const { end, rows: recorded, relations } = rows[0]!;
      if (await this.#tables.describe(relations)) await sink.changeSchema();
      for (const row of recorded) {
        const change = this.#changeOf(row);
        if (change) sink.receive(change, (row.old_row?.length ?? 0) + (row.new_row?.length ?? 0));
        await sink.waitForCapacity();
      }
      const last = recorded.at(-1);
      if (last) this.#last = [last.transaction, last.id];
      this.#lag = recorded.length === MAX_ROWS ? Math.max(0, Date.now() - Date.parse(last!.recorded_at)) / 1000 : 0;
      if (recorded.length === MAX_ROWS) continue;
      sink.reach({ lsn: BigInt(end), index: 0 });
      return;
    }
  }

  /** Null if the table has been dropped. */
  #changeOf(row: OutboxRow): Change | null {
    const transaction = BigInt(row.transaction);
    const description = this.#tables.of(row.relation, transaction);
    if (!description) return null;
    const { table, imageOf } = description;
    return {
      position: { lsn: transaction, index: Number(row.id) },
      committedAt: Date.parse(row.recorded_at),
      xid: Number(BigInt.asUintN(32, transaction)),
      table,
      operation: row.operation,
      new: imageOf(row.new_row),
      old: imageOf(row.old_row),
    };
  }

  /** Deletes the changes that every service has had a minute to read. */
  async #deleteRead(): Promise<void> {
    const { rows } = await this.#pool.query<{ horizon: string }>(DELETE, [this.#horizon]);
    this.#horizon = rows[0]!.horizon;
  }
}

/** An array of RelationRow: the relations `c` that satisfy the condition. */
const describing = (condition: string) => `
    select coalesce(json_agg(json_build_object('oid', c.oid::text,
      'table', json_build_object('oid', root.oid::bigint, 'schema', n.nspname, 'name', root.relname, 'columns', (
        select coalesce(json_agg(json_build_object('name', a.attname, 'number', a.attnum, 'type', a.atttypid::bigint) order by a.attnum), '[]')
        from pg_attribute as a
        where a.attrelid = root.oid and a.attnum > 0 and not a.attisdropped
      )),
      'order', (
        select coalesce(json_agg(a.attname order by a.attnum), '[]')
        from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      ),
      'changed_by', (select max(a.xmin::text::bigint) from pg_attribute as a where a.attrelid = c.oid))), '[]')
    from pg_class as c
    join pg_class as root on root.oid = coalesce(pg_partition_root(c.oid), c.oid)
    join pg_namespace as n on n.oid = root.relnamespace
    where ${condition}`;

type BeginRow = Readonly<Record<"horizon" | "first" | "snapshot", string>> & {
  readonly relations: readonly RelationRow[];
};

const STREAM = `
select
  (select system_identifier::text from pg_control_system()) as system,
  (select oid::text from pg_database where datname = current_database()) as database`;

const BEGIN = `
select
  h.transaction::text as horizon,
  pg_snapshot_xmin(pg_current_snapshot())::text as first,
  pg_current_snapshot()::text as snapshot,
  (${describing("exists (select from pg_trigger as t where t.tgrelid = c.oid and t.tgname = '_500_outbox_insert')")}) as relations
from changes.outbox_horizon as h`;

/** One snapshot of the changes and of the tables that they belong to. */
const READ = `
with read as materialized (
  select o.*
  from changes.outbox as o
  where (o.transaction, o.id) > ($1::xid8, $2::bigint)
    and o.transaction < pg_snapshot_xmin(pg_current_snapshot())
  order by o.transaction, o.id
  limit $3
)
select
  pg_snapshot_xmin(pg_current_snapshot())::text as end,
  (
    select coalesce(json_agg(json_build_object('id', id::text, 'transaction', transaction::text,
      'recorded_at', recorded_at, 'relation', relation::text, 'operation', operation, 'old_row', old_row,
      'new_row', new_row) order by transaction, id), '[]')
    from read
  ) as rows,
  (${describing("c.oid in (select relation from read)")}) as relations`;

const DELETE = `
with deleted as (delete from changes.outbox where transaction < $1::xid8),
  moved as (update changes.outbox_horizon set transaction = $1::xid8 where transaction < $1::xid8)
select pg_snapshot_xmin(pg_current_snapshot())::text as horizon`;

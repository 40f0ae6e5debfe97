import type pg from "pg";
import type { Change } from "./change.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { PgOutputDecoder, type RowMessage } from "./pgoutput.ts";
import { type Snapshot, sees } from "./position.ts";
import { QuerySnapshot } from "./query-snapshot.ts";
import { DATA_START, type StreamHandler } from "./replication.ts";
import type { Beginning, ChangeSink } from "./source.ts";
import { ChangedTypes } from "./types.ts";

/** The prefix of the messages that event triggers write into the log (db/modules/feed/announcements.sql). */
export const SCHEMA_CHANGED = "content_service.schema";

/** A process may read the log of millions of transactions with DDL. */
const MAX_ANNOUNCED = 1000;

const OPERATIONS = { insert: "INSERT", update: "UPDATE", delete: "DELETE" } as const;

/** Turns the stream of one connection into changes. */
export class StreamDecoder implements StreamHandler {
  hasBegun = false;
  readonly #decoder = new PgOutputDecoder();
  #sink!: ChangeSink;
  #snapshot!: QuerySnapshot;
  #types!: ChangedTypes;
  #beginning!: Beginning;
  #reached = 0n;
  /** Whether a transaction is being read. */
  #isWithin = false;
  #transaction = { lsn: 0n, committedAt: 0, xid: 0 };
  /** The transactions whose DDL is known. */
  #schema: Snapshot | null = null;
  /** The last ones that have announced DDL, modulo 2³². A snapshot sees those before. */
  readonly #announced = new Set<number>();
  /** The number of changes of the transaction so far, and of announcements of DDL. */
  #index = 0;
  readonly #onTable: (table: DescribedTable) => Promise<boolean> | null;
  /** Whether queries see every transaction that arrives. */
  readonly #isVisible: boolean;

  /**
   * The next change waits for the promise of `onTable`, which is called before the first change of a table, and after DDL. True: the
   * table has been altered.
   */
  constructor(onTable: (table: DescribedTable) => Promise<boolean> | null, isVisible = false) {
    this.#onTable = onTable;
    this.#isVisible = isVisible;
  }

  /** Everything before this position has been read. */
  get reached(): bigint {
    return this.#reached;
  }

  /** `end` is the end of the log; seconds count from the commit of the transaction that is being read. */
  lagBehind(end: bigint): { readonly bytes: number; readonly seconds: number } {
    const bytes = Math.max(0, Number(end - this.#reached));
    const isBehind = bytes > 0 && this.#isWithin;
    return { bytes, seconds: isBehind ? Math.max(0, Date.now() - this.#transaction.committedAt) / 1000 : 0 };
  }

  /** To be called before the connection streams. */
  start(sink: ChangeSink, pool: pg.Pool, beginning: Beginning): void {
    this.#sink = sink;
    this.#snapshot = new QuerySnapshot(pool);
    this.#types = new ChangedTypes(async (text) => (await pool.query(text)).rows);
    this.#beginning = beginning;
    this.#reached = beginning.start.lsn;
  }

  /** `isReplay`: earlier changes follow, and then another beginning. */
  begin(isReplay = false): void {
    this.hasBegun = !isReplay;
    this.#sink.begin({ ...this.#beginning, isReplay });
  }

  end(): void {
    if (this.hasBegun) this.#sink.lose();
    this.hasBegun = false;
  }

  reach(lsn: bigint): void {
    this.#reached = lsn;
    this.#sink.reach({ lsn, index: 0 });
  }

  data(chunk: Buffer): Promise<void> | null {
    return this.take(chunk, DATA_START, chunk.length);
  }

  /** What follows is a part of the transaction that has begun: so many changes precede it. */
  continueAt(index: number): void {
    this.#index = index;
  }

  knows(table: number): boolean {
    return this.#decoder.knows(table);
  }

  /** The message begins at `start` of `chunk`, and has about so many bytes. */
  take(chunk: Buffer, start: number, bytes: number): Promise<void> | null {
    const message = this.#decoder.decode(chunk, start);
    switch (message?.kind) {
      case "begin":
        this.#transaction = { lsn: message.commitLsn, committedAt: message.committedAt, xid: message.xid };
        this.#index = 0;
        this.#isWithin = true;
        // Waits until queries see the transaction, because readers query its rows.
        return this.#isVisible ? null : this.#snapshot.wait(message.xid);
      case "commit":
        this.#isWithin = false;
        this.reach(message.endLsn);
        return null;
      case "table":
        return this.#meet(message.table);
      case "message":
        if (message.prefix !== SCHEMA_CHANGED) return null;
        this.#index += 1;
        this.#announce(this.#transaction.xid);
        return this.#changeSchema();
      case "insert":
      case "update":
      case "delete":
        return this.#receive(message, bytes);
      case "truncate":
        for (const table of message.tables) this.#send({ table, operation: "TRUNCATE", new: null, old: null }, bytes);
        return this.#sink.waitForCapacity();
      default:
        return null;
    }
  }

  /** One refresh knows all DDL that was committed before it: a migration of many statements is waited for once. */
  #changeSchema(): Promise<void> | null {
    if (this.#schema && sees(this.#schema, this.#transaction.xid)) return null;
    return this.#refreshSchema();
  }

  async #refreshSchema(): Promise<void> {
    const snapshot = await this.#snapshot.read();
    this.#types.forget();
    for (const table of this.#decoder.tables) await this.#describe(table);
    await this.#sink.changeSchema();
    this.#schema = snapshot;
  }

  /** Not every database announces its DDL. */
  async #meet(table: DescribedTable): Promise<void> {
    const known = this.#decoder.tables.find(({ oid }) => oid === table.oid);
    await this.#describe(table);
    const isAltered = (await this.#onTable(table)) || (known && textOf(known) !== textOf(table));
    if (isAltered) await this.#changeSchema();
  }

  async #describe(table: DescribedTable): Promise<void> {
    const before = this.#decoder.tables.find(({ oid }) => oid === table.oid);
    this.#decoder.describe(await this.#types.complete(table, { before, isSettled: this.#isSettled }));
  }

  #announce(xid: number): void {
    this.#announced.add(xid);
    if (this.#announced.size > MAX_ANNOUNCED) this.#announced.delete(this.#announced.values().next().value!);
  }

  /** Whether a committed transaction precedes the one that is being read. In the order of numbers if nothing else is known. */
  readonly #isSettled = (xid: number): boolean => {
    if (this.#announced.has(xid)) return true;
    const own = this.#transaction.xid;
    const before = this.#snapshot.before(own);
    return before ? sees(before, xid) : ((xid - own) | 0) < 0;
  };

  #receive({ kind, table, old, new: image }: RowMessage, bytes: number): Promise<void> | null {
    // An update that has changed nothing counts, too.
    if (kind === "update" && old && image.every((value, i) => value === old[i])) this.#index += 1;
    else this.#send({ table, operation: OPERATIONS[kind], new: image, old }, bytes);
    return this.#sink.waitForCapacity();
  }

  #send(change: Pick<Change, "table" | "operation" | "new" | "old">, bytes: number): void {
    const { lsn, committedAt, xid } = this.#transaction;
    this.#sink.receive({ ...change, position: { lsn, index: ++this.#index }, committedAt, xid }, bytes);
  }
}

/** What the stream says about a table. */
const textOf = ({ schema, name, columns }: DescribedTable): string =>
  JSON.stringify([
    schema,
    name,
    columns.flatMap(({ computed, ...each }) => (computed?.isSent === false ? [] : [each.name, each.type])),
  ]);

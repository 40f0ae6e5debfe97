import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { parseSnapshot, type Snapshot, sees } from "./position.ts";

/** Prepared: it is run for each transaction, or every two milliseconds. */
const SNAPSHOT = { name: "snapshot", text: "select pg_current_snapshot()::text as snapshot" };

const NONE: Snapshot = { end: 0n, running: new Set() };

/** The least time between two snapshots: under load, all transactions that arrive meanwhile share one. */
const PAUSE_MILLISECONDS = 2;

/**
 * Whether queries see a committed transaction. Its commit is in the write-ahead log, and so in the stream of changes, shortly
 * before queries see its rows.
 */
export class QuerySnapshot {
  readonly #pool: pg.Pool;
  #snapshot = NONE;
  /** The one before. */
  #previous = NONE;
  #readAt = 0;

  /** One connection of the pool is used. */
  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  /** Resolves when queries see the transaction; null if they do. `xid` is its number modulo 2³². Rejects if the database does not respond. */
  wait(xid: number): Promise<void> | null {
    return sees(this.#snapshot, xid) ? null : this.#wait(xid);
  }

  async #wait(xid: number): Promise<void> {
    do {
      const pause = PAUSE_MILLISECONDS - (performance.now() - this.#readAt);
      if (pause > 0) await sleep(pause);
    } while (!sees(await this.read(), xid));
  }

  async read(): Promise<Snapshot> {
    this.#readAt = performance.now();
    const { rows } = await this.#pool.query<{ snapshot: string }>(SNAPSHOT);
    this.#previous = this.#snapshot;
    this.#snapshot = parseSnapshot(rows[0]!.snapshot);
    return this.#snapshot;
  }

  /** A snapshot that does not see the transaction: what it sees was committed before. Null if none is known. */
  before(xid: number): Snapshot | null {
    return [this.#snapshot, this.#previous].find((each) => each !== NONE && !sees(each, xid)) ?? null;
  }
}

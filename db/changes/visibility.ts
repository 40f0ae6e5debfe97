import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";

/** The pause between two snapshots. */
const PAUSE_MILLISECONDS = 1;

/** Transactions below `end` have begun; of those, `running` have not ended. Source: pg_current_snapshot(). */
type Snapshot = { readonly end: bigint; readonly running: ReadonlySet<bigint> };

/**
 * Whether queries see a committed transaction. Its commit is in the write-ahead log, and so in the stream of changes, shortly
 * before queries see its rows.
 */
export class Visibility {
  readonly #pool: pg.Pool;
  #snapshot: Snapshot = { end: 0n, running: new Set() };

  /** One connection of the pool is used. */
  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  /** Whether the latest snapshot sees the transaction. `xid` is its number modulo 2³². */
  sees(xid: number): boolean {
    const { end, running } = this.#snapshot;
    const number = nearest(xid, end);
    return number < end && !running.has(number);
  }

  /** Resolves when queries see the transaction. Rejects if the database does not respond. */
  async wait(xid: number): Promise<void> {
    await this.#read();
    while (!this.sees(xid)) {
      await sleep(PAUSE_MILLISECONDS);
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { rows } = await this.#pool.query<{ snapshot: string }>("select pg_current_snapshot()::text as snapshot");
    this.#snapshot = parse(rows[0]!.snapshot);
  }
}

/** `"10:20:10,14"`: all below 20 have begun, and 10 and 14 have not ended. */
function parse(snapshot: string): Snapshot {
  const [, end = "0", running = ""] = snapshot.split(":");
  return { end: BigInt(end), running: new Set(running.split(",").filter(Boolean).map(BigInt)) };
}

/** The number with this remainder that is nearest to `end`: Postgres' numbers of running transactions differ by less than 2³¹. */
function nearest(xid: number, end: bigint): bigint {
  const distance = BigInt.asIntN(32, BigInt(xid) - end);
  return end + distance;
}

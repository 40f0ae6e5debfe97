import type pg from "pg";
import type { Position } from "./change.ts";

/** A position, and the first transaction that certainly began after it. */
type Candidate = { readonly lsn: bigint; readonly next: bigint };

/**
 * Finds a position of the write-ahead log up to which queries see every change, while the log is not decoded and no change has a
 * position. A commit is in the log before queries see it, so a position is used when every transaction that began before it has ended.
 */
export class RestingMark {
  #candidate: Candidate | null = null;
  #position: Position | null = null;

  /** Queries see every change up to here. Null if there is none yet. */
  get position(): Position | null {
    return this.#position;
  }

  forget(): void {
    this.#candidate = null;
    this.#position = null;
  }

  /** `end` is the end of the log, read before this call. */
  async look(pool: pg.Pool, end: bigint): Promise<void> {
    const { rows } = await pool.query<{ oldest: string; next: string }>(
      `select pg_snapshot_xmin(pg_current_snapshot())::text as oldest, pg_snapshot_xmax(pg_current_snapshot())::text as next`,
    );
    const { oldest, next } = rows[0]!;
    this.#candidate ??= { lsn: end, next: BigInt(next) };
    if (BigInt(oldest) < this.#candidate.next) return;
    this.#position = { lsn: this.#candidate.lsn, index: 0 };
    this.#candidate = null;
  }
}

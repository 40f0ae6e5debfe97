import { createHash } from "node:crypto";
import type pg from "pg";
import { pause } from "../repeat.ts";
import type { ReplicationConnection } from "./replication.ts";

/** The first key of the advisory lock that the elected process holds. The second is that of the slot. */
export const LOCK = 1_668_247_158;
/** Milliseconds between two looks at the lock. */
const INTERVAL = 500;

/**
 * One of several processes reads a slot: the one whose replication connection holds an advisory lock. If the process ends in any
 * way, the server ends the connection, and the lock is free.
 */
export class Election {
  readonly #pool: pg.Pool;
  readonly #key: number;

  constructor(pool: pg.Pool, slot: string) {
    this.#pool = pool;
    this.#key = createHash("sha256").update(slot).digest().readInt32BE();
  }

  /** Resolves when no process holds the lock, or `signal` is aborted. */
  async untilFree(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // The lock that several may have ends with the statement. Without a database there is nothing to read.
      const { rows } = await this.#pool
        .query("select pg_try_advisory_xact_lock_shared($1, $2) as free", [LOCK, this.#key])
        .catch(() => ({ rows: [] }));
      if (rows[0]?.free) return;
      await pause(INTERVAL, signal);
    }
  }

  /** Whether this process is elected: it is, until the connection ends. */
  async take(connection: ReplicationConnection): Promise<boolean> {
    const [row] = await connection.query<{ taken: boolean }>(
      `select pg_try_advisory_lock(${LOCK}, ${this.#key}) as taken`,
    );
    return row!.taken;
  }
}

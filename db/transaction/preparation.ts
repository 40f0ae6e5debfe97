import type pg from "pg";
import type { DatabaseError } from "pg-protocol";

/** No such prepared statement, or one exists already. */
const MISPLACED: ReadonlySet<string | undefined> = new Set(["26000", "42P05"]);

/**
 * Whether the connections of a pool keep prepared statements. A pooler in transaction mode may give each transaction another
 * connection to the server, where the statements are missing, or exist already.
 */
export class Preparation {
  /** Maximum prepared statements per connection; 0: none, all are sent unnamed. */
  max: number;
  readonly #onPooler: () => void;

  /** `onPooler` is called when the statements turn out to be lost behind a pooler, from when on none is prepared. */
  constructor(max: number, onPooler: () => void) {
    this.max = max;
    this.#onPooler = onPooler;
  }

  /**
   * Stops preparing if the error is that of a pooler. The same errors follow a DEALLOCATE or PREPARE by code of the database.
   */
  async examine({ code }: DatabaseError, client: pg.Client): Promise<void> {
    if (this.max === 0 || !MISPLACED.has(code)) return;
    if (!(await isPooled(client).catch(() => false)) || this.max === 0) return;
    this.max = 0;
    this.#onPooler();
  }
}

/** Whether the connection is to a pooler, which makes up the process id that a connection is opened with. */
export async function isPooled(client: pg.Client): Promise<boolean> {
  const { processID } = client as unknown as { processID: number };
  const { rows } = await client.query("select pg_catalog.pg_backend_pid()::text as pid");
  return Number(String(rows[0].pid)) !== processID;
}

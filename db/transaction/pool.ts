import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import { type Code, UNKNOWN_CODE } from "../catalog/code.ts";
import { Batch, type NamedStatement } from "../wire/batch.ts";
import { isPooled, RawClient, type RawClientConfig } from "../wire/connection.ts";

export type PoolOptions = RawClientConfig & {
  /** Maximum connections; 10 by default. */
  readonly max?: number;
  /** Milliseconds to open a connection; without it there is no limit. */
  readonly connectionTimeoutMillis?: number;
  /** Milliseconds after which an unused connection may be closed; a minute by default. It is closed within twice that time. */
  readonly idleTimeoutMillis?: number;
  /** Milliseconds after which a connection is replaced, which frees what its server process has cached; 30 minutes by default. */
  readonly maxAgeMillis?: number;
};

const MINUTE = 60_000;

/** A connection of a pool. */
export class PooledConnection {
  readonly client: pg.Client;
  readonly openedAt = performance.now();
  /** The `Code` by which the statements since the last cleaning counted as running no code; null if there were none. */
  codeWhenUsed: Code | null = null;
  /** Whether it is closed when it is released. */
  isRetired = false;

  constructor(client: pg.Client) {
    this.client = client;
  }
}

/**
 * The connections of one login, clean: nothing of the transactions before is left on them. A free one is taken without a promise or a timer. Nothing waits here: the admission in front of the pool
 * lets no more in than there are connections. The connection used last is taken first, so that those that are not needed become idle.
 */
export class ConnectionPool {
  /** What the current catalog knows about code. */
  code: Code = UNKNOWN_CODE;
  readonly preparation: Preparation;
  readonly #options: PoolOptions;
  readonly #onError: (error: Error) => void;
  readonly #free: PooledConnection[] = [];
  /** Connections that are open or being opened. */
  #open = 0;
  /** The fewest that were free since the last inspection: these were not needed. */
  #spare = 0;
  #inspection: NodeJS.Timeout | null = null;
  #closed: PromiseWithResolvers<void> | null = null;

  /** `onError` receives the error of a connection that is lost, whether it is used or free. */
  constructor(options: PoolOptions, onError: (error: Error) => void, preparation = new Preparation(0)) {
    this.preparation = preparation;
    this.#options = options;
    this.#onError = onError;
  }

  get max(): number {
    return this.#options.max ?? 10;
  }

  /** Open connections that are not in use. */
  get available(): number {
    return this.#free.length;
  }

  /** A free connection that is clean, or null. `release` must follow. */
  take(): PooledConnection | null {
    const connection = this.#take();
    if (connection === null || this.#isClean(connection)) return connection;
    this.release(connection);
    return null;
  }

  /**
   * A free or new connection, which is cleaned if needed; `release` must follow. Rejects with Problem when the database does not accept a
   * new one, and with an internal error if all connections are in use.
   */
  async connect(): Promise<PooledConnection> {
    for (;;) {
      if (this.#closed) throw problem("database unavailable");
      const connection = this.#take() ?? (await this.#openOne());
      if (this.#isClean(connection)) return connection;
      const mayPrepare = connection.codeWhenUsed!.executesText || this.code.executesText;
      const { promise, resolve } = Promise.withResolvers<Error | undefined>();
      connection.client.query(this.cleaning({ mayPrepare }, resolve) as never);
      const error = await promise;
      connection.codeWhenUsed = null;
      if (!error) return connection;
      this.release(connection, error);
    }
  }

  /**
   * A batch that cleans a connection; `done` gets an error if the connection cannot be used again. `isFramed`: an error may have left a
   * transaction open. `mayPrepare`: the code may have prepared statements.
   */
  cleaning(
    { isFramed = false, mayPrepare = this.code.executesText }: { isFramed?: boolean; mayPrepare?: boolean },
    done: (error: Error | undefined) => void,
  ): Batch {
    const { preparation } = this;
    const statements = [
      ...(isFramed ? [unnamed("rollback")] : []),
      ...CLEANING,
      ...(mayPrepare ? [unnamed(preparation.max === 0 ? "deallocate all" : PREPARED_BY_SQL)] : []),
    ];
    const batch: Batch = new Batch(statements, { preparation }, (error: DatabaseError | Error | null) => {
      const isReplaced = mayPrepare && batch.results.at(-1)!.rows.length > 0;
      done(error ?? (isReplaced ? new Error("a function has prepared statements") : undefined));
    });
    return batch;
  }

  /** Returns a connection; with an error if it cannot be used again. */
  release(connection: PooledConnection, broken?: Error): void {
    if (broken || connection.isRetired || this.#closed) {
      this.#discard(connection);
      return;
    }
    this.#free.push(connection);
  }

  /** Closes all connections, once they are released. */
  close(): Promise<void> {
    if (this.#closed) return this.#closed.promise;
    this.#closed = Promise.withResolvers();
    if (this.#inspection) clearInterval(this.#inspection);
    for (const connection of this.#free.splice(0)) this.#discard(connection);
    if (this.#open === 0) this.#closed.resolve();
    return this.#closed.promise;
  }

  #take(): PooledConnection | null {
    const connection = this.#free.pop() ?? null;
    if (this.#free.length < this.#spare) this.#spare = this.#free.length;
    return connection;
  }

  /** An older catalog may not have known code that a statement has run, such as a new trigger. */
  #isClean({ codeWhenUsed }: PooledConnection): boolean {
    return codeWhenUsed === null || codeWhenUsed === this.code;
  }

  async #openOne(): Promise<PooledConnection> {
    if (this.#open >= this.max) throw new Error("more transactions were admitted than the pool has connections");
    this.#open++;
    this.#inspection ??= setInterval(() => this.#inspect(), this.#options.idleTimeoutMillis ?? MINUTE).unref();
    const client = new RawClient(this.#options);
    const connection = new PooledConnection(client);
    // Without a listener, losing the connection would end the process.
    client.on("error", (error) => {
      this.#onError(error);
      this.#lose(connection);
    });
    client.once("end", () => this.#lose(connection));
    try {
      await client.connect();
    } catch (error) {
      this.#discard(connection);
      throw problem("database unavailable", { cause: error });
    }
    return connection;
  }

  /** The connection was lost: a free one is removed now, a used one when it is released. */
  #lose(connection: PooledConnection): void {
    connection.isRetired = true;
    const at = this.#free.indexOf(connection);
    if (at < 0) return;
    this.#free.splice(at, 1);
    this.#discard(connection);
  }

  /** Closes a connection. It does not wait for the server, which may be gone. */
  #discard({ client }: PooledConnection): void {
    client.end().catch(() => {});
    this.#open--;
    if (this.#open === 0) this.#closed?.resolve();
  }

  /** Closes the free connections that were not needed since the last inspection, and those that are too old. */
  #inspect(): void {
    const old = performance.now() - (this.#options.maxAgeMillis ?? 30 * MINUTE);
    const kept = this.#free.splice(0);
    for (const [i, connection] of kept.entries()) {
      if (i < this.#spare || connection.openedAt < old) this.#discard(connection);
      else this.#free.push(connection);
    }
    this.#spare = this.#free.length;
  }
}

/**
 * Ends what SQL can start for a whole session. A rollback ends neither locks nor prepared statements. The state of
 * sequences is discarded before code, which alone can read it.
 */
const CLEANING: readonly NamedStatement[] = [
  // First: these settings affect the other statements.
  "reset all",
  // Resets the role too.
  "reset session authorization",
  "close all",
  "unlisten *",
  "discard temp",
  `select pg_catalog.pg_advisory_unlock_all(),
    pg_catalog.setseed(pg_catalog.hashtext(pg_catalog.gen_random_uuid()::text) / 2147483648::float8)`,
].map((text, i) => ({ text, values: [], name: `cleaning_${i}` }));

/**
 * Finds statements that SQL code has prepared with PREPARE: one of them may have taken the name of a statement of the service. This
 * query is sent unnamed, because a named one could have been replaced too. Of the statements above, PREPARE accepts only the `select`.
 */
const PREPARED_BY_SQL = "select from pg_catalog.pg_prepared_statement() where from_sql";

const unnamed = (text: string): NamedStatement => ({ text, values: [], name: "" });

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
  constructor(max: number, onPooler: () => void = () => {}) {
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

import type pg from "pg";
import { problem } from "../../problems/problem.ts";
import type { Code } from "../catalog/code.ts";
import { RawClient, type RawClientConfig } from "../wire/connection.ts";

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
 * The connections of one login. A free one is taken without a promise or a timer. Nothing waits here: the admission in front of the pool
 * lets no more in than there are connections. The connection used last is taken first, so that those that are not needed become idle.
 */
export class ConnectionPool {
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
  constructor(options: PoolOptions, onError: (error: Error) => void) {
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

  /** A free connection, or null. `release` must follow. */
  take(): PooledConnection | null {
    const connection = this.#free.pop() ?? null;
    if (this.#free.length < this.#spare) this.#spare = this.#free.length;
    return connection;
  }

  /**
   * A free or new connection; `release` must follow. Rejects with Problem when the database does not accept a new one, and with an
   * internal error if all connections are in use.
   */
  async connect(): Promise<PooledConnection> {
    if (this.#closed) throw problem("database unavailable");
    const free = this.take();
    if (free !== null) return free;
    if (this.#open >= this.max) throw new Error("more transactions were admitted than the pool has connections");
    return this.#openOne();
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

  async #openOne(): Promise<PooledConnection> {
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

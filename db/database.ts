import pg from "pg";
import type { Logins } from "./cluster/provision.ts";
import { ApiError, loginRequired } from "./errors.ts";
import { Transactions } from "./transaction.ts";

export type DatabaseOptions = {
  readonly logins: Logins;
  /** Connections of the pool for callers; the other pools have at most four. */
  readonly poolSize: number;
  /** Milliseconds to wait for a free connection before a request is told that the database is not available. */
  readonly poolTimeout: number;
  readonly statementTimeout: number;
  readonly maxPrepared: number;
  readonly maxResultBytes: number;
  readonly onConnectionError: (error: Error) => void;
};

/** The pools, one a login role, and what the interfaces need to know about the database as a whole. */
export class Database {
  /** Ordinary connections, for the catalog and for health. */
  readonly catalog: pg.Pool;
  readonly auth: Transactions;
  readonly #data: Transactions;
  readonly #service: Transactions;

  constructor(options: DatabaseOptions) {
    const { logins, poolSize, poolTimeout, onConnectionError } = options;
    const pool = (connectionString: string, max: number): pg.PoolConfig => ({
      connectionString,
      max,
      connectionTimeoutMillis: poolTimeout,
      idleTimeoutMillis: 60_000,
      application_name: "content-service",
    });
    const transactions = (login: string, max: number) => new Transactions({ ...options, pool: pool(login, max) });
    const few = Math.min(4, poolSize);

    this.#data = transactions(logins.data, poolSize);
    this.#service = transactions(logins.service, few);
    this.auth = transactions(logins.auth, few);
    this.catalog = new pg.Pool(pool(logins.data, 2));
    this.catalog.on("error", onConnectionError);
    this.catalog.on("connect", (client) => client.on("error", onConnectionError));
  }

  /** Rounds of waiting for the database so far. */
  get waits(): number {
    return this.#data.syncs + this.#service.syncs + this.auth.syncs;
  }

  /** The pool whose login may become `role`. "" is nobody, where nobody may do anything: throws ApiError. */
  forRole(role: string): Transactions {
    if (role === "") throw new ApiError(loginRequired(false));
    return role === "service_role" ? this.#service : this.#data;
  }

  /** Rejects when the database does not answer. */
  async ping(): Promise<void> {
    await this.catalog.query("select");
  }

  async close(): Promise<void> {
    await Promise.all([this.#data.close(), this.#service.close(), this.auth.close(), this.catalog.end()]);
  }
}

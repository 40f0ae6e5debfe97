import { type LogFunctionFactory, Logger, runMigrations } from "graphile-worker";
import pg from "pg";
import { PrimaryClient } from "../wire/primary.ts";
import { prepareSession } from "./client.ts";

/** The schema of graphile-worker. */
export const QUEUE_SCHEMA = "graphile_worker";

const CONNECT_MILLISECONDS = 10_000;
const IDLE_MILLISECONDS = 60_000;
const KEEPALIVE_MILLISECONDS = 10_000;

/** Receives the log of graphile-worker; `level` is its severity. */
export type QueueLog = (level: string, message: string, meta?: unknown) => void;

/** Creates or updates the tables of graphile-worker. The login of `url` may become tasks_owner. */
export async function migrateQueue(url: string, log: QueueLog): Promise<void> {
  const pgPool = queuePool(url, 1, (error) => log("error", error.message));
  try {
    await runMigrations({ pgPool, schema: QUEUE_SCHEMA, logger: queueLogger(log) });
  } finally {
    await pgPool.end();
  }
}

/** The migrations of graphile-worker that a database does not have yet: `["000020.sql"]` */
export async function pendingInQueue(client: pg.ClientBase): Promise<readonly string[]> {
  // graphile-worker does not export them.
  const { migrations } = await import(new URL("generated/sql.js", import.meta.resolve("graphile-worker")).href);
  const { rows: found } = await client.query("select to_regclass($1) as ledger", [`${QUEUE_SCHEMA}.migrations`]);
  const { rows } =
    found[0].ledger === null
      ? { rows: [{ last: 0 }] }
      : await client.query(`select coalesce(max(id), 0) as last from ${QUEUE_SCHEMA}.migrations`);
  return Object.keys(migrations).filter((file) => Number.parseInt(file, 10) > rows[0].last);
}

/** Connections as the owner of the tasks and their queue. LISTEN and session locks need a direct connection. */
export function queuePool(url: string, max: number, onError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({
    Client: PrimaryClient,
    connectionString: url,
    options: "-c role=tasks_owner",
    application_name: "content-service tasks",
    connectionTimeoutMillis: CONNECT_MILLISECONDS,
    max,
    idleTimeoutMillis: IDLE_MILLISECONDS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_MILLISECONDS,
    onConnect: prepareSession,
  });
  pool.on("error", onError);
  pool.on("connect", (client) => client.on("error", onError));
  return pool;
}

export const queueLogger = (log: QueueLog): Logger =>
  new Logger((() => (level, message, meta) => log(level, message, meta)) satisfies LogFunctionFactory);

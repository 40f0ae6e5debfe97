import { type LogFunctionFactory, Logger, runMigrations } from "graphile-worker";
import pg from "pg";

/** Where graphile-worker has its tables. */
export const QUEUE_SCHEMA = "graphile_worker";

const CONNECT_MILLISECONDS = 10_000;
const IDLE_MILLISECONDS = 60_000;

/** Receives what graphile-worker has to say; `level` is its word for the severity. */
export type QueueLog = (level: string, message: string, meta?: unknown) => void;

/** Makes the tables of graphile-worker, or brings them up to date. `url` is of a login that may become tasks_owner. */
export async function migrateQueue(url: string, log: QueueLog): Promise<void> {
  const pgPool = queuePool(url, 1, (error) => log("error", error.message));
  try {
    await runMigrations({ pgPool, schema: QUEUE_SCHEMA, logger: queueLogger(log) });
  } finally {
    await pgPool.end();
  }
}

/** Connections as the owner of tasks and of their queue. LISTEN and locks of a session need a direct address. */
export function queuePool(url: string, max: number, onError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({ ...queueConnection(url), max, idleTimeoutMillis: IDLE_MILLISECONDS });
  pool.on("error", onError);
  pool.on("connect", (client) => client.on("error", onError));
  return pool;
}

export const queueConnection = (url: string): pg.ClientConfig => ({
  connectionString: url,
  options: "-c role=tasks_owner",
  application_name: "content-service tasks",
  connectionTimeoutMillis: CONNECT_MILLISECONDS,
});

export const queueLogger = (log: QueueLog): Logger =>
  new Logger((() => (level, message, meta) => log(level, message, meta)) satisfies LogFunctionFactory);

import type pg from "pg";
import type { Config } from "../../config/config.ts";
import { isPooled } from "../wire/connection.ts";
import { PrimaryClient } from "../wire/primary.ts";
import type { Logins } from "./provision.ts";

export type ConnectionSettings = Pick<
  Config,
  "workers" | "dbPool" | "taskConcurrency" | "hasTasks" | "embedded" | "databaseUrl" | "databaseDirectUrl"
>;

/** Connections of a process for itself: three for the catalog, three for changes, and the stream of the write-ahead log. */
const FOR_ITSELF = 7;
/** For the queue of tasks, beside those that run. */
const FOR_QUEUE = 3;

const LOWER = "or set WORKERS, DB_POOL or TASK_CONCURRENCY lower";
const CURE = `raise max_connections of the server, ${LOWER}`;

/** The connections that all processes of one instance may open, past the pooler if there is one: see docs/architecture.md. */
export function connectionsOf(settings: ConnectionSettings): number {
  const { workers, dbPool, hasTasks, databaseUrl, databaseDirectUrl } = settings;
  const tasks = hasTasks ? settings.taskConcurrency : 0;
  const isPastPooler = databaseDirectUrl !== "" && databaseDirectUrl !== databaseUrl;
  const requests = isPastPooler ? 0 : dbPool + 3 * Math.min(4, dbPool) + 3 * tasks;
  return workers * (requests + FOR_ITSELF + (hasTasks ? tasks + FOR_QUEUE : 0));
}

/** Too few connections for one instance, or only for an upgrade, with which two run. */
export type Shortage = { readonly stops: "requests" | "upgrade"; readonly message: string };

/** What the server has too few connections for; null if there are enough, and behind a pooler, which shares its own. */
export async function shortageOf(client: pg.Client, settings: ConnectionSettings): Promise<Shortage | null> {
  if (await isPooled(client)) return null;
  const { rows } = await client.query<{ most: number; limit: number | null }>(`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) as most,
      (select nullif(datconnlimit, -1) from pg_database where datname = current_database()) as limit`);
  const { most: ofServer, limit } = rows[0]!;
  const isLimited = limit !== null && limit < ofServer;
  const most = isLimited ? limit : ofServer;
  const needed = connectionsOf(settings);
  const accepted = `the ${isLimited ? "database" : "server"} accepts ${most} from all its clients`;
  const cure = isLimited ? `raise its connection limit (alter database), ${LOWER}` : CURE;
  if (needed > most)
    return { stops: "requests", message: `the service may open ${needed} connections, and ${accepted}: ${cure}` };
  // Only one instance has the embedded server.
  if (settings.embedded || 2 * needed <= most) return null;
  return {
    stops: "upgrade",
    message: `the service may open ${needed} connections, twice as many while an upgrade runs beside it, and ${accepted}: ${cure}`,
  };
}

/** For a request and for a sign-in. */
const FOR_FIRST_REQUESTS = 2;

/**
 * Rejects unless each process can open the connections of its first requests, with the login of callers, while another instance still has its
 * own. More are opened when that one has stopped: a server whose connections are enough for one instance alone is not refused for this.
 */
export async function refuseWithoutConnections(
  { data }: Pick<Logins, "data">,
  settings: ConnectionSettings,
): Promise<void> {
  const count = settings.workers * FOR_FIRST_REQUESTS;
  const opened: pg.Client[] = [];
  try {
    for (let i = 0; i < count; i++) {
      const client = new PrimaryClient({ connectionString: data });
      await client.connect();
      opened.push(client);
    }
  } catch (error) {
    if (!isTooMany(error)) throw error;
    throw new Error(
      `the server accepts ${opened.length} more connections beside the running service, and the first requests need ${count}, ${FOR_FIRST_REQUESTS} for each ` +
        `process (${(error as Error).message}): ${CURE}, or stop the running service first`,
    );
  } finally {
    await Promise.all(opened.map((client) => client.end()));
  }
}

const TOO_MANY_CONNECTIONS = "53300";

const isTooMany = (error: unknown): boolean =>
  error instanceof Error &&
  ((error as { readonly code?: string }).code === TOO_MANY_CONNECTIONS || isTooMany(error.cause));

/** Why a start has failed. The text of Postgres says only that no connection is left, and that of the system names no setting. */
export function whyNotStarted(error: unknown, { embedded, dataDir }: Pick<Config, "embedded" | "dataDir">): string {
  const { message, path } = error as NodeJS.ErrnoException;
  if (isTooMany(error)) return `${message}: all connections of the server are in use; ${CURE}`;
  const isOfData = embedded && path?.startsWith(dataDir);
  return isOfData ? `${message}: DATA_DIR must be a folder that the user of the service may write` : message;
}

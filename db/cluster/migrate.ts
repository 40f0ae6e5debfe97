import { fileURLToPath } from "node:url";
import { Logger } from "@graphile/logger";
import { commit, compile, migrate as runMigrations, type Settings } from "graphile-migrate";
import { clearAllPools, withClient } from "graphile-migrate/dist/pgReal.js";
import type { PoolClient } from "pg";
import { migrateQueue } from "./queue.ts";

/** Receives the log of graphile-migrate; `level` is its severity. */
export type MigrationLog = (level: string, message: string) => void;

const MIGRATIONS_FOLDER = fileURLToPath(new URL("../migrations", import.meta.url));

const BLANK_MIGRATION = `\
-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
`;

/** Runs the committed migrations that are new to the database, and those of the task queue. */
export async function migrate(databaseUrl: string, log: MigrationLog): Promise<void> {
  await runMigrations(settings(databaseUrl, log)).finally(() => closePools(databaseUrl));
  await migrateQueue(databaseUrl, log);
}

/**
 * Commits `migrations/current.sql` as the next migration, after all migrations have succeeded on the empty database
 * `shadow`. The login of `root` may drop and create that database.
 */
export const commitMigration = (
  urls: { database: string; shadow: string; root: string },
  message: string,
  log: MigrationLog,
): Promise<void> =>
  commit(
    { ...settings(urls.database, log), shadowConnectionString: urls.shadow, rootConnectionString: urls.root },
    message,
  ).finally(() => closePools(urls.database, urls.shadow, urls.root));

/** The SQL of `schema/schema.sql` with its includes expanded: the whole database without its history. */
export const compileSchema = (databaseUrl: string): Promise<string> =>
  compile(
    settings(databaseUrl, () => {}),
    "--!include schema.sql\n",
  );

const settings = (databaseUrl: string, log: MigrationLog): Settings => ({
  connectionString: databaseUrl,
  // graphile-migrate requires a different one, even when no database is created or dropped.
  rootConnectionString: `${databaseUrl}#root`,
  migrationsFolder: MIGRATIONS_FOLDER,
  manageGraphileMigrateSchema: true,
  blankMigrationContent: BLANK_MIGRATION,
  logger: new Logger(() => (level, message) => log(level, message)),
});

/**
 * Closes the connections that graphile-migrate keeps after use, and resolves when they are closed. If the server stopped
 * while one is open, graphile-migrate would end the process.
 */
async function closePools(...urls: readonly string[]): Promise<void> {
  // Each pool has one connection, so withClient gets the connection that the migrations used.
  const clients = await Promise.allSettled(
    urls.map((url) => withClient(url, { logger: new Logger(() => () => {}) } as never, watchEnd)),
  );
  clearAllPools();
  await Promise.all(clients.map((client) => (client.status === "fulfilled" ? client.value.ended : undefined)));
}

const watchEnd = async (client: PoolClient) => ({
  ended: new Promise<void>((resolve) => client.once("end", () => resolve())),
});

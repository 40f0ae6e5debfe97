import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Logger } from "@graphile/logger";
import { commit, compile, migrate as runMigrations, type Settings } from "graphile-migrate";
import { clearAllPools } from "graphile-migrate/dist/pgReal.js";
import { migrateQueue } from "./queue.ts";

/** Receives what graphile-migrate has to say; `level` is its word for the severity. */
export type MigrationLog = (level: string, message: string) => void;

const MIGRATIONS_FOLDER = fileURLToPath(new URL("../migrations", import.meta.url));

const BLANK_MIGRATION = `\
-- Alter the shape here, in statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
`;

/** Runs the committed migrations that the database has not seen yet, and those of the queue. */
export async function migrate(databaseUrl: string, log: MigrationLog): Promise<void> {
  await runMigrations(settings(databaseUrl, log)).finally(releasePools);
  await migrateQueue(databaseUrl, log);
}

/**
 * Makes `migrations/current.sql` the next committed migration, after all of them, run from the start on the empty
 * database `shadowUrl`, have succeeded. `rootUrl` may drop and create that database.
 */
export const commitMigration = (
  urls: { database: string; shadow: string; root: string },
  message: string,
  log: MigrationLog,
): Promise<void> =>
  commit(
    { ...settings(urls.database, log), shadowConnectionString: urls.shadow, rootConnectionString: urls.root },
    message,
  ).finally(releasePools);

/** The SQL of `schema/schema.sql` with its includes in place: the whole database without its history. */
export const compileSchema = (databaseUrl: string): Promise<string> =>
  compile(
    settings(databaseUrl, () => {}),
    "--!include schema.sql\n",
  );

const settings = (databaseUrl: string, log: MigrationLog): Settings => ({
  connectionString: databaseUrl,
  // graphile-migrate wants one, other than the first, even where no database is made or dropped.
  rootConnectionString: `${databaseUrl}#root`,
  migrationsFolder: MIGRATIONS_FOLDER,
  manageGraphileMigrateSchema: true,
  blankMigrationContent: BLANK_MIGRATION,
  logger: new Logger(() => (level, message) => log(level, message)),
});

/**
 * graphile-migrate keeps its connections for a moment after use, and ends the process when the server stops meanwhile.
 * Resolves once they have been closed.
 */
async function releasePools(): Promise<void> {
  clearAllPools();
  await setTimeout(50);
}

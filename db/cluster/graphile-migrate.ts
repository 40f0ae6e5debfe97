import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Logger } from "@graphile/logger";
import { compile, migrate, type Settings } from "graphile-migrate";
import { clearAllPools, withClient } from "graphile-migrate/dist/pgReal.js";
import type pg from "pg";
import type { PoolClient } from "pg";
import { atPrimary } from "../wire/primary.ts";
import { withClient as connected } from "./client.ts";
import { explainFailure, MigrationFailure } from "./migration-failure.ts";
import { type Committed, CURRENT, committedAfter } from "./migrations-folder.ts";
import { forget, hasTried, runTried } from "./tried-statements.ts";

/** Receives the log of graphile-migrate; `level` is its severity. */
export type MigrationLog = (level: string, message: string) => void;

const BLANK_MIGRATION = `\
-- Change tables here, and include the files of db/schema/ that changed:
--   alter table public.posts add column subtitle text;
--   --!include posts/functions.sql
`;

/** Runs the committed migrations that are new to the database. Rejects with MigrationFailure. */
export async function runCommitted(databaseUrl: string, log: MigrationLog, folder: string): Promise<void> {
  // Refuses files that graphile-migrate would misread.
  await committedAfter(folder, "");
  await connected(databaseUrl, (client) => runTriedMigrations(client, folder));
  const running = new RunningFile(log);
  const url = atPrimary(databaseUrl);
  await migrate(settings(url, running.log, folder))
    .catch(async (error) => {
      throw await explained(error, databaseUrl, running.name, folder);
    })
    .finally(() => closePools(url));
}

/** Where `current.sql` has been tried, graphile-migrate cannot run what was committed from it. */
async function runTriedMigrations(client: pg.Client, folder: string): Promise<void> {
  if (!(await hasTried(client))) return;
  const { rows } = await client.query<{ last: string | null }>(
    'select max(filename collate "C") as last from graphile_migrate.migrations',
  );
  for (const migration of await committedAfter(folder, rows[0]!.last ?? "")) await runTriedMigration(client, migration);
}

async function runTriedMigration(client: pg.Client, { file, name, hash, previous, text }: Committed): Promise<void> {
  await runTried(client, { file, text }, async (statements) => {
    await client.query("insert into graphile_migrate.migrations (hash, previous_hash, filename) values ($1, $2, $3)", [
      hash,
      previous,
      name,
    ]);
    await forget(client, statements);
  });
}

/** Remembers which migration runs, from the log. */
class RunningFile {
  name = CURRENT;
  readonly log: MigrationLog;

  constructor(log: MigrationLog) {
    this.log = (level, message) => {
      const [, name] = /Running migration '([^']+)'/.exec(message) ?? [];
      if (name !== undefined) this.name = name;
      if (/Running current\.sql/.test(message)) this.name = CURRENT;
      // Errors are not logged, because the failure is also thrown, with more detail.
      if (level !== "error") log(level, message);
    };
  }
}

/** graphile-migrate's error for a committed migration that has been changed. */
const CHANGED = /^Hash for (?:.*\/)?(\S+) does not match/;

/** graphile-migrate's error while another process holds its lock. */
export const BUSY = "Failed to get exclusive lock";

export function throwExplained(error: Error): never {
  if (error.message === BUSY)
    throw new MigrationFailure(
      "another command or service is migrating this database: try again when it has finished.",
    );
  const [, file] = CHANGED.exec(error.message) ?? [];
  if (file === undefined) throw error;
  throw new MigrationFailure(
    `${file} was changed after it had been committed. Undo that (git restore db/migrations/committed/${file}), and write a new ` +
      "migration with the change.",
  );
}

export async function explained(error: unknown, url: string, name: string, folder: string): Promise<unknown> {
  const { message } = error as Error;
  if (message === BUSY || CHANGED.test(message)) throwExplained(error as Error);
  const path = name === CURRENT ? join(folder, name) : join(folder, "committed", name);
  const written = await readFile(path, "utf8").catch(() => "");
  const text = name === CURRENT ? await expanded(written, url, folder) : written;
  return explainFailure(error, url, { file: name, text });
}

/** The SQL with its includes. */
export const expanded = async (written: string, url: string, folder: string): Promise<string> =>
  compile(
    settings(url, () => {}, folder),
    written,
  );

export const settings = (databaseUrl: string, log: MigrationLog, migrationsFolder: string): Settings => ({
  connectionString: databaseUrl,
  // graphile-migrate requires a different one, even when no database is created or dropped.
  rootConnectionString: `${databaseUrl}#root`,
  migrationsFolder,
  manageGraphileMigrateSchema: true,
  blankMigrationContent: BLANK_MIGRATION,
  logger: new Logger(() => (level, message) => log(level, message)),
});

/**
 * Closes the connections that graphile-migrate keeps after use, and resolves when they are closed. If the server stopped
 * while one is open, graphile-migrate would end the process.
 */
export async function closePools(...urls: readonly string[]): Promise<void> {
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

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Logger } from "@graphile/logger";
import { commit, compile, migrate, type Settings, uncommit, watch } from "graphile-migrate";
import { clearAllPools, withClient } from "graphile-migrate/dist/pgReal.js";
import type { PoolClient } from "pg";
import pg from "pg";
import { checkIncludes, includedBySchema } from "./includes.ts";
import { explainFailure, MigrationFailure } from "./migration-failure.ts";
import { CURRENT, schemaOf } from "./migrations-folder.ts";

/** Receives the log of graphile-migrate; `level` is its severity. */
export type MigrationLog = (level: string, message: string) => void;

const BLANK_MIGRATION = `\
-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.posts add column if not exists subtitle text;
--   --!include posts/functions.sql
`;

/** Runs the committed migrations that are new to the database. Rejects with MigrationFailure. */
export async function runCommitted(databaseUrl: string, log: MigrationLog, folder: string): Promise<void> {
  const running = new RunningFile(log);
  await migrate(settings(databaseUrl, running.log, folder))
    .catch(async (error) => {
      throw await explained(error, databaseUrl, running.name, folder);
    })
    .finally(() => closePools(databaseUrl));
}

/** Runs the committed migrations, and then `current.sql`. Rejects with MigrationFailure. */
export async function applyCurrent(databaseUrl: string, log: MigrationLog, folder: string): Promise<void> {
  await checkIncludes({ path: join(folder, CURRENT), name: CURRENT }, schemaOf(folder));
  const running = new RunningFile(log);
  await watch(settings(databaseUrl, running.log, folder), true)
    .catch(async (error) => {
      throw await explained(error, databaseUrl, running.name, folder);
    })
    .finally(() => closePools(databaseUrl));
}

/**
 * Runs `current.sql` a second time on a database. The first start after its commit does the same where `migrate apply` has tried it.
 * Rejects with MigrationFailure.
 */
export async function rerunCurrent(databaseUrl: string, folder: string): Promise<void> {
  const written = await readFile(join(folder, CURRENT), "utf8");
  // Its statements cannot run together.
  if (NO_TRANSACTION.test(written)) return;
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query(await expanded(written, databaseUrl, folder));
  } catch (error) {
    const failure = (await explained(error, databaseUrl, CURRENT, folder)) as Error;
    throw new MigrationFailure(`${RUNS_ONCE}\n${failure.message}`, { cause: error });
  } finally {
    await client.end();
  }
}

const NO_TRANSACTION = /^--! ?no-transaction/m;
const RUNS_ONCE =
  "nothing was committed: current.sql fails when it runs a second time, so the next start would fail on each database where " +
  "migrate apply has tried it. Write statements that may run twice: if (not) exists, create or replace, or a do block.";

type Urls = { readonly database: string; readonly shadow: string; readonly root: string };

/**
 * Commits `current.sql` as the next migration, after all migrations have succeeded on the empty database `shadow`. The login
 * of `root` may drop and create that database.
 */
export async function commitMigration(urls: Urls, message: string, log: MigrationLog, folder: string): Promise<void> {
  await commit(withShadow(urls, log, folder), message)
    .catch(throwExplained)
    .finally(() => closePools(urls.database, urls.shadow, urls.root));
}

/** Moves the latest committed migration back to `current.sql`, which must be empty. Rejects with MigrationFailure. */
export async function uncommitMigration(urls: Urls, log: MigrationLog, folder: string): Promise<void> {
  await migrate(settings(urls.database, log, folder))
    .then(() => uncommit(withShadow(urls, log, folder)))
    .catch(throwExplained)
    .finally(() => closePools(urls.database, urls.shadow, urls.root));
}

/** The SQL of `schema/schema.sql` with its includes expanded: the whole database without its history. Rejects with MigrationFailure. */
export async function compileSchema(databaseUrl: string, folder: string): Promise<string> {
  await includedBySchema(schemaOf(folder));
  return expanded(await readFile(join(schemaOf(folder), "schema.sql"), "utf8"), databaseUrl, folder);
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
const BUSY = "Failed to get exclusive lock";

function throwExplained(error: Error): never {
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

async function explained(error: unknown, url: string, name: string, folder: string): Promise<unknown> {
  const { message } = error as Error;
  if (message === BUSY || CHANGED.test(message)) throwExplained(error as Error);
  const path = name === CURRENT ? join(folder, name) : join(folder, "committed", name);
  const written = await readFile(path, "utf8").catch(() => "");
  const text = name === CURRENT ? await expanded(written, url, folder) : written;
  return explainFailure(error, url, { file: name, text });
}

/** `current.sql` with its includes. */
export const readCurrent = async (databaseUrl: string, folder: string): Promise<string> =>
  expanded(await readFile(join(folder, CURRENT), "utf8"), databaseUrl, folder);

/** The SQL with its includes. */
const expanded = async (written: string, url: string, folder: string): Promise<string> =>
  compile(
    settings(url, () => {}, folder),
    written,
  );

const settings = (databaseUrl: string, log: MigrationLog, migrationsFolder: string): Settings => ({
  connectionString: databaseUrl,
  // graphile-migrate requires a different one, even when no database is created or dropped.
  rootConnectionString: `${databaseUrl}#root`,
  migrationsFolder,
  manageGraphileMigrateSchema: true,
  blankMigrationContent: BLANK_MIGRATION,
  logger: new Logger(() => (level, message) => log(level, message)),
});

const withShadow = ({ database, shadow, root }: Urls, log: MigrationLog, folder: string): Settings => ({
  ...settings(database, log, folder),
  shadowConnectionString: shadow,
  rootConnectionString: root,
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

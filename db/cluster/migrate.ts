import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Logger } from "@graphile/logger";
import { commit, compile, migrate as runMigrations, type Settings, uncommit, watch } from "graphile-migrate";
import { clearAllPools, withClient } from "graphile-migrate/dist/pgReal.js";
import type { PoolClient } from "pg";
import pg from "pg";
import { checkIncludes, includedBySchema } from "./includes.ts";
import { explainFailure, MigrationFailure } from "./migration-failure.ts";
import { migrateQueue } from "./queue.ts";
import { statementsOf } from "./statements.ts";

/** Receives the log of graphile-migrate; `level` is its severity. */
export type MigrationLog = (level: string, message: string) => void;

/** `committed/`, `current.sql`, and `fixtures`, a link to the folder of the schema. */
export const MIGRATIONS_FOLDER = fileURLToPath(new URL("../migrations", import.meta.url));

const CURRENT = "current.sql";

const BLANK_MIGRATION = `\
-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
`;

/**
 * Runs the committed migrations that are new to the database, and those of the task queue. Services that start at the same time
 * migrate one after the other. Rejects with MigrationFailure.
 */
export async function migrate(databaseUrl: string, log: MigrationLog, folder = MIGRATIONS_FOLDER): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: "content-service migrations" });
  // If the connection is lost while it is idle, the next statement fails.
  client.on("error", () => {});
  await client.connect();
  try {
    await waitForTurn(client, log);
    const running = new RunningFile(log);
    await runMigrations(settings(databaseUrl, running.log, folder))
      .catch(async (error) => {
        throw await explained(error, databaseUrl, running.name, folder);
      })
      .finally(() => closePools(databaseUrl));
    await migrateQueue(databaseUrl, log);
    await reportMissing(client, log, folder);
  } finally {
    await client.end();
  }
}

/** Held by the service that migrates. graphile-migrate's own lock does not wait, and does not cover the queue. */
const LOCK = "hashtext('content-service:migrate')";

/**
 * Polls, because a statement that waits for a lock has a snapshot: `create index concurrently` in the migration of the other service
 * would wait for it forever.
 */
async function waitForTurn(client: pg.Client, log: MigrationLog): Promise<void> {
  const takeLock = async () => (await client.query(`select pg_try_advisory_lock(${LOCK}) as taken`)).rows[0].taken;
  if (await takeLock()) return;
  log("warning", "another service is migrating the database: waiting");
  do await sleep(POLL_MILLISECONDS);
  while (!(await takeLock()));
}

const POLL_MILLISECONDS = 200;

/** A newer version has migrated the database. This one serves it: a version only adds to what the previous one uses. */
async function reportMissing(client: pg.Client, log: MigrationLog, folder: string): Promise<void> {
  const { rows } = await client.query("select filename from graphile_migrate.migrations order by filename");
  // graphile-migrate stores 000014-articles-have-subtitles.sql as 000014.sql.
  const files = await readdir(join(folder, "committed"));
  const known = new Set(files.map((file) => file.replace(/^(\d+).*/, "$1.sql")));
  const missing = rows.map(({ filename }) => filename).filter((filename) => !known.has(filename));
  if (missing.length > 0) log("warning", `${NEWER} ${missing.join(", ")}`);
}

const NEWER =
  "a newer version of the service has migrated this database. This version serves it without the features of these migrations:";

/** Runs the committed migrations, and then `current.sql`. Rejects with MigrationFailure. */
export async function applyCurrent(databaseUrl: string, log: MigrationLog, folder = MIGRATIONS_FOLDER): Promise<void> {
  await checkIncludes({ path: join(folder, CURRENT), name: CURRENT }, schemaOf(folder));
  const running = new RunningFile(log);
  await watch(settings(databaseUrl, running.log, folder), true)
    .catch(async (error) => {
      throw await explained(error, databaseUrl, running.name, folder);
    })
    .finally(() => closePools(databaseUrl));
}

/**
 * Runs `current.sql` a second time on a database. The first start after its commit does the same where db:apply has tried it.
 * Rejects with MigrationFailure.
 */
export async function rerunCurrent(databaseUrl: string, folder = MIGRATIONS_FOLDER): Promise<void> {
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
  "db:apply has tried it. Write statements that may run twice: if (not) exists, create or replace, or a do block.";

/** Whether `current.sql` has statements, which no start runs. */
export async function hasCurrent(folder = MIGRATIONS_FOLDER): Promise<boolean> {
  return (
    statementsOf(await readFile(join(folder, CURRENT), "utf8").catch(() => "")).length > 0 || (await includes(folder))
  );
}

const includes = async (folder: string): Promise<boolean> =>
  /^--! ?include /m.test(await readFile(join(folder, CURRENT), "utf8").catch(() => ""));

type Urls = { readonly database: string; readonly shadow: string; readonly root: string };

/**
 * Commits `current.sql` as the next migration, after all migrations have succeeded on the empty database `shadow`. The login
 * of `root` may drop and create that database.
 */
export async function commitMigration(
  urls: Urls,
  message: string,
  log: MigrationLog,
  folder = MIGRATIONS_FOLDER,
): Promise<void> {
  await commit(withShadow(urls, log, folder), message)
    .catch(throwExplained)
    .finally(() => closePools(urls.database, urls.shadow, urls.root));
}

/** Moves the latest committed migration back to `current.sql`, which must be empty. Rejects with MigrationFailure. */
export async function uncommitMigration(urls: Urls, log: MigrationLog, folder = MIGRATIONS_FOLDER): Promise<void> {
  await runMigrations(settings(urls.database, log, folder))
    .then(() => uncommit(withShadow(urls, log, folder)))
    .catch(throwExplained)
    .finally(() => closePools(urls.database, urls.shadow, urls.root));
}

/** The SQL of `schema/schema.sql` with its includes expanded: the whole database without its history. Rejects with MigrationFailure. */
export async function compileSchema(databaseUrl: string, folder = MIGRATIONS_FOLDER): Promise<string> {
  await includedBySchema(schemaOf(folder));
  return expanded(await readFile(join(schemaOf(folder), "schema.sql"), "utf8"), databaseUrl, folder);
}

/** The folder `db/schema/`. */
export const schemaOf = (folder: string): string => join(folder, "fixtures");

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

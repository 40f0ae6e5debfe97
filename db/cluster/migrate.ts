import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { COMMAND } from "../../config/command.ts";
import { MODULES } from "../modules/modules.ts";
import { PrimaryClient } from "../wire/primary.ts";
import { announceSchema } from "./client.ts";
import type { MigrationLog } from "./graphile-migrate.ts";
import { MigrationFailure } from "./migration-failure.ts";
import { namedFilesOf, rememberFiles } from "./migration-files.ts";
import { committedAfter, committedIn, filesOf, hashOf } from "./migrations-folder.ts";
import { removeModules } from "./module-removal.ts";
import { hasModules, type ModuleChoice, updateModules } from "./modules.ts";
import { migrateQueue } from "./queue.ts";

/** What a service needs in a database. `folder` has the migrations of the application; null if there are none. */
export type Installation = ModuleChoice & { readonly folder: string | null };

/**
 * Brings the modules of the service up to date, and runs the committed migrations of the application that are new to the database.
 * Services that start at the same time migrate one after the other. A database that is refused stays as it was. Rejects with
 * MigrationFailure.
 */
export async function migrate(
  databaseUrl: string,
  log: MigrationLog,
  { folder, ...choice }: Installation,
): Promise<void> {
  const work = async (client: pg.Client) => {
    const isNew = await migrateModules(client, databaseUrl, log, choice);
    if (folder === null) return;
    const [committed, applied] = await Promise.all([committedIn(folder), appliedTo(client)]);
    // Otherwise graphile-migrate runs what is new, or says why the files do not follow from what was applied.
    const isUpToDate = committed.every((name, i) => name === applied[i]);
    if (!isUpToDate) {
      // Loaded only here: most starts have nothing to migrate.
      const { runCommitted } = await import("./graphile-migrate.ts");
      await runCommitted(databaseUrl, log, folder).catch(async (error) => {
        if (applied.length === 0) await forget(client, isNew);
        throw error;
      });
      const run = committed.filter((name) => !applied.includes(name));
      if (run.length > 0) {
        const files = await filesOf(folder, run);
        await rememberFiles(client, run, files);
        log("notice", `migrations of the application run: ${files.join(", ")}`);
      }
      await announceSchema(client);
    }
    const missing = applied.filter((name) => !committed.includes(name));
    if (missing.length > 0) log("warning", newerMigrations(await namedFilesOf(client, folder, missing)));
    const changed = await changedSince(client, folder);
    if (changed.length > 0) log("warning", changedMigrations(changed));
  };
  await alone(databaseUrl, log, work);
}

/** Brings only the modules of the service up to date. Rejects with MigrationFailure. */
export const installModules = (databaseUrl: string, log: MigrationLog, choice: ModuleChoice): Promise<void> =>
  alone(databaseUrl, log, async (client) => void (await migrateModules(client, databaseUrl, log, choice)));

/** Calls back with a connection while no other service migrates the database. */
export async function alone<T>(
  databaseUrl: string,
  log: MigrationLog,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new PrimaryClient({ connectionString: databaseUrl, application_name: "content-service migrations" });
  await client.connect();
  try {
    await waitForTurn(client, log);
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Returns whether the database had no modules before. */
async function migrateModules(
  client: pg.Client,
  databaseUrl: string,
  log: MigrationLog,
  choice: ModuleChoice,
): Promise<boolean> {
  await refuseOldDatabase(client);
  const { isNew, newerVersion, changed } = await updateModules(client, choice);
  if (choice.modules.includes("tasks")) await migrateQueue(databaseUrl, log);
  if (newerVersion !== null) log("warning", newerModules(newerVersion));
  if (changed.length > 0) {
    log("notice", `modules of the service installed or brought up to date: ${changed.join(", ")}`);
    await announceSchema(client);
  }
  return isNew;
}

/** Rejects with MigrationFailure for a database of a version before 1.0. */
export async function refuseOldDatabase(client: pg.ClientBase): Promise<void> {
  const isManaged = await hasModules(client);
  const { rows } = await client.query(
    `select to_regclass('auth_private.accounts') is not null and (not $1 or to_regtype('auth.user_id') is null) as "isOld"`,
    [isManaged],
  );
  if (rows[0].isOld) throw new MigrationFailure(MADE_BEFORE);
}

const MADE_BEFORE =
  "this database was made before 1.0 and cannot be upgraded. Use an empty database; for the embedded one, " +
  `${COMMAND} reset --yes deletes it with all its data, and the next start makes a new one.`;

/** The migrations of the database in order: `["000001.sql", …]` */
export async function appliedTo(client: pg.ClientBase): Promise<readonly string[]> {
  const { rows: found } = await client.query(
    "select from pg_tables where schemaname = 'graphile_migrate' and tablename = 'migrations'",
  );
  if (found.length === 0) return [];
  const { rows } = await client.query('select filename from graphile_migrate.migrations order by filename collate "C"');
  return rows.map(({ filename }) => filename);
}

/** The files of migrations that are not what the database has run: `["000003-tags.sql"]` */
export async function changedSince(client: pg.ClientBase, folder: string): Promise<readonly string[]> {
  if ((await appliedTo(client)).length === 0) return [];
  const { rows } = await client.query<{ filename: string; hash: string }>(
    "select filename, hash from graphile_migrate.migrations",
  );
  const ran = new Map(rows.map(({ filename, hash }) => [filename, hash]));
  const committed = await committedAfter(folder, "");
  return committed
    .filter((migration) => ran.has(migration.name) && ran.get(migration.name) !== hashOf(migration))
    .map(({ file }) => file);
}

/** A database that was refused stays as it was: the modules and the tables of graphile-migrate came before the first migration. */
async function forget(client: pg.Client, hasNewModules: boolean): Promise<void> {
  if ((await appliedTo(client)).length > 0) return;
  await client.query("drop schema if exists graphile_migrate cascade");
  if (hasNewModules) await removeModules(client, MODULES);
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
export const newerMigrations = (files: readonly string[]): string =>
  `a newer version of the application has migrated this database. This version serves it without the features of these migrations: ${files.join(", ")}`;
export const newerModules = (version: string): string =>
  `a newer version of the service has migrated this database. This version serves it as it is; the newer one is ${version}`;
export const changedMigrations = (files: readonly string[]): string =>
  `migrations that this database has run were changed afterwards, and no start runs them again: ${files.join(", ")}. Undo that ` +
  `(git restore ${files.map((file) => `db/migrations/committed/${file}`).join(" ")}), and write a new migration with the change. In development, ${COMMAND} reset deletes the embedded database, and the next start runs all of them`;

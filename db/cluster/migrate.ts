import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { MigrationLog } from "./graphile-migrate.ts";
import { committedIn, MIGRATIONS_FOLDER } from "./migrations-folder.ts";
import { migrateQueue } from "./queue.ts";

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
    const [committed, applied] = await Promise.all([committedIn(folder), appliedTo(client)]);
    // Otherwise graphile-migrate runs what is new, or says why the files do not follow from what was applied.
    const isUpToDate = committed.every((name, i) => name === applied[i]);
    if (!isUpToDate) {
      // Loaded only here: most starts have nothing to migrate.
      const { runCommitted } = await import("./graphile-migrate.ts");
      await runCommitted(databaseUrl, log, folder).catch(async (error) => {
        if (applied.length === 0) await forget(client);
        throw error;
      });
    }
    await migrateQueue(databaseUrl, log);
    const missing = applied.filter((name) => !committed.includes(name));
    if (missing.length > 0) log("warning", `${NEWER} ${missing.join(", ")}`);
  } finally {
    await client.end();
  }
}

/** The migrations of the database in order: `["000001.sql", …]` */
async function appliedTo(client: pg.Client): Promise<readonly string[]> {
  const { rows: found } = await client.query(
    "select from pg_tables where schemaname = 'graphile_migrate' and tablename = 'migrations'",
  );
  if (found.length === 0) return [];
  const { rows } = await client.query('select filename from graphile_migrate.migrations order by filename collate "C"');
  return rows.map(({ filename }) => filename);
}

/** A database that was refused stays as it was: graphile-migrate has created its tables before the first migration. */
async function forget(client: pg.Client): Promise<void> {
  if ((await appliedTo(client)).length === 0) await client.query("drop schema if exists graphile_migrate cascade");
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
const NEWER =
  "a newer version of the service has migrated this database. This version serves it without the features of these migrations:";

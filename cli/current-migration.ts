import { join } from "node:path";
import { commit, migrate, type Settings, uncommit } from "graphile-migrate";
import type pg from "pg";
import { announceSchema, withClient } from "../db/cluster/client.ts";
import {
  BUSY,
  closePools,
  expanded,
  explained,
  type MigrationLog,
  runCommitted,
  settings,
  throwExplained,
} from "../db/cluster/graphile-migrate.ts";
import { CURRENT, schemaOf } from "../db/cluster/migrations-folder.ts";
import { readSql } from "../db/cluster/sql-file.ts";
import { remember, runTried } from "../db/cluster/tried-statements.ts";
import { checkIncludes, includedBySchema } from "./includes.ts";

/**
 * Runs the committed migrations, and then the statements of `current.sql` that are new to the database; `again`, all of them. Returns
 * how many were left to run. Rejects with MigrationFailure.
 */
export async function applyCurrent(
  databaseUrl: string,
  log: MigrationLog,
  folder: string,
  again = false,
): Promise<number> {
  await checkIncludes({ path: join(folder, CURRENT), name: CURRENT }, schemaOf(folder));
  await runCommitted(databaseUrl, log, folder);
  const text = await readCurrent(databaseUrl, folder);
  const run = async (client: pg.Client) => {
    const { rows } = await client.query("select pg_try_advisory_lock($1) as taken", [LOCK]);
    if (!rows[0].taken) throwExplained(new Error(BUSY));
    const left = await runTried(client, { file: CURRENT, text }, (statements) => remember(client, statements), again);
    await announceSchema(client);
    return left;
  };
  return withClient(databaseUrl, run);
}

/** graphile-migrate's lock. Released when the connection ends. */
const LOCK = "4727445306447283";

type Urls = { readonly database: string; readonly shadow: string; readonly root: string };

/**
 * Commits `current.sql` as the next migration, after all migrations have succeeded on the empty database `shadow`. The login
 * of `root` may drop and create that database.
 */
export async function commitMigration(urls: Urls, message: string, log: MigrationLog, folder: string): Promise<void> {
  await commit(withShadow(urls, log, folder), message)
    .catch(async (error) => {
      throw await explained(error, urls.database, CURRENT, folder);
    })
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
  return expanded(readSql(join(schemaOf(folder), "schema.sql"), "db/schema/schema.sql"), databaseUrl, folder);
}

/** `current.sql` with its includes. */
export const readCurrent = async (databaseUrl: string, folder: string): Promise<string> =>
  expanded(readSql(join(folder, CURRENT), CURRENT), databaseUrl, folder);

const withShadow = ({ database, shadow, root }: Urls, log: MigrationLog, folder: string): Settings => ({
  ...settings(database, log, folder),
  shadowConnectionString: shadow,
  rootConnectionString: root,
});

import { createHash } from "node:crypto";
import type pg from "pg";
import { type SqlStatement, statementsOf } from "../sql-tokens.ts";
import { MigrationFailure, type MigrationText, placeOf, statementFailure } from "./migration-failure.ts";
import { inTransaction } from "./modules.ts";

/**
 * The statements of `current.sql` that this database has run, in order. So plain statements, such as `create table`, can stay there while
 * others are added, and a start does not run them again after their commit.
 */
const TABLE =
  "create table if not exists content_service.tried_statements (place integer primary key, hash text not null)";

/** SQLSTATEs of a statement that has nothing left to do: the object exists, or does not exist any more; the row is there. */
const DONE = new Set([
  ...["42P07", "42710", "42701", "42723", "42P06", "42P16"],
  ...["42P01", "42703", "42704", "42883", "3F000"],
  "23505",
]);

/** The beginning of the SQLSTATEs with which the server ends a connection. */
const SHUTDOWN = "57P";

/** Whether `current.sql` has run on this database since its last commit. */
export async function hasTried(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query("select to_regclass('content_service.tried_statements') is not null as found");
  return rows[0].found && (await readTried(client)).length > 0;
}

export async function readTried(client: pg.ClientBase): Promise<readonly string[]> {
  const { rows } = await client.query<{ hash: string }>(
    "select hash from content_service.tried_statements order by place",
  );
  return rows.map(({ hash }) => hash);
}

async function writeTried(client: pg.ClientBase, hashes: readonly string[]): Promise<void> {
  await client.query("delete from content_service.tried_statements");
  await client.query(
    "insert into content_service.tried_statements select place, hash from unnest($1::text[]) with ordinality as s (hash, place)",
    [hashes],
  );
}

/** Remembers that this database has run the statements, and no others. */
export async function remember(client: pg.ClientBase, statements: readonly SqlStatement[]): Promise<void> {
  await client.query(TABLE);
  await writeTried(client, statements.map(hashOf));
}

/** The statements are those of a committed migration now. */
export async function forget(client: pg.ClientBase, statements: readonly SqlStatement[]): Promise<void> {
  const committed = new Set(statements.map(hashOf));
  await writeTried(
    client,
    (await readTried(client)).filter((hash) => !committed.has(hash)),
  );
}

/**
 * Runs the statements of a migration that this database has not run, and then `record`, in one transaction unless it says otherwise.
 * Returns how many were left to run.
 *
 * What follows the first difference runs. If that fails, everything runs, because a statement may need one before it, as `create policy`
 * after `drop policy if exists`. With `again`, everything runs at once. Rejects with MigrationFailure; then nothing has changed but what
 * ran without a transaction.
 */
export async function runTried(
  client: pg.Client,
  migration: MigrationText,
  record: (statements: readonly SqlStatement[]) => Promise<void>,
  again = false,
): Promise<number> {
  const { file, text } = migration;
  const statements = statementsOf(text);
  await client.query(TABLE);
  const tried = await readTried(client);
  // One that the database has run before, and that has nothing left to do, may fail.
  const run = async (statement: SqlStatement, undo?: string) => {
    try {
      await client.query(statement.text);
    } catch (failure) {
      const error = failure as pg.DatabaseError;
      if (error.severity === undefined || error.code?.startsWith(SHUTDOWN)) throw error;
      const isDone = DONE.has(error.code ?? "") && tried.includes(hashOf(statement));
      if (!isDone) throw statementFailure({ statement, error }, migration);
      if (undo !== undefined) await client.query(undo);
    }
  };
  if (NO_TRANSACTION.test(text)) {
    for (const statement of statements) await run(statement);
    await record(statements);
    return statements.length;
  }
  const own = statements.find((statement) => OWN_TRANSACTION.test(statement.text));
  if (own !== undefined)
    throw new MigrationFailure(`${placeOf(text.slice(0, own.at), file)}: ${IN_TRANSACTION}\n    ${own.text}`);
  const attempt = (first: number) =>
    inTransaction(client, async () => {
      for (const statement of statements.slice(first)) {
        await client.query("savepoint statement");
        await run(statement, "rollback to savepoint statement");
        await client.query("release savepoint statement");
      }
      await record(statements);
    });
  const changed = statements.findIndex((statement, i) => tried[i] !== hashOf(statement));
  const first = again ? 0 : changed < 0 ? statements.length : changed;
  await attempt(first).catch((error) => {
    if (first === 0 || !(error instanceof MigrationFailure)) throw error;
    return attempt(0);
  });
  return statements.length - first;
}

/** In a migration whose statements cannot run together. */
const NO_TRANSACTION = /^--!\s*no-transaction\b/m;

/** A statement that would end the transaction of the migration. `rollback to` a savepoint does not. */
const OWN_TRANSACTION =
  /^(begin|start\s+transaction|commit|end|abort|rollback(?!\s+((work|transaction)\s+)?to\b)|prepare\s+transaction)\b/i;
const IN_TRANSACTION =
  "a migration runs in one transaction, so remove this statement. If its statements cannot run together, its first line is --! no-transaction.";

export const hashOf = ({ text }: SqlStatement): string => createHash("sha256").update(text).digest("hex");

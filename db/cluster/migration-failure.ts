import pg from "pg";
import { COMMAND } from "../../config/command.ts";
import { type SqlStatement, statementsOf } from "../sql-tokens.ts";

/** A migration that failed, in words for a DBA: the file, the line, the statement and the fix. */
export class MigrationFailure extends Error {}

/** The text of a migration with its includes expanded, and the name of its file. */
export type MigrationText = { readonly file: string; readonly text: string };

/**
 * Explains why a migration has failed. Postgres does not say which statement of many it was, so they are executed again, one
 * after the other, in a transaction that is rolled back. Returns the error itself if it is not of a statement.
 */
export async function explainFailure(error: unknown, url: string, migration: MigrationText): Promise<unknown> {
  if ((error as Error).name === "SQLParsingError") return unreadable(error, migration);
  if ((error as pg.DatabaseError).severity === undefined) return error;
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    const failed = await firstFailure(client, statementsOf(migration.text));
    // They succeed if a lock is free now, and fail differently if they must not run in a transaction.
    const original = error as pg.DatabaseError;
    const isSame = failed !== null && failed.error.code === original.code;
    const explanation = isSame ? describe(failed, migration) : summarize(original, migration);
    return new MigrationFailure(explanation, { cause: error });
  } catch {
    return error;
  } finally {
    await client.end();
  }
}

/** graphile-migrate compares migrations without their comments, with a parser that does not know `$$`. */
function unreadable(error: unknown, { file, text }: MigrationText): unknown {
  const found = statementsOf(text).find((statement) => hasOddQuotes(statement.text));
  if (found === undefined) return error;
  const lines = found.text.split("\n");
  const line = lines.findIndex(hasOddQuotes);
  const at = found.at + lines.slice(0, line).reduce((length, each) => length + each.length + 1, 0);
  const place = placeOf(text.slice(0, at), file);
  return new MigrationFailure(`${place}: ${ODD_QUOTES}\n    ${lines[line]!.trim()}`, { cause: error });
}

const hasOddQuotes = (sql: string) => (sql.replace(/--.*$/gm, "").match(/'/g) ?? []).length % 2 === 1;

const ODD_QUOTES =
  "an unpaired apostrophe. graphile-migrate needs an even number of them, also between $$ and $$: rephrase it, or write ’.";

/** A statement of a migration, and why it has failed. */
type Failed = { readonly statement: SqlStatement; readonly error: pg.DatabaseError };

/** The failure of one statement. */
export const statementFailure = (failed: Failed, migration: MigrationText): MigrationFailure =>
  new MigrationFailure(describe(failed, migration), { cause: failed.error });

async function firstFailure(client: pg.Client, statements: readonly SqlStatement[]): Promise<Failed | null> {
  await client.query("begin");
  try {
    for (const statement of statements) {
      const error = await client.query(statement.text).then(
        () => null,
        (failure: pg.DatabaseError) => failure,
      );
      if (error !== null) return { statement, error };
    }
    return null;
  } finally {
    await client.query("rollback");
  }
}

function describe({ statement, error }: Failed, { file, text }: MigrationText): string {
  const at = statement.at + Math.max(Number(error.position ?? 1) - 1, 0);
  // Files that a committed migration has included may have moved since.
  const before = text.slice(0, at);
  const place = SHIPPED.test(file) ? `${file}, line ${before.split("\n").length}` : placeOf(before, file);
  const shown = statement.text.length > MAX_SHOWN ? `${statement.text.slice(0, MAX_SHOWN)} …` : statement.text;
  const drop = SHIPPED.test(file) || ADVICE[error.code ?? ""] !== EXISTS ? null : dropOf(statement.text);
  return [
    `${place}: ${error.message} (${error.code})`,
    shown.replace(/^/gm, "    "),
    ...helpFor(error, file),
    ...(drop === null ? [] : [`${DROP} ${drop}`]),
  ].join("\n");
}

const DROP = "To make it again, with the loss of its rows, run this in psql, and then this command:";

/** The statement that drops what another statement makes; null if it is not of a common kind. */
function dropOf(sql: string): string | null {
  const [, kind, name] =
    /^create\s+(?:unlogged\s+|materialized\s+)?(table|type|domain|schema|sequence|view)\s+(?:if\s+not\s+exists\s+)?([\w."]+)/i.exec(
      sql,
    ) ?? [];
  if (kind !== undefined) return `drop ${kind.toLowerCase()} ${name};`;
  const [, policy, table] = /^create\s+policy\s+("(?:[^"]|"")*"|\w+)\s+on\s+([\w."]+)/i.exec(sql) ?? [];
  if (policy !== undefined) return `drop policy ${policy} on ${table};`;
  const [, altered, column] = /^alter\s+table\s+([\w."]+)\s+add\s+(?:column\s+)?([\w"]+)[^,]*$/i.exec(sql) ?? [];
  return altered === undefined ? null : `alter table ${altered} drop column ${column};`;
}

/** Without the statement. */
const summarize = (error: pg.DatabaseError, { file }: MigrationText): string =>
  [`${file}: ${error.message} (${error.code})`, ...helpFor(error, file)].join("\n");

/** What Postgres adds to the message, and how to fix it. */
function helpFor({ code = "", message, detail, hint }: pg.DatabaseError, file: string): readonly string[] {
  const isRefused = code === "42501" && /^permission denied for (schema|database) /.test(message);
  const ownAdvice = adviceForType(message, detail) ?? ADVICE[code];
  if (/^extension ".+" is not available$/.test(message)) return [EXTENSION_MISSING];
  const fix = isRefused ? RIGHT_MISSING : SHIPPED.test(file) ? committedAdvice(code, message, file) : ownAdvice;
  return [detail, hint, fix].filter((line) => line !== undefined);
}

/** Another type of a column that a view, rule, policy, trigger, function or generated column uses. The detail names it. */
function adviceForType(message: string, detail = ""): string | undefined {
  if (!message.startsWith("cannot alter type of a column used ")) return undefined;
  const [, kind, name] = / on ((?:materialized )?view) (.+) depends on column /.exec(detail) ?? [];
  const drop = kind === undefined ? "Drop it" : `Drop it (drop ${kind} if exists ${name};)`;
  return `${drop} before this statement, and make it again after it: --!include the file of db/schema/ that makes it, with its grants.`;
}

/** The reader of an error in a committed migration or a module has not written it. */
function committedAdvice(code: string, message: string, file: string): string | undefined {
  const advice = ADVICE[code];
  if (advice === EXISTS) return existsFor(file);
  if (advice === MISSING) return /\bextensions\./.test(message) ? EXTENSION_ELSEWHERE : MISSING_HERE;
  if (code !== "42501") return advice;
  if (/superuser|\brole\b/.test(message)) return ROLES_MISSING;
  return /^permission denied for /.test(message) ? RIGHT_MISSING : advice;
}

const EXTENSION_MISSING =
  "The server lacks it: install its package there. npm test, migrate check and migrate commit start an embedded PostgreSQL, whose only " +
  "extensions are those of PostgreSQL itself. Let them start one that has it: TEST_POSTGRES=/usr/lib/postgresql/17/bin, the folder of its " +
  "programs (docs/applications.md#extensions-in-tests).";
const EXTENSION_ELSEWHERE =
  "The service expects the extension pg_trgm in the schema extensions. Its owner, or a superuser, can run: create schema if not " +
  "exists extensions; alter extension pg_trgm set schema extensions;";
const MISSING_HERE =
  "The migration expects an object that this database does not have: it was dropped, or never created.";
const ROLES_MISSING =
  "The login of DATABASE_URL may not create the roles of the service, so a superuser must create them first: " +
  "docs/configuration.md#your-own-database has the statements.";
const RIGHT_MISSING =
  "The login of DATABASE_URL lacks this right: the owner of the object, or a superuser, must grant it.";

const MAX_SHOWN = 400;

/** `current.sql, line 3`, or `db/schema/posts/access.sql, line 7, included by current.sql` */
export function placeOf(before: string, file: string): string {
  const open = [{ name: file, line: 0 }];
  for (const line of before.split("\n")) {
    const [, name] = /^--! Included (\S+)$/.exec(line) ?? [];
    if (name !== undefined) {
      open.push({ name: `db/schema/${name}`, line: 0 });
      continue;
    }
    // The included file stands for one line.
    if (/^--! EndIncluded /.test(line)) open.pop();
    open.at(-1)!.line++;
  }
  const [{ name, line }, includer] = open.toReversed() as [(typeof open)[0], (typeof open)[0]?];
  return `${name}, line ${line}${includer ? `, included by ${includer.name}` : ""}`;
}

/** Committed migrations and modules. */
const SHIPPED = /^(\d{6}|db\/modules\/)/;

const EXISTS =
  "It exists already: an earlier text of this statement made it, or an experiment in psql. Write the difference as a statement of its " +
  "own, such as alter table … add column. Or adopt it with a statement that may run twice (create table if not exists; create or " +
  "replace function, view or trigger; drop policy if exists before create policy; for a type: do $$ begin if to_regtype('…') is " +
  "null then create type …; end if; end $$).";

/** A committed migration meets an object that it does not know. */
const existsFor = (file: string): string =>
  file.startsWith(FIRST)
    ? "This database has tables that are not of this service. To serve them unchanged, set MIGRATE=off. Otherwise give the service " +
      "its own database."
    : "It exists already. If the database is that of npm test, migrate check or commit, take it out of db/base, which has only what others " +
      `make. Otherwise it is perhaps of an experiment in psql: drop it. Or, if no other database has run the migration, take it back with ` +
      `${COMMAND} migrate uncommit, and use a statement that may run twice: ${COMMAND} migrate apply names such statements when it fails.`;
const FIRST = "000001";
const MISSING =
  "It does not exist at this point. Put the statement that makes it before this one, or --!include the file that does.";

/** How to fix it, by SQLSTATE. */
const ADVICE: Readonly<Record<string, string>> = {
  "42710": EXISTS,
  "42P07": EXISTS,
  "42701": EXISTS,
  "42723": EXISTS,
  "42P06": EXISTS,
  "42P01": MISSING,
  "42703": MISSING,
  "42704": MISSING,
  "42883": MISSING,
  "3F000": MISSING,
  "42501": "The login of DATABASE_URL must own the object: run the migrations as its owner.",
  "55P03": "Another transaction holds a lock on the object: end it, and run this again.",
  "2BP01": "Other objects depend on it: drop or change them first, in the same migration.",
  "23502": "Rows that exist break the new rule: update them first, in the same migration.",
  "23514": "Rows that exist break the new rule: update them first, in the same migration.",
  "23505": "Rows that exist break the new rule: update them first, in the same migration.",
};

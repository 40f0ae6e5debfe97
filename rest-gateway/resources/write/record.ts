import { writeCommand } from "../../../db/query/changes.ts";
import type { InsertCommand, RowsPlan, UpdateCommand } from "../../../db/query/plan.ts";
import { SNAPSHOT } from "../../../db/query/result.ts";
import { Aliases, type From, fromTable, writeList, writeWhere } from "../../../db/query/rows.ts";
import { type Sql, sql } from "../../../db/sql.ts";
import type { Reference } from "../description.ts";
import type { Resource } from "../resource.ts";
import { columnOf, modifiedOf, qualifiedName, versionOf } from "./expressions.ts";

// Statements for one record. Each returns one row in the columns of RESULT, or no row if there is no such record. The conditions of
// `rows` find the record; those of a change include its preconditions.

/** The row of a table that a path names, and what must hold for it. */
export type TargetPlan = Pick<UpdateCommand, "table" | "conditions">;

export function writeFound(resource: Resource, rows: RowsPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(resource.table, aliases);
  return sql`${writeRecord(resource, rows, from, aliases, true, [SNAPSHOT])}${writeWhere(rows, from, aliases)}`;
}

/** Writes the record and returns it. No row if nothing was written. */
export function writeChanged(resource: Resource, rows: RowsPlan, command: InsertCommand | UpdateCommand): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const returned = sql`${scope.alias}.*, ${versionOf(resource)(scope)} as xmin`;
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${returned}`);
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}`,
    writeRecord(resource, rows, { item: sql`changed as ${scope.alias}`, scope, join: null }, aliases),
  );
}

/** The record after the change, or the reason why nothing has changed. */
export const writeUpdated = (resource: Resource, rows: RowsPlan, update: UpdateCommand): Sql =>
  sql.clauses(writeChanged(resource, rows, update), sql`union all`, writeNoRecord(rows, update, sql`changed`));

/**
 * Locks the row: a transaction that inserts a reference to it waits, and fails once the row is deleted. A separate
 * statement, so that the next one sees all references that were inserted before.
 */
export function writeLock({ table }: Resource, rows: RowsPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(table, aliases);
  return sql.clauses(sql`select`, sql`from ${from.item}${writeWhere(rows, from, aliases)}`, sql`for update`);
}

/** Deletes the rows of `cascade` too. */
export function writeDeleted(
  { key }: Resource,
  rows: RowsPlan,
  target: TargetPlan,
  cascade: readonly Reference[],
): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const cascades = cascade.map((other, i) => {
    const deletion = sql.clauses(
      sql`delete from ${qualifiedName(other.table)} as other`,
      sql`using changed`,
      sql`where ${sql.identifier("other", other.column)} = ${sql.identifier("changed", key.column.name)}`,
    );
    return sql`, ${sql.trusted(`cascade_${i}`)} as ${sql.subquery(deletion)}`;
  });
  const deletion = writeCommand({ kind: "delete", ...target }, scope, aliases);
  const change = sql.clauses(deletion, sql`returning ${columnOf(key)(scope)}`);
  const reason = sql`case when count(*) = 0 then ${writeReason(rows, target)} end`;
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}${sql.join(cascades, "")}`,
    writeResult([sql`null::json`, sql`count(*)::text`, reason], sql`from changed`),
  );
}

/** Calls the function for the row if the preconditions hold. The function raises its own errors. */
export function writeAct(resource: Resource, rows: RowsPlan, target: TargetPlan, name: string): Sql {
  const aliases = new Aliases();
  const from = fromTable(target.table, aliases);
  const { scope } = from;
  const meant = sql.clauses(
    sql`select ${columnOf(resource.key)(scope)} as key`,
    sql`from ${from.item}${writeWhere({ ...target, embeds: [] }, from, aliases)}`,
  );
  const item = sql`meant, lateral ${qualifiedName(name)}(meant.key) as ${scope.alias}`;
  return sql.clauses(
    sql`with meant as ${sql.subquery(meant)}`,
    // The row that a function returns has no version.
    writeRecord(resource, rows, { ...from, item }, aliases, false),
    sql`union all`,
    writeNoRecord(rows, target, sql`meant`),
  );
}

const NULL = sql`null::text`;

/** `more` are additional columns of the result. */
function writeRecord(
  resource: Resource,
  rows: RowsPlan,
  from: From,
  aliases: Aliases,
  isVersioned = true,
  more: readonly Sql[] = [],
): Sql {
  const { item, scope } = from;
  const version = isVersioned ? [versionOf(resource)(scope), modifiedOf(resource)(scope)] : [NULL, NULL];
  const about = [sql`${columnOf(resource.key)(scope)}::text`, ...version];
  const shown = sql.subquery(sql`select ${writeList(rows, scope, aliases)}`);
  return writeResult(
    [sql`pg_catalog.row_to_json(r.*)`, sql`'1'`, NULL, ...about, ...more],
    sql`from ${item}, lateral ${shown} as r`,
  );
}

/** The reason, if the query `from` has no row. */
function writeNoRecord(rows: RowsPlan, target: TargetPlan, from: Sql): Sql {
  const written = sql.subquery(sql.clauses(sql`select`, sql`from ${from}`));
  const columns = [sql`null::json`, sql`'0'`, writeReason(rows, target), NULL, NULL, NULL];
  return writeResult(columns, sql`where not exists ${written}`);
}

/** The columns in the order of RESULT. A record has no total, and no headers or status from functions. */
const writeResult = ([body, rows, ...about]: readonly Sql[], from: Sql): Sql =>
  sql`select${sql.lines([body!, rows!, NULL, NULL, NULL, ...about])}${from}`;

/** Why nothing has changed. */
function writeReason({ conditions }: RowsPlan, target: TargetPlan): Sql {
  const stale = sql`when not ${writeExists(target)} then 'stale'`;
  return sql.clauses(
    sql`case when not ${writeExists({ ...target, conditions })} then 'missing'`,
    ...(target.conditions.length === conditions.length ? [] : [stale]),
    sql`else 'forbidden' end`,
  );
}

/** The reason why a list has no rows: its parent does not exist. */
export const writeMissing = (parent: TargetPlan): Sql => sql`case when not ${writeExists(parent)} then 'missing' end`;

/** Whether the caller may see the row. */
export function writeExists({ table, conditions }: TargetPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(table, aliases);
  const rows = sql`from ${from.item}${writeWhere({ conditions, embeds: [] }, from, aliases)}`;
  return sql`exists ${sql.subquery(sql.clauses(sql`select`, rows))}`;
}

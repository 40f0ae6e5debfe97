import type { Column } from "../../../db/catalog/catalog.ts";
import { type Sql, sql } from "../../sql.ts";
import type { Command, ConditionPlan, RowsPlan } from "../../table/plan.ts";
import { writeChange, writeCommand } from "../../table/write/changes.ts";
import { Aliases, type From, tableAs } from "../../table/write/from.ts";
import { writeRead } from "../../table/write/query.ts";
import { writeList, writeWhere } from "../../table/write/rows.ts";
import type { Scope } from "../../table/write/values.ts";
import type { DeletePlan, RecordPlan, ResourcePlan, TargetPlan } from "../plan.ts";

/** The statements of a plan, which are one transaction: most plans have one. */
export function writePlan(plan: ResourcePlan): readonly Sql[] {
  switch (plan.kind) {
    case "list": {
      const reason = plan.parent && sql`case when not ${writeExists(plan.parent)} then 'missing' end`;
      return [writeRead(plan.read, null, reason ? [reason] : [])];
    }
    case "read":
      return [writeFound(plan.record)];
    case "create":
      return [writeChanged(plan.command, plan.record, sql`'missing'`)];
    case "create many":
      return [writeChange(plan.insert, null)];
    case "update":
      return [writeChanged(plan.command, plan.record, writeReason(plan.record))];
    case "delete":
      return [...(plan.cascade.length > 0 ? [writeLock(plan.record)] : []), writeDelete(plan)];
    case "act":
      // The row that a function returns has no version.
      return [writeAct(plan), writeFound(plan.record)];
  }
}

/** No row where there is no record. */
function writeFound(record: RecordPlan): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const from = tableAs(record.table, scope);
  const where = writeWhere(record.rows, { item: from, scope, join: null }, aliases);
  return sql`${writeRecord(record, from, scope, aliases, metadataOf(record, scope))}${where}`;
}

/** The record as it was written, or the reason why there is none. */
function writeChanged(command: Command, record: RecordPlan, reason: Sql): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const written = sql`${scope.alias}.*, ${record.version(scope)} as xmin`;
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${written}`);
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}`,
    writeRecord(record, sql`changed as ${scope.alias}`, scope, aliases, metadataOf(record, scope)),
    sql`union all`,
    writeNoRecord(reason, sql`changed`),
  );
}

/**
 * From here on no row can refer to the record: who tries waits, and is refused once it is gone. A statement of its own, so
 * that the next one sees all rows that were written before.
 */
function writeLock({ table, rows }: RecordPlan): Sql {
  const aliases = new Aliases();
  const from = { item: sql.empty, scope: aliases.scope(), join: null };
  const found = sql`from ${tableAs(table, from.scope)}${writeWhere(rows, from, aliases)}`;
  return sql.clauses(sql`select`, found, sql`for update`);
}

function writeDelete({ command, record, cascade }: DeletePlan): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const { key } = record;
  const cascades = cascade.map(({ table, column }, i) => {
    const other = sql.identifier(table.schema, table.name);
    const deletion = sql.clauses(
      sql`delete from ${other} as other`,
      sql`using changed`,
      sql`where ${sql.identifier("other", column)} = ${sql.identifier("changed", key.name)}`,
    );
    return sql`, ${sql.trusted(`cascade_${i}`)} as ${sql.subquery(deletion)}`;
  });
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${columnIn(key, scope)}`);
  const reason = sql`case when count(*) = 0 then ${writeReason(record)} end`;
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}${sql.join(cascades, "")}`,
    writeResult([sql`null::json`, sql`count(*)::text`, reason], sql`from changed`),
  );
}

/** The function raises what is wrong; it is not called for a row whose preconditions do not hold. */
function writeAct({ function: called, record }: Extract<ResourcePlan, { kind: "act" }>): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const call = sql`lateral ${sql.identifier(called.schema, called.name)}(meant.key) as ${scope.alias}`;
  const key = sql`${columnIn(record.key, scope)} as key`;
  const meant = sql.clauses(sql`select ${key}`, sql`from ${writeTarget(record, scope, aliases)}`);
  return sql.clauses(
    sql`with meant as ${sql.subquery(meant)}`,
    writeRecord(record, sql`meant, ${call}`, scope, aliases, NO_METADATA),
    sql`union all`,
    writeNoRecord(writeReason(record), sql`meant`),
  );
}

const NULL = sql`null::text`;

/** What is said about a record besides its fields. */
type Metadata = { readonly version: Sql; readonly modified: Sql };

export const metadataOf = ({ version, modified }: RecordPlan, row: Scope): Metadata => ({
  version: version(row),
  modified: modified(row),
});

export const NO_METADATA: Metadata = { version: NULL, modified: NULL };

/** One record out of `from`, which gives one row at most. */
export function writeRecord(record: RecordPlan, from: Sql, scope: Scope, aliases: Aliases, metadata: Metadata): Sql {
  const { rows, key } = record;
  const about = [sql`${columnIn(key, scope)}::text`, metadata.version, metadata.modified];
  const shown = sql.subquery(sql`select ${writeList(rows, scope, aliases)}`);
  const columns = [sql`pg_catalog.row_to_json(r.*)`, sql`'1'`, NULL, ...about];
  return writeResult(columns, sql`from ${from}, lateral ${shown} as r`);
}

/** The row that is returned when there is none in the query `from`. */
export const writeNoRecord = (reason: Sql, from: Sql): Sql => {
  const none = sql.subquery(sql.clauses(sql`select`, sql`from ${from}`));
  return writeResult([sql`null::json`, sql`'0'`, reason, NULL, NULL, NULL], sql`where not exists ${none}`);
};

/** The columns of a result: a record has no total, and functions set no headers for it. */
export const writeResult = ([body, rows, ...about]: readonly Sql[], from: Sql): Sql =>
  sql`select${sql.lines([body!, rows!, NULL, NULL, NULL, ...about])}${from}`;

export const columnIn = ({ name }: Column, { alias }: Scope): Sql => sql`${alias}.${sql.identifier(name)}`;

/** Why a change has changed nothing. */
export function writeReason({ table, rows, preconditions }: RecordPlan): Sql {
  const found = (conditions: readonly ConditionPlan[]) => writeExists({ table, conditions });
  const stale = sql`when not ${found([...rows.conditions, ...preconditions])} then 'stale'`;
  return sql.clauses(
    sql`case when not ${found(rows.conditions)} then 'missing'`,
    ...(preconditions.length === 0 ? [] : [stale]),
    sql`else 'forbidden' end`,
  );
}

/** Whether the caller sees the row. */
export function writeExists({ table, conditions }: TargetPlan): Sql {
  const aliases = new Aliases();
  const from: From = { item: sql.empty, scope: aliases.scope(), join: null };
  const item = tableAs(table, from.scope);
  const found = sql`from ${item}${writeWhere({ ...NO_ROWS, conditions }, from, aliases)}`;
  return sql`exists ${sql.subquery(sql.clauses(sql`select`, found))}`;
}

const NO_ROWS: RowsPlan = {
  source: { table: null, columns: null },
  outputs: [],
  embeds: [],
  conditions: [],
  order: [],
  limit: null,
  offset: 0,
  isGrouped: false,
};

/** `from "public"."users" as t where …`, without the keyword: the row that a record names, under its preconditions. */
export function writeTarget({ table, rows, preconditions }: RecordPlan, scope: Scope, aliases: Aliases): Sql {
  const from: From = { item: tableAs(table, scope), scope, join: null };
  const conditions = [...rows.conditions, ...preconditions];
  return sql`${from.item}${writeWhere({ ...rows, conditions }, from, aliases)}`;
}

import type { Column } from "../../../db/catalog/catalog.ts";
import { type Sql, sql } from "../../sql.ts";
import type { ConditionPlan, RowsPlan } from "../../table/plan.ts";
import { Aliases, type From, tableAs } from "../../table/write/from.ts";
import { writeList, writeWhere } from "../../table/write/rows.ts";
import type { Scope } from "../../table/write/values.ts";
import type { RecordPlan, TargetPlan } from "../plan.ts";

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

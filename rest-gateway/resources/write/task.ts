import { writeCommand, writeSources } from "../../../db/query/changes.ts";
import type { InsertCommand, ReadPlan, RowsPlan } from "../../../db/query/plan.ts";
import { Aliases, type From, fromTable, writeList, writeOrder, writeRows, writeWhere } from "../../../db/query/rows.ts";
import { type Sql, sql } from "../../../db/sql.ts";
import { writeValue } from "./expressions.ts";

/** Creates records and stores them in the result of the task; `task` is the index of its id in the values. */
export function writeImport(command: InsertCommand, rows: RowsPlan, task: number): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const from: From = { item: sql`changed as ${scope.alias}`, scope, join: null };
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${writeSources(rows, scope)}`);
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}`,
    sql`select ${keep(task, sql`coalesce(pg_catalog.json_agg(r.*), '[]'::json)`)}`,
    sql`from ${sql.subquery(writeRows(rows, from, aliases))} as r`,
  );
}

/** Stores a part without records, so that the result is an array even if the list is empty. */
export const writeNoRecords = (task: number): Sql => sql`select ${keep(task, sql`'[]'::json`)}`;

/** Records in a part of a result. */
const PAGE_SIZE = 2000;

/** Reads and stores a list page by page, so that a list that is too large ends early. */
export function writePages({ table, rows }: ReadPlan, task: number): Sql {
  const aliases = new Aliases();
  const from = fromTable(table, aliases);
  const { scope } = from;
  const place = sql`row_number() over (${writeOrder(rows.order, scope, aliases)}) as ${PLACE}`;
  const page = sql`(${scope.alias}.${PLACE} - 1) / ${sql.integer(PAGE_SIZE)}`;
  // In the aggregate and not in FROM, so that records are formatted page by page, after sorting.
  const record = sql`(select pg_catalog.row_to_json(r.*) from (select ${writeList(rows, scope, aliases)}) as r)`;
  // The order keeps Postgres from hashing, which would need all rows before the first page.
  const part = sql`pg_catalog.json_agg(${record} order by ${scope.alias}.${PLACE})`;
  const placed = sql.clauses(
    sql`select ${writeSources(rows, scope)}, ${place}`,
    sql`from ${from.item}${writeWhere(rows, from, aliases)}`,
  );
  return sql.clauses(
    sql`select ${keep(task, part)}`,
    sql`from ${sql.subquery(placed)} as ${scope.alias}`,
    sql`group by ${page}`,
    sql`order by ${page}`,
  );
}

/** No column has this name. */
const PLACE = sql.identifier("place in the list");

const keep = (task: number, part: Sql): Sql => sql`tasks.keep_result(${writeValue(task)}::uuid, ${part})::text`;

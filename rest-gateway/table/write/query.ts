import { finish, type Sql, sql } from "../../sql.ts";
import type { Count, Plan, ReadPlan, RowsPlan } from "../plan.ts";
import type { Query } from "../query.ts";
import { writeCall } from "./call.ts";
import { writeChange } from "./changes.ts";
import { Aliases, type From, tableAs } from "./from.ts";
import { writeBody, writeGuardedCount, writeResult } from "./result.ts";
import { writeLimit, writeRows, writeWhere } from "./rows.ts";

/** `postgis` is the schema of PostGIS; null when it is not installed. */
export function writeQuery(plan: Plan, postgis: string | null): Query {
  const estimate = plan.kind === "read" ? writeEstimate(plan) : null;
  return { main: finish(explained(plan, writePlan(plan, postgis))), estimate: estimate && finish(estimate) };
}

function writePlan(plan: Plan, postgis: string | null): Sql {
  switch (plan.kind) {
    case "read":
      return writeRead(plan, postgis, [sql`pg_catalog.pg_current_snapshot()::text`]);
    case "call":
      return writeCall(plan, postgis);
    default:
      return writeChange(plan, postgis);
  }
}

function explained({ format: { explain } }: Plan, query: Sql): Sql {
  if (!explain) return query;
  const options = [`format ${explain.isJson ? "json" : "text"}`, ...explain.options];
  return sql`explain (${sql.trusted(options.join(", "))})${sql.line}${query}`;
}

/** `more` are additional columns of the result. */
export function writeRead(plan: ReadPlan, postgis: string | null, more: readonly Sql[] = []): Sql {
  const aliases = new Aliases();
  const rows = writeRows(plan.rows, fromTable(plan, aliases), aliases);
  return writeResult(plan, {
    body: plan.isBodiless ? sql`null::json` : writeBody(plan.format, plan.rows, postgis),
    rows: writeGuardedCount(plan),
    total: writeTotal(plan.count, plan.rows, () => {
      const counted = new Aliases();
      return { from: fromTable(plan, counted), aliases: counted };
    }),
    more,
    from: sql`from ${sql.subquery(rows)} as r`,
  });
}

/** The EXPLAIN that estimates the number of rows; null if no estimate is needed. */
function writeEstimate(plan: ReadPlan): Sql | null {
  if (plan.count === null || plan.count.kind === "exact") return null;
  const aliases = new Aliases();
  return sql`explain (format json)${sql.line}${writeAllRows(plan.rows, fromTable(plan, aliases), aliases)}`;
}

/** The total number of rows, which a separate subquery counts. */
function writeTotal(
  count: Count | null,
  rows: RowsPlan,
  start: () => { readonly from: From; readonly aliases: Aliases },
): Sql | null {
  if (count === null || count.kind === "planned") return null;
  const { from, aliases } = start();
  const all = writeAllRows(rows, from, aliases);
  const exactUpTo = count.kind === "estimated" ? count.exactUpTo : null;
  // One row beyond the exact limit shows that the planner's estimate is needed.
  const limited = exactUpTo === null ? all : sql`${all}${writeLimit(exactUpTo + 1, 0)}`;
  const counted = sql.subquery(sql`select count(*)::text${sql.line}from ${sql.subquery(limited)} as c`);
  return exactUpTo === null ? unlessOnPage(rows, counted) : counted;
}

/** A page that is not full is the last one: its rows give the total without another query. */
function unlessOnPage({ limit, offset }: RowsPlan, counted: Sql): Sql {
  if (limit === null && offset === 0) return sql`count(*)::text`;
  const isLast = [
    ...(limit === null ? [] : [sql`count(*) < ${sql.integer(limit)}`]),
    ...(offset === 0 ? [] : [sql`count(*) > 0`]),
  ];
  const own = offset === 0 ? sql`count(*)` : sql`(${sql.integer(offset)} + count(*))`;
  return sql`case when ${sql.join(isLast, " and ")} then ${own}::text else ${counted} end`;
}

function writeAllRows(rows: RowsPlan, from: From, aliases: Aliases): Sql {
  if (!rows.isGrouped) return sql`select${sql.line}from ${from.item}${writeWhere(rows, from, aliases)}`;
  return writeRows({ ...rows, order: [], limit: null, offset: 0 }, from, aliases);
}

function fromTable({ table }: ReadPlan, aliases: Aliases): From {
  const scope = aliases.scope();
  return { item: tableAs(table, scope), scope, join: null };
}

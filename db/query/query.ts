import { finish, type Sql, sql, type Written } from "../sql.ts";
import type { Result } from "../transaction/transaction.ts";
import { isCounted, writeCall, writeCallRows } from "./call.ts";
import { writeChange } from "./changes.ts";
import { type Count, mayHideRows, type Plan, type ReadPlan, type RowsPlan } from "./plan.ts";
import { csvLine, SNAPSHOT, writeBody, writeGuardedCount, writeResult, writeStreamedRow } from "./result.ts";
import { Aliases, type From, fromTable, namesOf, writeLimit, writeRows, writeWhere } from "./rows.ts";

/** The SQL of a plan. The main statement returns one row, with the finished body, in the columns of `RESULT`. */
export type Query = {
  /** A statement that `main` must see the result of; absent for most. */
  readonly first?: Written | undefined;
  readonly main: Written;
  /** A second statement, for a planned or estimated count; null without one. */
  readonly estimate: Written | null;
  /** The statements that stream the result instead of `main`; null for results that are not streamed. */
  readonly stream: StreamQuery | null;
  /** Whether Postgres keeps it from writing: functions that are stable or immutable cannot write. */
  readonly isRead: boolean;
  /** Whether its transaction is read-only, and the size of its result limited. */
  readonly isReadOnly: boolean;
};

export type StreamQuery = {
  /** Returns each row as text. */
  readonly rows: Written;
  /** Returns what `main` returns, without the body. */
  readonly head: Written;
  /** The text before the first row. */
  readonly start: string;
};

/** A plan and its SQL, without the values of a request, and the transaction that it runs in. */
export type PlannedQuery = {
  readonly plan: Plan;
  readonly query: Query;
  readonly isolation: "repeatable read" | "serializable" | null;
  /** Whether the transaction is rolled back at the end. */
  readonly isRolledBack: boolean;
};

/** The results of the statements. */
export type QueryResult = {
  readonly first?: Result | undefined;
  readonly main: Result;
  readonly estimate: Result | null;
};

/** `postgis` is the schema of PostGIS; null when it is not installed. */
export function writeQuery(plan: Plan, postgis: string | null): Query {
  const estimate = plan.kind === "read" ? writeEstimate(plan) : null;
  const main = finish(explained(plan, writePlan(plan, postgis)));
  return {
    main,
    estimate: estimate && finish(estimate),
    stream: writeStream(plan),
    isRead: plan.kind === "read" || (plan.kind === "call" && plan.function.volatility !== "volatile"),
    isReadOnly: plan.kind === "read" || (plan.kind === "call" && plan.isReadOnly),
  };
}

/**
 * The statements that stream a list as CSV or JSON lines; null for other results. These formats have no closing text, so each row
 * can be sent before the next one is read.
 */
function writeStream(plan: Plan): StreamQuery | null {
  const { format } = plan;
  if ((format.kind !== "csv" && format.kind !== "lines") || format.explain) return null;
  if ((plan.kind !== "read" && plan.kind !== "call") || plan.isBodiless || plan.rows === null) return null;
  if (plan.kind === "call" && (!plan.isReadOnly || isCounted(plan))) return null;
  // The rows of a stream are not known when its total is sent.
  const total =
    plan.kind === "read" && plan.count && plan.count.kind !== "planned" ? writeCount(plan, plan.count) : null;
  const head = writeResult(plan, { body: sql`null::json`, rows: sql`null::text`, total, from: sql.empty });
  return {
    rows: finish(plan.kind === "read" ? writeReadRows(plan) : writeCallRows(plan, plan.rows)),
    head: finish(head),
    start: format.kind === "csv" ? csvLine(namesOf(plan.rows)) : "",
  };
}

function writeReadRows(plan: ReadPlan): Sql {
  const aliases = new Aliases();
  const rows = sql.subquery(writeRows(plan.rows, fromTable(plan.table, aliases), aliases));
  return sql`select ${writeStreamedRow(plan.format, sql`r.*`)}${sql.line}from ${rows} as r`;
}

function writePlan(plan: Plan, postgis: string | null): Sql {
  switch (plan.kind) {
    case "read":
      return writeRead(plan, postgis, [SNAPSHOT]);
    case "call":
      return writeCall(plan, postgis);
    default:
      return writeChange(plan, postgis);
  }
}

function explained(plan: Plan, query: Sql): Sql {
  const { explain } = plan.format;
  if (!explain) return query;
  const named = mayHideRows(plan)
    ? ["costs off", ...explain.options.filter((option) => !MEASURES.has(option))]
    : explain.options;
  const options = [`format ${explain.isJson ? "json" : "text"}`, ...named];
  return sql`explain (${sql.trusted(options.join(", "))})${sql.line}${query}`;
}

/** The options that show how many rows the plan reads, those that are hidden from the caller included. */
const MEASURES: ReadonlySet<string> = new Set(["analyze", "buffers", "wal"]);

/** `more` are additional columns of the result. */
export function writeRead(plan: ReadPlan, postgis: string | null, more: readonly Sql[] = []): Sql {
  const aliases = new Aliases();
  const rows = writeRows(plan.rows, fromTable(plan.table, aliases, plan.isAlone), aliases);
  return writeResult(plan, {
    body: plan.isBodiless ? sql`null::json` : writeBody(plan.format, plan.rows, postgis),
    rows: writeGuardedCount(plan),
    total: writeTotal(plan),
    more,
    from: sql`from ${sql.subquery(rows)} as r`,
  });
}

/** The EXPLAIN that estimates the number of rows; null if no estimate is needed. */
function writeEstimate(plan: ReadPlan): Sql | null {
  if (plan.count === null || plan.count.kind === "exact") return null;
  const aliases = new Aliases();
  return sql`explain (format json)${sql.line}${writeAllRows(plan.rows, fromTable(plan.table, aliases), aliases)}`;
}

/** The total number of rows, which a separate subquery counts. */
function writeTotal(plan: ReadPlan): Sql | null {
  const { count, rows } = plan;
  if (count === null || count.kind === "planned") return null;
  const counted = writeCount(plan, count);
  const isLimited = count.kind === "estimated" && count.exactUpTo !== null;
  return isLimited ? counted : unlessOnPage(rows, counted);
}

function writeCount({ table, rows }: ReadPlan, count: Count): Sql {
  const aliases = new Aliases();
  const all = writeAllRows(rows, fromTable(table, aliases), aliases);
  const exactUpTo = count.kind === "estimated" ? count.exactUpTo : null;
  // One row beyond the exact limit shows that the planner's estimate is needed.
  const limited = exactUpTo === null ? all : sql`${all}${writeLimit(exactUpTo + 1, 0)}`;
  return sql.subquery(sql`select count(*)::text${sql.line}from ${sql.subquery(limited)} as c`);
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

import type { Filter } from "../../db/filters/condition.ts";
import { OPERATORS } from "../../db/filters/operators.ts";
import { finish, type Sql, sql } from "../../db/sql.ts";
import type { Read } from "../../db/transaction/unreadable.ts";
import type { ConditionPlan, FieldPlan, Plan, RowSource, RowsPlan } from "./plan.ts";
import type { TableRequest } from "./request.ts";
import { writeStatement } from "./run.ts";
import { writeArgumentsApart } from "./write/call.ts";
import { writeConditions } from "./write/conditions.ts";
import { Aliases, type From, fromTable } from "./write/scope.ts";

/** What reads one value of a request: the name of an argument, or the path of a column, such as `tasks.due`. */
type Part = {
  readonly column: string;
  readonly query: Sql;
  /** If the value is a single one: its index in the request, and its type. */
  readonly value: { readonly index: number; readonly type: string } | null;
};

/** Reads the value of each argument of a function and of each filter, apart from the others. They return no rows. */
export function readsOfQuery(plan: Plan, request: TableRequest): readonly Read[] {
  const parts = [...argumentsOf(plan), ...filtersOf(plan)];
  return parts.map(({ column, query, value }) => ({
    ...{ column, statement: writeStatement(finish(query), request) },
    value: value && { type: value.type, text: request.values[value.index]! },
  }));
}

const argumentsOf = (plan: Plan): readonly Part[] =>
  plan.kind === "call"
    ? writeArgumentsApart(plan.arguments).map(([column, query]) => ({ column, query, value: null }))
    : [];

function filtersOf(plan: Plan): readonly Part[] {
  if (plan.kind === "read" || plan.kind === "call") return plan.rows ? filtersIn(plan.rows, []) : [];
  const own = plan.kind === "insert" ? [] : filtersAmong(plan.conditions, tableSource(plan), []);
  return [...own, ...(plan.representation ? filtersIn(plan.representation, []) : [])];
}

const tableSource = ({ table }: Extract<Plan, { kind: "update" | "delete" }>): RowSource => ({
  table,
  columns: table.columns,
});

/** `path` are the names of the relations that the rows are embedded in. */
const filtersIn = ({ source, conditions, embeds }: RowsPlan, path: readonly string[]): readonly Part[] => [
  ...filtersAmong(conditions, source, path),
  ...embeds.flatMap(({ name, rows }) => filtersIn(rows, [...path, name])),
];

const filtersAmong = (
  conditions: readonly ConditionPlan[],
  source: RowSource,
  path: readonly string[],
): readonly Part[] =>
  conditions.flatMap((condition) => {
    if (condition.kind === "logic") return filtersAmong(condition.conditions, source, path);
    if (condition.kind !== "filter" || condition.keyword !== null) return [];
    return [
      {
        ...{ column: [...path, nameOf(condition.field)].join("."), query: writeApart(condition, source) },
        value: comparedValue(condition),
      },
    ];
  });

/** The value of an operator that compares it with the column. */
function comparedValue({ field, operator, quantifier, value }: Filter<FieldPlan>): Part["value"] {
  const { origin, path } = field;
  const isCompared = "compare" in OPERATORS[operator] && quantifier === null && path.length === 0;
  return isCompared && origin.kind === "column" ? { index: value, type: origin.column.type } : null;
}

const nameOf = ({ origin }: FieldPlan): string =>
  origin.kind === "column" ? origin.column.name : origin.computed.name;

function writeApart(condition: ConditionPlan, source: RowSource): Sql {
  const from = fromSource(source);
  return sql`select from ${from.item} where ${writeConditions([condition], from.scope, () => sql`true`)!} limit 0`;
}

/** The rows of a function that do not belong to a table are a row of nulls with the same columns. */
function fromSource({ table, columns }: RowSource): From {
  const aliases = new Aliases();
  if (table) return fromTable(table, aliases);
  const nulls = [...columns!.values()].map(
    ({ name, type }) => sql`null::${sql.trusted(type)} as ${sql.identifier(name)}`,
  );
  const scope = aliases.scope();
  return { item: sql`(select ${sql.join(nulls, ", ")}) as ${scope.alias}`, scope, join: null };
}

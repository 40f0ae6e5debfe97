import type { FunctionArgument } from "../catalog/catalog.ts";
import { type Sql, sql } from "../sql.ts";
import { isHstore, writeHstore } from "./hstore.ts";
import { type CallArguments, type CallPlan, type RowsPlan, type Scope, VALUE } from "./plan.ts";
import {
  SNAPSHOT,
  stripped,
  writeBody,
  writeCsv,
  writeGuardedCount,
  writeJsonLine,
  writeResult,
  writeStreamedRow,
} from "./result.ts";
import { Aliases, type From, writeRows, writeWhere } from "./rows.ts";

/** The call of a function, and the FROM item that contains its arguments, if there is one. */
type Called = { readonly call: Sql; readonly arguments: Sql | null };

export function writeCall(plan: CallPlan, postgis: string | null): Sql {
  const called = writeCalled(plan);
  if (plan.rows) return writeSet(plan, plan.rows, called, postgis);
  return plan.function.returns.kind === "void" ? writeVoid(plan, called) : writeValue(plan, called);
}

/** Rows or a set of values, which can be filtered, ordered and paged like a table. */
function writeSet(plan: CallPlan, rows: RowsPlan, called: Called, postgis: string | null): Sql {
  const aliases = new Aliases();
  const { from, item } = fromCall(plan, rows, called, aliases);
  const counted = isCounted(plan);
  const every = sql`select${sql.line}from ${from.item}${writeWhere(rows, from, aliases)}`;
  const result = writeResult(plan, {
    body: plan.isBodiless ? sql`null::json` : writeSetBody(plan, rows, postgis),
    rows: writeGuardedCount(plan),
    total: counted ? sql.subquery(sql`select count(*)::text${sql.line}from ${sql.subquery(every)} as c`) : null,
    more: moreOf(plan),
    from: sql`from ${sql.subquery(writeRows(rows, from, aliases))} as r`,
  });
  if (!counted) return result;
  const all = sql.subquery(sql`select ${from.scope.alias}.*${sql.line}from ${item}`);
  return sql`with called as materialized ${all}${sql.line}${result}`;
}

/** The rows of a call, each as text, for a stream. */
export function writeCallRows(plan: CallPlan, rows: RowsPlan): Sql {
  const aliases = new Aliases();
  const { from } = fromCall(plan, rows, writeCalled(plan), aliases);
  const text = writeStreamedRow(plan.format, isSetOfValues(plan) ? VALUE_OF_ROW : sql`r.*`);
  return sql`select ${text}${sql.line}from ${sql.subquery(writeRows(rows, from, aliases))} as r`;
}

/** `item` is the call itself. */
function fromCall(plan: CallPlan, rows: RowsPlan, called: Called, aliases: Aliases): { from: From; item: Sql } {
  const scope = aliases.scope();
  const item = sql`${itemOf(plan, called)} as ${scope.alias}`;
  const isSet = "isSet" in plan.function.returns && plan.function.returns.isSet;
  const counted = isCounted(plan);
  const from: From = {
    // A function that may write must not run twice: for the page and for the total.
    item: counted ? sql`called as ${scope.alias}` : item,
    scope: counted || isOneRow(plan) ? { ...scope, row: rowOf(rows, scope) } : scope,
    join: isSet || isOneRow(plan) ? null : sql`not (${scope.row} is null)`,
  };
  return { from, item };
}

export const isCounted = ({ count }: CallPlan) => count !== null && count.kind !== "planned";

/**
 * Scalar functions are called in the select list, where Postgres stops at LIMIT and a `record` needs no column list. So are those of one
 * row: in FROM, NULL becomes a row of nulls. With OFFSET it is called once.
 */
function itemOf(plan: CallPlan, called: Called): Sql {
  const { returns } = plan.function;
  if (isOneRow(plan))
    return sql.subquery(
      sql`select (c.${NAME}).*${sql.line}from ${sql.subquery(sql`${selected(called)} offset 0`)} as c where c.${NAME} is distinct from null`,
    );
  return returns.kind === "scalar" || returns.kind === "record" ? sql.subquery(selected(called)) : inFrom(called);
}

/** Without those that may have one OUT argument, whose type is that of its value. */
const isOneRow = ({ function: { returns } }: CallPlan) =>
  !("isSet" in returns && returns.isSet) &&
  (returns.kind === "table" || (returns.kind === "composite" && returns.columns.size > 1));

/** Rows of a `with` query no longer have the type of the table. */
const rowOf = ({ source: { table } }: RowsPlan, { alias, row }: Scope): Sql =>
  table ? sql`row(${alias}.*)::${sql.identifier(table.schema, table.name)}` : row;

function writeSetBody(plan: CallPlan, rows: RowsPlan, postgis: string | null): Sql {
  const { format } = plan;
  if (format.kind === "lines" && isSetOfValues(plan))
    return sql`coalesce(string_agg(${writeJsonLine(VALUE_OF_ROW)}, ''), '')`;
  if (format.kind !== "scalar") return writeBody(format, rows, postgis);
  const list = sql`pg_catalog.json_agg(r.${NAME})`;
  return stripped(format, format.isSingular ? sql`${list} -> 0` : sql`coalesce(${list}, '[]'::json)`);
}

/** HEAD evaluates the value too: Postgres would not run a function whose result is unused. */
function writeValue(plan: CallPlan, called: Called): Sql {
  return writeResult(plan, {
    body: writeValueBody(plan),
    rows: ONE,
    total: isCounted(plan) ? ONE : null,
    more: moreOf(plan),
    from: sql`from ${sql.subquery(selected(called))} as r`,
  });
}

function writeValueBody({ format, function: { returns } }: CallPlan): Sql {
  if (format.kind === "csv") return writeCsv([VALUE]);
  if (format.kind === "lines") return writeJsonLine(VALUE_OF_ROW);
  if (format.kind === "raw" && "shape" in returns)
    return sql`r.${NAME}::${returns.shape.name === "bytea" ? sql`bytea` : sql`text`}`;
  return stripped(format, sql`coalesce(pg_catalog.to_json(r.${NAME}), 'null'::json)`);
}

/** A set of void has no rows, or several. */
function writeVoid(plan: CallPlan, called: Called): Sql {
  const from = sql`from ${sql.subquery(sql`select count(*)${sql.line}from ${inFrom(called)}`)} as r`;
  return writeResult(plan, { body: sql`null::json`, rows: ONE, total: isCounted(plan) ? ONE : null, from });
}

/** The queries of a function that is not volatile see what the statement sees. */
const moreOf = ({ function: { volatility } }: CallPlan): Sql[] => (volatility === "volatile" ? [] : [SNAPSHOT]);

const ONE = sql`'1'`;
const NAME = sql.identifier(VALUE);
const VALUE_OF_ROW = sql`r.${NAME}`;
const isSetOfValues = ({ function: { returns } }: CallPlan) => returns.kind === "scalar" || returns.kind === "record";

const selected = ({ call, arguments: given }: Called): Sql =>
  given ? sql`select ${call} as ${NAME}${sql.line}from ${given}` : sql`select ${call} as ${NAME}`;

const inFrom = ({ call, arguments: given }: Called): Sql => (given ? sql`${given}, lateral ${call}` : call);

function writeCalled({ function: { schema, name, arguments: all }, arguments: given }: CallPlan): Called {
  const [list, before] = writeArguments(given, all);
  return { call: sql`${sql.identifier(schema, name)}(${list})`, arguments: before };
}

const BODY = sql.parameter({ kind: "body" });

function writeArguments(given: CallArguments, all: readonly FunctionArgument[]): [list: Sql, before: Sql | null] {
  if (given.kind === "whole") return [writeWhole(given), null];
  if (given.kind === "named") {
    const values = given.values.map((each) => [each.argument, writeGiven(each)] as const);
    return [writeList(values, all), null];
  }
  if (given.arguments.length === 0) return [sql.empty, null];
  const isRepeatable = ({ isVariadic }: FunctionArgument) => given.isForm && isVariadic;
  const definitions = given.arguments.map((argument) => {
    const type = isRepeatable(argument) || isHstore(argument.shape) ? sql`json` : sql.trusted(argument.type);
    return sql`${sql.identifier(argument.name)} ${type}`;
  });
  const list = given.arguments.map((argument) => {
    const value = sql`a.${sql.identifier(argument.name)}`;
    if (isRepeatable(argument)) return [argument, writeRepeatable(argument, value)] as const;
    return [argument, isHstore(argument.shape) ? writeHstore(value, argument.shape) : value] as const;
  });
  const object = given.isArray ? sql`${BODY}::json -> 0` : sql`${BODY}::json`;
  return [writeList(list, all), sql`json_to_record(${object}) as a(${sql.join(definitions, ", ")})`];
}

function writeGiven({ argument: { isVariadic, type }, values }: Given): Sql {
  const parameter = isVariadic
    ? sql.parameter({ kind: "values", indexes: values })
    : sql.parameter({ kind: "value", index: values.at(-1)! });
  return sql`${parameter}::${sql.trusted(type)}`;
}

type Given = Extract<CallArguments, { kind: "named" }>["values"][number];

/** Text that is cast to bytea would be read as an escape format. */
function writeWhole({ argument: { type, shape }, isJson }: Extract<CallArguments, { kind: "whole" }>): Sql {
  return isJson && shape.name === "bytea" ? sql`convert_to(${BODY}::text, 'UTF8')` : sql`${BODY}::${sql.trusted(type)}`;
}

/** `words=a` and `words=a&words=b` → an array of text, which is cast to the type of the argument. */
function writeRepeatable({ type }: FunctionArgument, value: Sql): Sql {
  const values = sql`case json_typeof(${value}) when 'array' then ${value} else json_build_array(${value}) end`;
  return sql`array(select json_array_elements_text(${values}))::${sql.trusted(type)}`;
}

/** By name, and with the defaults of a variadic function, whose variadic argument comes last. */
function writeList(values: readonly (readonly [FunctionArgument, Sql])[], all: readonly FunctionArgument[]): Sql {
  const absent = all.filter((each) => each.defaultText !== null && values.every(([{ name }]) => name !== each.name));
  const defaults = absent.map((each) => [each, sql.trusted(each.defaultText!)] as const);
  const list = [...defaults, ...values]
    .toSorted(([a], [b]) => Number(a.isVariadic) - Number(b.isVariadic))
    .map(
      ([{ name, isVariadic }, value]) =>
        sql`${isVariadic ? sql`variadic ` : sql.empty}${sql.identifier(name)} => ${value}`,
    );
  return sql.join(list, ", ");
}

import type { ColumnPairs, TableName } from "../catalog/catalog.ts";
import type { Filter } from "../filters/condition.ts";
import type { JsonStep } from "../filters/field.ts";
import { OPERATORS } from "../filters/operators.ts";
import { writeCondition, writeFilter, writeLanguage } from "../filters/write.ts";
import { type Sql, sql } from "../sql.ts";
import {
  type ConditionPlan,
  type EmbedPlan,
  type FieldPlan,
  type OrderPlan,
  type Output,
  type RowSource,
  type RowsPlan,
  type Scope,
  systemColumnsOf,
  type ValuePlan,
} from "./plan.ts";

/** An entry of the select list. */
type SelectEntry = {
  /** Null for `t.*`. */
  readonly name: string | null;
  /** Null for `count()`, which counts rows. */
  readonly value: Sql | null;
  readonly aggregate: ValuePlan["aggregate"];
  readonly isJson: boolean;
};

/** A select list and the joins that it needs. */
type SelectList = { readonly entries: readonly SelectEntry[]; readonly joins: readonly Sql[] };

/**
 * `select … from … where … group by … order by … limit …`. Embedded rows are subqueries in the select list: Postgres runs
 * them after LIMIT, so only for the rows that are returned.
 */
export function writeRows(rows: RowsPlan, from: From, aliases: Aliases): Sql {
  const { entries, joins } = writeSelectList(rows, from, aliases, rows.isGrouped);
  const list = entries.map((each) => named(rows.isGrouped ? writeGrouped(each) : writePlain(each), each.name));
  const groups = rows.isGrouped ? entries.flatMap(({ aggregate }, i) => (aggregate ? [] : [sql.integer(i + 1)])) : [];
  const groupBy = groups.length > 0 ? sql`${sql.line}group by ${sql.join(groups, ", ")}` : sql.empty;
  return writeSelect(list, joins, rows, from, aliases, groupBy);
}

function writeSelect(
  list: readonly Sql[],
  joins: readonly Sql[],
  rows: RowsPlan,
  from: From,
  aliases: Aliases,
  groupBy = sql.empty,
): Sql {
  const source = sql`${from.item}${sql.join(joins, "")}${writeWhere(rows, from, aliases)}${groupBy}`;
  const end = sql`${writeOrder(rows.order, from.scope, aliases)}${writeLimit(rows.limit, rows.offset)}`;
  return sql`select ${sql.join(list, ", ")}${sql.line}from ${source}${end}`;
}

/** The select list of rows that are neither grouped nor spread. */
export function writeList(rows: RowsPlan, scope: Scope, aliases: Aliases): Sql {
  const from: From = { item: sql.empty, scope, join: null };
  const { entries } = writeSelectList(rows, from, aliases, false);
  return sql.join(
    entries.map((each) => named(writePlain(each), each.name)),
    ", ",
  );
}

const named = (value: Sql, name: string | null): Sql =>
  name === null ? value : sql`${value} as ${sql.identifier(name)}`;

const writePlain = ({ value }: SelectEntry): Sql => value ?? sql`1`;

/** An aggregate, or a value to group by: jsonb, because json has no equality operator. */
function writeGrouped(entry: SelectEntry): Sql {
  if (entry.aggregate) return writeAggregate(entry.value, entry.aggregate);
  return entry.isJson ? sql`pg_catalog.to_jsonb(${writePlain(entry)})` : writePlain(entry);
}

/** ` where …`, or nothing. */
export function writeWhere(rows: Pick<RowsPlan, "conditions" | "embeds">, from: From, aliases: Aliases): Sql {
  const own = writeConditions(rows.conditions, from.scope, aliases);
  const inner = rows.embeds.filter(({ isInner }) => isInner).map((embed) => writeExists(embed, from.scope, aliases));
  const all = [from.join, own, ...inner].filter((condition) => condition !== null);
  return all.length === 0 ? sql.empty : sql`${sql.line}where ${sql.join(all, " and ")}`;
}

function writeExists(embed: EmbedPlan, outer: Scope, aliases: Aliases): Sql {
  const from = fromRelation(embed, outer, aliases);
  const { limit, offset } = embed.rows;
  // Any limit above 0 leaves a row, if there is one.
  const limited = writeLimit(limit === 0 ? 0 : null, offset);
  return sql`exists ${sql.subquery(sql`select${sql.line}from ${from.item}${writeWhere(embed.rows, from, aliases)}${limited}`)}`;
}

export function writeLimit(limit: number | null, offset: number): Sql {
  // Literals, because Postgres would plan a statement with a parameter again at each execution.
  const limited = limit === null ? sql.empty : sql`${sql.line}limit ${sql.integer(limit)}`;
  return offset === 0 ? limited : sql`${limited}${sql.line}offset ${sql.integer(offset)}`;
}

/** The names of the output columns, in order. */
export const namesOf = (rows: RowsPlan): string[] =>
  rows.outputs.flatMap((output) => namesOfOutput(output, rows.source));

function namesOfOutput(output: Output, { columns }: RowSource): string[] {
  if (output.kind === "all") return [...columns!.keys()];
  if (output.kind !== "embed") return [output.alias];
  return output.embed.isSpread ? namesOf(output.embed.rows) : [output.embed.name];
}

/** With `isListed`, `t.*` is replaced by the list of columns. */
function writeSelectList(rows: RowsPlan, from: From, aliases: Aliases, isListed: boolean): SelectList {
  const all = rows.outputs.map((output) => writeOutput(output, rows, from, aliases, isListed));
  return { entries: all.flatMap(({ entries }) => entries), joins: all.flatMap(({ joins }) => joins) };
}

function writeOutput(output: Output, rows: RowsPlan, from: From, aliases: Aliases, isListed: boolean): SelectList {
  if (output.kind === "all") return { entries: writeAll(rows, from.scope, isListed), joins: [] };
  if (output.kind === "field") return { entries: [writeFieldEntry(output.alias, output.value, from.scope)], joins: [] };
  if (output.kind === "expression") {
    const entry = { name: output.alias, value: output.value(from.scope), aggregate: null, isJson: false };
    return { entries: [entry], joins: [] };
  }
  const { embed } = output;
  if (embed.isSpread) return writeSpread(embed, from.scope, aliases);
  const value = writeEmbed(embed, from.scope, aliases);
  return { entries: [{ name: embed.name, value, aggregate: null, isJson: true }], joins: [] };
}

const writeFieldEntry = (name: string, value: ValuePlan, scope: Scope): SelectEntry => ({
  name,
  value: writeValue(value, scope),
  aggregate: value.aggregate,
  isJson: isJson(value),
});

function isJson({ field, cast }: ValuePlan): boolean {
  if (field === null || cast !== null) return false;
  const { shape } = field.origin.kind === "column" ? field.origin.column : field.origin.computed;
  return shape.name === "json" && !shape.isArray && field.path.at(-1)?.arrow !== "->>";
}

/** `t.*`, unless a column has a cast to JSON, or `t` has system columns. */
function writeAll(rows: RowsPlan, scope: Scope, isListed: boolean): SelectEntry[] {
  const all = [...rows.source.columns!.values()];
  if (!isListed && systemColumnsOf(rows).length === 0 && !all.some(({ casts }) => casts?.toJson))
    return [{ name: null, value: sql`${scope.alias}.*`, aggregate: null, isJson: false }];
  return all.map((column) => {
    const field = { origin: { kind: "column", column }, path: [] } as const;
    return writeFieldEntry(column.name, { field, cast: null, aggregate: null }, scope);
  });
}

/** The row of a to-one relation as an object or null, the rows of a to-many relation as an array. */
function writeEmbed(embed: EmbedPlan, outer: Scope, aliases: Aliases): Sql {
  const rows = writeRows(limited(embed), fromRelation(embed, outer, aliases), aliases);
  const value = embed.relationship.isToOne
    ? sql`pg_catalog.row_to_json(e.*)`
    : sql`coalesce(pg_catalog.json_agg(e.*), '[]'::json)`;
  return sql.subquery(sql`select ${value}${sql.line}from ${sql.subquery(rows)} as e`);
}

/** To-one relations need no limit if a key of a table guarantees at most one row. */
function limited({ rows, relationship, target }: EmbedPlan): RowsPlan {
  if (!relationship.isToOne || rows.limit === 0) return rows;
  // The key of a table does not guarantee that a view has each row only once.
  const isSure = relationship.kind !== "computed" && (target.kind === "table" || target.kind === "partitioned table");
  return { ...rows, limit: isSure ? null : 1 };
}

/**
 * Adds the columns of a relation to those of the outer rows: a value per column, or an array per column for a to-many
 * relation. Aggregates of these columns range over the outer rows.
 */
function writeSpread(embed: EmbedPlan, outer: Scope, aliases: Aliases): SelectList {
  const { alias } = aliases.scope();
  const from = fromRelation(embed, outer, aliases);
  const { entries, joins } = writeSelectList(embed.rows, from, aliases, true);
  if (entries.length === 0) return { entries, joins: [] };

  const list = entries.map((each) => named(writePlain(each), each.name));
  const rows = writeSelect(list, joins, limited(embed), from, aliases);
  // By position, because two columns may have the same name.
  const columns = entries.map((_, i) => sql.identifier(`s${i + 1}`));
  const { isToOne } = embed.relationship;
  const source = isToOne ? rows : writeArrays(columns, rows);
  return {
    joins: [sql`${sql.line}left join lateral ${sql.subquery(source)} as ${alias}(${sql.join(columns, ", ")}) on true`],
    entries: entries.map((each, i) => ({
      ...each,
      value: sql`${alias}.${columns[i]!}`,
      isJson: each.isJson || !isToOne,
    })),
  };
}

function writeArrays(columns: readonly Sql[], rows: Sql): Sql {
  const lists = columns.map((column) => sql`coalesce(pg_catalog.json_agg(e.${column}), '[]'::json)`);
  return sql`select ${sql.join(lists, ", ")}${sql.line}from ${sql.subquery(rows)} as e(${sql.join(columns, ", ")})`;
}

/** ` order by …`, or nothing. */
export function writeOrder(order: readonly OrderPlan[], scope: Scope, aliases: Aliases): Sql {
  if (order.length === 0) return sql.empty;
  const terms = order.map(({ key, direction, nulls }) => {
    const value = writeOrderKey(key, scope, aliases);
    const directed = direction === null ? value : sql`${value} ${direction === "asc" ? sql`asc` : sql`desc`}`;
    return nulls === null ? directed : sql`${directed} ${nulls === "first" ? sql`nulls first` : sql`nulls last`}`;
  });
  return sql`${sql.line}order by ${sql.join(terms, ", ")}`;
}

function writeOrderKey(key: OrderPlan["key"], scope: Scope, aliases: Aliases): Sql {
  if (key.kind === "output") return sql.identifier(key.name);
  if (key.kind === "position") return sql.integer(key.position);
  if (key.kind === "field") return writeField(key.field, scope);
  const from = fromRelation(key.embed, scope, aliases);
  const where = writeWhere(key.embed.rows, from, aliases);
  return sql.subquery(
    sql`select ${writeField(key.field, from.scope)}${sql.line}from ${from.item}${where}${sql.line}limit 1`,
  );
}

/** Conditions joined by AND; null for none. */
export function writeConditions(conditions: readonly ConditionPlan[], scope: Scope, aliases: Aliases): Sql | null {
  if (conditions.length === 0) return null;
  return sql.join(
    conditions.map((condition) =>
      writeCondition(condition, (each) => {
        if (each.kind === "exists") return writeExists(each.embed, scope, aliases);
        return each.kind === "expression" ? each.holds(scope) : writeComparison(each, scope);
      }),
    ),
    " and ",
  );
}

function writeComparison(filter: Filter<FieldPlan>, scope: Scope): Sql {
  const { field, language } = filter;
  const column = writeField(field, scope);
  const isSearch = OPERATORS[filter.operator].syntax === "language" && !isVector(field);
  const left = isSearch ? sql`pg_catalog.to_tsvector(${writeLanguage(language)}${column})` : column;
  return writeFilter(filter, left, writeOperand(filter));
}

/** Converts the value if its column is of a domain with its own representation. */
function writeOperand({ field, value, operator, quantifier }: Filter<FieldPlan>): Sql {
  const operand = sql.parameter({ kind: "value", index: value });
  const { origin, path } = field;
  const fromText = origin.kind === "column" && path.length === 0 ? origin.column.casts?.fromText : null;
  if (!fromText) return path.length === 0 ? cast(operand, field, { operator, quantifier }) : operand;
  const convert = sql.trusted(fromText);
  if (operator !== "in" && quantifier === null) return sql`${convert}(${operand}::text)`;
  return sql`array(select ${convert}(each) from unnest(${operand}::text[]) as each)`;
}

/** Postgres gives a parameter the type of the column, but compares rows as `record` and `regclass` as `oid`. */
function cast(
  operand: Sql,
  { origin }: FieldPlan,
  { operator, quantifier }: Pick<Filter<FieldPlan>, "operator" | "quantifier">,
): Sql {
  const { category, schema, name, isArray } = origin.kind === "column" ? origin.column.shape : origin.computed.shape;
  const isNamedObject = schema === "pg_catalog" && name.startsWith("reg");
  const isPlain = OPERATORS[operator].pattern === undefined && OPERATORS[operator].syntax !== "language";
  if (isArray || !isPlain || (category !== "composite" && !isNamedObject)) return operand;
  const list = operator === "in" || quantifier !== null ? sql`[]` : sql.empty;
  return sql`${operand}::${sql.identifier(schema, name)}${list}`;
}

function isVector({ origin, path }: FieldPlan): boolean {
  const { shape } = origin.kind === "column" ? origin.column : origin.computed;
  return path.length === 0 && shape.name === "tsvector" && !shape.isArray;
}

/** A FROM item, and the condition that joins it. */
export type From = { readonly item: Sql; readonly scope: Scope; readonly join: Sql | null };

/** Unique aliases for the tables of a statement: t, t1, t2 … */
export class Aliases {
  #next = 0;
  scope(): Scope {
    const alias = sql.trusted(this.#next === 0 ? "t" : `t${this.#next}`);
    this.#next++;
    return { alias, row: sql`${alias}.*` };
  }
}

export const tableAs = ({ schema, name }: TableName, { alias }: Scope): Sql =>
  sql`${sql.identifier(schema, name)} as ${alias}`;

export function fromTable(table: TableName, aliases: Aliases, isAlone = false): From {
  const scope = aliases.scope();
  const all = tableAs(table, scope);
  return { item: isAlone ? sql`only ${all}` : all, scope, join: null };
}

/** The rows of a relation that belong to a row of `outer`. */
function fromRelation({ relationship, target }: EmbedPlan, outer: Scope, aliases: Aliases): From {
  const scope = aliases.scope();
  if (relationship.kind === "computed") {
    const { schema, name } = relationship.function;
    return { item: sql`${sql.identifier(schema, name)}(${outer.row}) as ${scope.alias}`, scope, join: null };
  }
  const all = tableAs(target, scope);
  // A foreign key leads to the rows of the table alone: those of a table that inherits from it may have the same key.
  const table = relationship.isToOne && target.isInherited ? sql`only ${all}` : all;
  if (relationship.kind !== "many-to-many")
    return { item: table, scope, join: equal(relationship.columns, outer, scope) };

  const junction = aliases.scope();
  const { source, further } = relationship;
  const between = equal(further.columns, junction, scope);
  const item = sql`${tableAs(relationship.junction, junction)} join ${table} on ${between}`;
  return { item, scope, join: equal(source.columns, outer, junction) };
}

const equal = (pairs: ColumnPairs, from: Scope, to: Scope): Sql =>
  sql.join(
    pairs.map(([here, there]) => sql`${to.alias}.${sql.identifier(there)} = ${from.alias}.${sql.identifier(here)}`),
    " and ",
  );

/** A column, a computed field, or a JSON path into either. */
function writeField({ origin, path }: FieldPlan, { alias, row }: Scope): Sql {
  if (origin.kind === "computed") {
    const { computed } = origin;
    return withPath(sql`${sql.trusted(computed.function)}(${row})`, computed.shape.name, path);
  }
  const { column } = origin;
  return withPath(sql`${alias}.${sql.identifier(column.name)}`, column.shape.name, path);
}

/** Composite types and arrays are converted to JSON first, so that paths work on them too. */
function withPath(value: Sql, type: string, path: readonly JsonStep[]): Sql {
  if (path.length === 0) return value;
  const json = type === "json" || type === "jsonb" ? value : sql`pg_catalog.to_jsonb(${value})`;
  const steps = path.map(({ arrow, key }) => {
    const step = typeof key === "number" ? sql`(${sql.integer(key)})` : sql`${sql.constant(key)}::text`;
    return sql`${sql.trusted(arrow)}${step}`;
  });
  return sql`(${json}${sql.join(steps, "")})`;
}

/** The value of an output before its aggregate, with the casts of its domain and of the request. Null for `count()`. */
const writeValue = ({ field, cast }: ValuePlan, scope: Scope): Sql | null =>
  field && castTo(withDomainCast(field, scope), cast);

/**
 * Without a value, the aggregate counts rows. Its name is not qualified, because extension types such as citext have their
 * own `max`.
 */
const writeAggregate = (value: Sql | null, { name, cast }: NonNullable<ValuePlan["aggregate"]>): Sql =>
  castTo(sql`${sql.trusted(name)}(${value ?? sql`*`})`, cast);

function withDomainCast(field: FieldPlan, scope: Scope): Sql {
  const value = writeField(field, scope);
  const { origin, path } = field;
  const toJson = origin.kind === "column" && path.length === 0 ? origin.column.casts?.toJson : null;
  return toJson ? sql`${sql.trusted(toJson)}(${value})` : value;
}

const castTo = (value: Sql, type: string | null): Sql =>
  type === null ? value : sql`cast(${value} as ${sql.trusted(type)})`;

import { type Sql, sql } from "../sql.ts";
import { writeConditions } from "./conditions.ts";
import type { EmbedPlan, OrderPlan, Output, RowSource, RowsPlan, Scope, ValuePlan } from "./plan.ts";
import { type Aliases, type From, fromRelation, writeAggregate, writeField, writeValue } from "./scope.ts";
import { systemColumnsOf } from "./system-columns.ts";

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
  const own = writeConditions(rows.conditions, from.scope, ({ embed }) => writeExists(embed, from.scope, aliases));
  const inner = rows.embeds.filter(({ isInner }) => isInner).map((embed) => writeExists(embed, from.scope, aliases));
  const all = [from.join, own, ...inner].filter((condition) => condition !== null);
  return all.length === 0 ? sql.empty : sql`${sql.line}where ${sql.join(all, " and ")}`;
}

export function writeExists(embed: EmbedPlan, outer: Scope, aliases: Aliases): Sql {
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

import type { ColumnPairs, TableName } from "../catalog/catalog.ts";
import type { JsonStep } from "../filters/field.ts";
import { type Sql, sql } from "../sql.ts";
import type { EmbedPlan, FieldPlan, Scope, ValuePlan } from "./plan.ts";

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

export function fromTable(table: TableName, aliases: Aliases): From {
  const scope = aliases.scope();
  return { item: tableAs(table, scope), scope, join: null };
}

/** The rows of a relation that belong to a row of `outer`. */
export function fromRelation({ relationship, target }: EmbedPlan, outer: Scope, aliases: Aliases): From {
  const scope = aliases.scope();
  if (relationship.kind === "computed") {
    const { schema, name } = relationship.function;
    return { item: sql`${sql.identifier(schema, name)}(${outer.row}) as ${scope.alias}`, scope, join: null };
  }
  const table = tableAs(target, scope);
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
export function writeField({ origin, path }: FieldPlan, { alias, row }: Scope): Sql {
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
export const writeValue = ({ field, cast }: ValuePlan, scope: Scope): Sql | null =>
  field && castTo(withDomainCast(field, scope), cast);

/**
 * Without a value, the aggregate counts rows. Its name is not qualified, because extension types such as citext have their
 * own `max`.
 */
export const writeAggregate = (value: Sql | null, { name, cast }: NonNullable<ValuePlan["aggregate"]>): Sql =>
  castTo(sql`${sql.trusted(name)}(${value ?? sql`*`})`, cast);

function withDomainCast(field: FieldPlan, scope: Scope): Sql {
  const value = writeField(field, scope);
  const { origin, path } = field;
  const toJson = origin.kind === "column" && path.length === 0 ? origin.column.casts?.toJson : null;
  return toJson ? sql`${sql.trusted(toJson)}(${value})` : value;
}

const castTo = (value: Sql, type: string | null): Sql =>
  type === null ? value : sql`cast(${value} as ${sql.trusted(type)})`;

import { type Sql, sql } from "../../sql.ts";
import type { FieldPlan, ValuePlan } from "../plan.ts";
import type { JsonStep } from "../request.ts";

/** Rows under a name in SQL. */
export type Scope = {
  readonly alias: Sql;
  /** A whole row, as functions take it: `t.*`, since one of its columns may have the name `t` too. */
  readonly row: Sql;
};

/** A column, a computed field, or a JSON path into either. */
export function writeField({ origin, path }: FieldPlan, { alias, row }: Scope): Sql {
  if (origin.kind === "computed") {
    const { computed } = origin;
    return withPath(sql`${sql.trusted(computed.function)}(${row})`, computed.shape.name, path);
  }
  const { column } = origin;
  return withPath(sql`${alias}.${sql.identifier(column.name)}`, column.shape.name, path);
}

/** Composites and arrays have paths too: as JSON. */
function withPath(value: Sql, type: string, path: readonly JsonStep[]): Sql {
  if (path.length === 0) return value;
  const json = type === "json" || type === "jsonb" ? value : sql`pg_catalog.to_jsonb(${value})`;
  const steps = path.map(({ arrow, key }) => {
    const step = typeof key === "number" ? sql`(${sql.integer(key)})` : sql`${sql.constant(key)}::text`;
    return sql`${sql.trusted(arrow)}${step}`;
  });
  return sql`(${json}${sql.join(steps, "")})`;
}

/** What an output shows, before its aggregate: the JSON form of a domain that has one, a cast. Null for `count()` of rows. */
export const writeValue = ({ field, cast }: ValuePlan, scope: Scope): Sql | null =>
  field && castTo(shown(field, scope), cast);

/** `null` counts rows. The name is looked for in the search path: types of extensions, such as citext, have their own `max`. */
export const writeAggregate = (value: Sql | null, { name, cast }: NonNullable<ValuePlan["aggregate"]>): Sql =>
  castTo(sql`${sql.trusted(name)}(${value ?? sql`*`})`, cast);

function shown(field: FieldPlan, scope: Scope): Sql {
  const value = writeField(field, scope);
  const { origin, path } = field;
  const toJson = origin.kind === "column" && path.length === 0 ? origin.column.casts?.toJson : null;
  return toJson ? sql`${sql.trusted(toJson)}(${value})` : value;
}

const castTo = (value: Sql, type: string | null): Sql =>
  type === null ? value : sql`cast(${value} as ${sql.trusted(type)})`;

import { type Sql, sql } from "../../sql.ts";
import type { Condition, Key, Parent, Preconditions } from "../request.ts";
import type { Resource } from "../resource.ts";
import { columnOf, functionName, modifiedOf, ROW, tableOf, versionOf } from "./record.ts";

export const value = (index: number): Sql => sql.parameter({ kind: "value", index });

const OPERATORS = { is: "=", from: ">=", before: "<" } as const;

/** `where …`, or nothing. */
export function writeWhere(conditions: readonly Sql[]): Sql {
  return conditions.length === 0 ? sql.empty : sql` where ${sql.join(conditions, " and ")}`;
}

/** `t."status" = $1::public.article_status`; the type is named, since a keyword's function takes any. */
export function writeCondition({ filter: { field, operator }, value: index }: Condition): Sql {
  const { shape } = field.column;
  // Without modifiers: a cast to varchar(5) would cut the text, and find what nobody has asked for.
  const type = sql.identifier(shape.schema, shape.name);
  if (operator === "alike") return sql`lower(${columnOf(field)}) = lower(${value(index)}::${type})`;
  if (operator === "has") return sql`${columnOf(field)} @> array[${value(index)}]::${type}[]`;
  return sql`${columnOf(field)} ${sql.trusted(OPERATORS[operator])} ${value(index)}::${type}`;
}

export const writeSearch = ({ description }: Resource, keyword: number): Sql =>
  sql`${functionName(description.search)}(${sql.trusted(ROW)}, ${value(keyword)})`;

/** `t."article_id" = $2`: the records of a parent. */
export function writeParentCondition(resource: Resource, { collection, id }: Parent): Sql {
  return sql`${columnOf(resource.fieldNamed.get(collection.field)!)} = ${value(id)}`;
}

/** Whether the caller sees the parent. */
export const writeParentExists = ({ resource, id }: Parent): Sql =>
  sql`exists (select from ${tableOf(resource)} as ${sql.trusted(ROW)} where ${columnOf(resource.key)} = ${value(id)})`;

/** The one record that is meant. */
export function writeKey(resource: Resource, { id, parent }: Key): readonly Sql[] {
  const ofRecord = sql`${columnOf(resource.key)} = ${value(id)}`;
  return parent ? [ofRecord, writeParentCondition(resource, parent)] : [ofRecord];
}

/** What must hold of the row, as it is when it is written. */
export function writePreconditions(
  resource: Resource,
  { isOneOf, isNoneOf, unmodifiedSince, isImpossible }: Preconditions,
): readonly Sql[] {
  return [
    ...(isOneOf === null ? [] : [sql`${versionOf(resource)} = any (${value(isOneOf)}::text[])`]),
    ...(isNoneOf === null ? [] : [sql`${versionOf(resource)} <> all (${value(isNoneOf)}::text[])`]),
    ...(unmodifiedSince === null
      ? []
      : [sql`coalesce(trunc((${modifiedOf(resource)})::numeric) <= ${value(unmodifiedSince)}::numeric, true)`]),
    ...(isImpossible ? [sql`false`] : []),
  ];
}

import { type Sql, sql } from "../../sql.ts";
import type { Expression } from "../../table/plan.ts";
import { type Resource, type ResourceField, tableName } from "../resource.ts";

export const writeValue = (index: number): Sql => sql.parameter({ kind: "value", index });

/** A literal; only for text from a description, never from a request. */
export const writeText = (text: string): Sql => sql.trusted(`'${text.replaceAll("'", "''")}'`);

/** `internal.user_matches` → `"internal"."user_matches"` */
export function functionName(text: string): Sql {
  const { schema, name } = tableName(text);
  return sql.identifier(schema, name);
}

/** `t."email"` */
export const columnOf =
  ({ column }: ResourceField): Expression =>
  ({ alias }) =>
    sql`${alias}.${sql.identifier(column.name)}`;

/** The version of the row, which every change replaces. Rows of views have none. */
export const versionOf =
  ({ table: { kind } }: Resource): Expression =>
  ({ alias }) =>
    kind === "table" || kind === "partitioned table" ? sql`${alias}.xmin::text` : sql`null::text`;

/** When the row last changed, in seconds since 1970 with a fraction; null where no field says. */
export const modifiedOf =
  ({ modified }: Resource): Expression =>
  (row) => {
    if (modified.length === 0) return sql`null::text`;
    const times = modified.map((field) => columnOf(field)(row));
    return sql`extract(epoch from coalesce(${sql.join(times, ", ")}))::text`;
  };

/** The row's version is in an array literal, or not in it. */
export const isOneOf =
  (resource: Resource, versions: number, isNegated: boolean): Expression =>
  (row) => {
    const operator = isNegated ? sql`<> all` : sql`= any`;
    return sql`${versionOf(resource)(row)} ${operator} (${writeValue(versions)}::text[])`;
  };

/** In whole seconds, as dates in headers are. */
export const isUnmodifiedSince =
  (resource: Resource, date: number): Expression =>
  (row) =>
    sql`coalesce(trunc((${modifiedOf(resource)(row)})::numeric) <= ${writeValue(date)}::numeric, true)`;

/** Equal whatever the case. */
export const sameText =
  (field: ResourceField, text: number): Expression =>
  (row) => {
    const { schema, name } = field.column.shape;
    // The type without modifiers: a cast to varchar(5) would cut the text and find other rows.
    return sql`lower(${columnOf(field)(row)}) = lower(${writeValue(text)}::${sql.identifier(schema, name)})`;
  };

/** Whether the row matches a keyword. */
export const matchesSearch =
  ({ description }: Resource, keyword: number): Expression =>
  ({ row }) =>
    sql`${functionName(description.search)}(${row}, ${writeValue(keyword)})`;

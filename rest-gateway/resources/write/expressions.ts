import type { Expression, Output, Scope } from "../../../db/query/plan.ts";
import { type Sql, sql } from "../../../db/sql.ts";
import { LINKS, nameIn, type Style } from "../request.ts";
import { isWritable, type Resource, type ResourceField, tableName } from "../resource.ts";

export const writeValue = (index: number): Sql => sql.parameter({ kind: "value", index });

/** A literal; only for text from a description, never from a request. */
const writeText = (text: string): Sql => sql.trusted(`'${text.replaceAll("'", "''")}'`);

/** `public.comments` → `"public"."comments"` */
export function qualifiedName(text: string): Sql {
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

/** The time of the last change, in seconds since 1970 with a fraction; null if no field has it. */
export const modifiedOf =
  ({ modified }: Resource): Expression =>
  (row) => {
    if (modified.length === 0) return sql`null::text`;
    const times = modified.map((field) => columnOf(field)(row));
    return sql`extract(epoch from coalesce(${sql.join(times, ", ")}))::text`;
  };

/** Whether the row's version is in an array literal; with `isNegated`, whether it is not. */
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

/** Equal, ignoring case. */
export const sameText =
  (field: ResourceField, text: number): Expression =>
  (row) => {
    const { schema, name } = field.column.shape;
    // The type without modifiers: a cast to varchar(5) would cut the text and find other rows.
    return sql`lower(${columnOf(field)(row)}) = lower(${writeValue(text)}::${sql.identifier(schema, name)})`;
  };

/** Whether the row matches a keyword. Only for resources with a search. */
export const matchesSearch =
  ({ description }: Resource, keyword: number): Expression =>
  ({ row }) =>
    sql`${qualifiedName(description.search!)}(${row}, ${writeValue(keyword)})`;

/** A piece of JSON text: fixed, the text of a column, or a link that is null where its column is. */
type Piece = string | ResourceField | { readonly field: ResourceField; readonly href: string };

/** `{"self":{"href":"/users/7"},"update":{"href":"/users/7","method":"PUT"}}`; keys need no escaping. */
export function linksOf(resource: Resource, style: Style): Output {
  const { description, key, relations, collections } = resource;
  const self: readonly Piece[] = [`${style.prefix}/${description.name}/`, key];
  const link = (name: string, more: string, method?: string): readonly Piece[] => [
    `"${name}":{"href":"`,
    ...self,
    method === undefined ? `${more}"}` : `${more}","method":"${method}"}`,
  ];
  const related = relations.map((relation): readonly Piece[] => [
    `"${nameIn(relation, style)}":`,
    { field: relation.field, href: `${style.prefix}/${relation.target}/` },
  ]);
  const links = [
    link("self", ""),
    ...related,
    ...[...collections.keys()].map((name) => link(name, `/${name}`)),
    ...Object.keys(description.actions).map((name) => link(name, `/${name}`, "POST")),
    ...(isWritable(resource) ? [link("update", "", "PUT"), link("delete", "", "DELETE")] : []),
  ];
  const pieces = joined(["{", ...links.flatMap((each, i) => (i === 0 ? each : [",", ...each])), "}"]);
  const value = (row: Scope) => {
    const texts = pieces.map((piece) => writePiece(piece, row));
    return sql`concat(${sql.join(texts, ", ")})::json`;
  };
  const columns = [key, ...relations.map(({ field }) => field)].map(({ column }) => column.name);
  return { kind: "expression", alias: LINKS, value, columns };
}

/** Joins neighbouring texts. */
function joined(pieces: readonly Piece[]): Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (typeof piece === "string" && typeof last === "string") result[result.length - 1] = last + piece;
    else result.push(piece);
  }
  return result;
}

function writePiece(piece: Piece, row: Scope) {
  if (typeof piece === "string") return writeText(piece);
  if (!("href" in piece)) return columnOf(piece)(row);
  return sql`coalesce(${writeText(`{"href":"${piece.href}`)} || ${columnOf(piece.field)(row)} || '"}', 'null')`;
}

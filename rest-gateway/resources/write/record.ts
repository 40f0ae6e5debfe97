import { type Sql, sql } from "../../sql.ts";
import { LINKS } from "../parse/selection.ts";
import { nameIn, type Selection, type Style } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { isWritable, tableName } from "../resource.ts";

/** `t` is the row itself in every statement. */
export const ROW = "t";

export const tableOf = (resource: Resource): Sql => sql.identifier(resource.table.schema, resource.table.name);
export const columnOf = (field: ResourceField, alias = ROW): Sql => sql.identifier(alias, field.column.name);

/** The version of the row: another one after each change. Rows of views have none. */
export const versionOf = ({ table: { kind } }: Resource): Sql =>
  kind === "table" || kind === "partitioned table" ? sql.trusted(`${ROW}.xmin::text`) : sql`null::text`;

/** The same of rows that the statement itself has written. */
export const WRITTEN_VERSION = sql.trusted(`${ROW}.xmin`);

/** When the row last changed, in seconds since 1970 with a fraction; null where nothing says. */
export function modifiedOf({ modified }: Resource): Sql {
  if (modified.length === 0) return sql`null::text`;
  return sql`extract(epoch from coalesce(${sql.join(
    modified.map((field) => columnOf(field)),
    ", ",
  )}))::text`;
}

/** `select t."id", t."created_at" as "createdAt", …`, without the keyword: the record as clients see it. */
export function writeFields(resource: Resource, selection: Selection, style: Style, alias = ROW): Sql {
  const { fields, relations, hasLinks } = selection;
  const items = fields.map((field) => sql`${columnOf(field, alias)} as ${nameOf(field, style)}`);
  for (const { relation, selection } of relations) {
    items.push(
      sql`${writeRelated(relation.resource(), relation.field, selection, style, alias)} as ${nameOf(relation, style)}`,
    );
  }
  if (hasLinks) items.push(sql`${writeLinks(resource, style, alias)} as ${sql.identifier(LINKS)}`);
  return sql.join(items, ", ");
}

/** The fields of the row itself that a selection is written of. */
export function fieldsReadBy({ key, relations }: Resource, selection: Selection): readonly ResourceField[] {
  const linked = selection.hasLinks ? [key, ...[...relations.values()].map(({ field }) => field)] : [];
  const related = selection.relations.map(({ relation }) => relation.field);
  return [...new Set([...selection.fields, ...related, ...linked])];
}

const nameOf = (named: Pick<ResourceField, "name" | "camelName">, style: Style) => sql.identifier(nameIn(named, style));

/** The record that a field refers to; null when the caller may not see it. */
function writeRelated(related: Resource, field: ResourceField, selection: Selection, style: Style, alias: string): Sql {
  const inner = `${alias}_${related.description.singular}`;
  const fields = writeFields(related, selection, style, inner);
  return sql`(select pg_catalog.row_to_json(r) from (select ${fields} from ${tableOf(related)} as ${sql.identifier(inner)} where ${columnOf(related.key, inner)} = ${columnOf(field, alias)}) as r)`;
}

/** A piece of JSON text: fixed, the text of a column, or a member that is null where its column is. */
type Piece = string | ResourceField | { readonly field: ResourceField; readonly href: string };

/** `{"self":{"href":"/users/7"},"update":{"href":"/users/7","method":"PUT"}}`; keys need no escaping. */
function writeLinks(resource: Resource, style: Style, alias: string): Sql {
  const { description, key, relations, collections } = resource;
  const self: readonly Piece[] = [`${style.prefix}/${description.name}/`, key];
  const link = (name: string, more: string, method?: string): readonly Piece[] => [
    `"${name}":{"href":"`,
    ...self,
    method === undefined ? `${more}"}` : `${more}","method":"${method}"}`,
  ];
  const related = [...relations.values()].map((relation): readonly Piece[] => [
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
  const pieces = ["{", ...links.flatMap((pieces, i) => (i === 0 ? pieces : [",", ...pieces])), "}"];
  return sql`concat(${sql.join(
    joined(pieces).map((piece) => writePiece(piece, alias)),
    ", ",
  )})::json`;
}

/** Neighbouring texts as one. */
function joined(pieces: readonly Piece[]): Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (typeof piece === "string" && typeof last === "string") result[result.length - 1] = last + piece;
    else result.push(piece);
  }
  return result;
}

function writePiece(piece: Piece, alias: string): Sql {
  if (typeof piece === "string") return writeText(piece);
  if (!("href" in piece)) return columnOf(piece, alias);
  const column = columnOf(piece.field, alias);
  return sql`coalesce(${writeText(`{"href":"${piece.href}`)} || ${column} || '"}', 'null')`;
}

/** A literal; only what a description says, and never what a request does. */
export const writeText = (text: string): Sql => sql.trusted(`'${text.replaceAll("'", "''")}'`);

/** `internal.user_matches` → `"internal"."user_matches"` */
export function functionName(text: string): Sql {
  const { schema, name } = tableName(text);
  return sql.identifier(schema, name);
}

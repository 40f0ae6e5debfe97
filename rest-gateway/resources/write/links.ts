import { sql } from "../../sql.ts";
import type { Output } from "../../table/plan.ts";
import type { Scope } from "../../table/write/values.ts";
import { LINKS, nameIn, type Style } from "../request.ts";
import { isWritable, type Resource, type ResourceField } from "../resource.ts";
import { columnOf, writeText } from "./expressions.ts";

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
  const pieces = joined(["{", ...links.flatMap((each, i) => (i === 0 ? each : [",", ...each])), "}"]);
  const value = (row: Scope) => {
    const texts = pieces.map((piece) => writePiece(piece, row));
    return sql`concat(${sql.join(texts, ", ")})::json`;
  };
  const columns = [key, ...[...relations.values()].map(({ field }) => field)].map(({ column }) => column.name);
  return { kind: "expression", alias: LINKS, value, columns };
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

function writePiece(piece: Piece, row: Scope) {
  if (typeof piece === "string") return writeText(piece);
  if (!("href" in piece)) return columnOf(piece)(row);
  return sql`coalesce(${writeText(`{"href":"${piece.href}`)} || ${columnOf(piece.field)(row)} || '"}', 'null')`;
}

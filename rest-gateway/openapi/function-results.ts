import type { DatabaseFunction, TypeShape } from "../../db/catalog/catalog.ts";
import type { Content, JsonSchema } from "./document.ts";
import { anyOf, nullable, schemaOf } from "./json-schema.ts";
import { type NamedOffer, refer } from "./names.ts";
import { rowsContent } from "./responses.ts";

/** What the function answers, by media type; null when it returns nothing. */
export function resultContent(offer: NamedOffer, { returns }: DatabaseFunction): Content | null {
  if (returns.kind === "void") return null;
  if (returns.kind === "scalar") return scalarContent(returns.shape, returns.isSet);
  const row = rowSchema(offer, returns);
  return returns.isSet ? rowsContent(row) : rowContent(row);
}

/** A domain that is named like a media type is answered as such, as it is. */
function scalarContent(shape: TypeShape, isSet: boolean): Content {
  const mediaType = /"([^"/]+\/[^"/]+)"$/.exec(shape.domain ?? "")?.[1];
  if (mediaType !== undefined) return { [mediaType]: { schema: { type: "string" } } };
  const schema = schemaOf(shape);
  return { "application/json": { schema: isSet ? { type: "array", items: schema } : nullable(schema) } };
}

const rowContent = (row: JsonSchema): Content => ({
  "application/json": { schema: row },
  "application/vnd.pgrst.object+json": { schema: row },
});

type RowResult = Exclude<DatabaseFunction["returns"], { kind: "void" | "scalar" }>;

function rowSchema(offer: NamedOffer, returns: RowResult): JsonSchema {
  if (returns.kind === "composite") {
    const properties = [...returns.columns].map(([name, { shape }]) => [name, nullable(schemaOf(shape))]);
    return { type: "object", properties: Object.fromEntries(properties) };
  }
  if (returns.kind === "record" || returns.table.schema !== offer.schema.name) return { type: "object" };
  const table = offer.tables.get(returns.table.name);
  return table?.isReadable ? refer("schemas", offer.tableKey(table.table)) : { type: "object" };
}

/** The contents of overloads in one. */
export function uniteContents(contents: readonly Content[]): Content {
  const byType = Map.groupBy(contents.flatMap(Object.entries<Content[string]>), ([type]) => type);
  return Object.fromEntries(
    [...byType].map(([type, entries]) => [type, { schema: anyOf(entries.map(([, { schema }]) => schema)) }]),
  );
}

import type { ResultColumn, Schema } from "./catalog.ts";
import type { Relations } from "./relations.ts";
import type { Oid } from "./rows/types.ts";
import type { Types } from "./types.ts";

/** The columns of a composite type, or of a table that is not served. */
export function attributesOf(relation: Oid, relations: Relations, types: Types): ReadonlyMap<string, ResultColumn> {
  const columns = [...relations.columnsOf(relation)].map(({ name, type, typeText }) => ({
    name,
    type: typeText ?? types.textOf(type),
    shape: types.shapeOf(type),
  }));
  return new Map(columns.map((column) => [column.name, column]));
}

/** The composite types of a schema, by name. */
export const compositesOf = (schema: string, relations: Relations, types: Types): Schema["composites"] =>
  new Map(
    relations.composites
      .filter((row) => row.schema === schema)
      .map(({ oid, name }) => [name, attributesOf(oid, relations, types)]),
  );

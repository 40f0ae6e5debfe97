import type { Catalog, Column, DatabaseFunction } from "../../../db/catalog/catalog.ts";
import { noSuchSchema } from "../../../rest-gateway/table/problem.ts";
import type { JsonSchema } from "../document.ts";
import { columnDefault, columnSchema } from "../json-schema.ts";
import { componentKeys, defaultText, objectOf, paragraphs, plainText } from "../schema-parts.ts";
import { isCallable, type VisibleSchema, type VisibleTable, visibleCatalog } from "../visible-catalog.ts";
import { ERROR, FILTER } from "./responses.ts";

/** The reader of a description, and the schema that it describes. With the role null, everything is described. */
export type Viewer = { readonly schema: string; readonly role: string | null };

/** A schema as a role sees it. */
export type DescribedSchema = VisibleSchema & {
  /** Whether requests must or may name the schema in a header. */
  readonly profile: "required" | "optional" | "none";
  /** The functions that can be called, with their overloads, by name. */
  readonly callable: ReadonlyMap<string, readonly DatabaseFunction[]>;
  /** Component keys, by name. */
  readonly tableKeys: ReadonlyMap<string, string>;
  readonly functionKeys: ReadonlyMap<string, string>;
};

/** The endings of the keys of bodies. */
export const INSERT = "_insert";
export const UPDATE = "_update";

/** Throws PGRST106 if the schema is not served. */
export function describedSchema(catalog: Catalog, { schema: name, role }: Viewer): DescribedSchema {
  const served = catalog.schemas.get(name);
  const names = [...catalog.schemas.keys()];
  if (served === undefined) throw noSuchSchema(name, names);
  const empty: VisibleSchema = { ...served, tables: new Map(), functions: new Map() };
  const schema = visibleCatalog(catalog, role).schemas.get(name) ?? empty;
  const callable = [...schema.functions.values()].flat().filter(isCallable);
  const functions = Map.groupBy(callable, (each) => each.name);
  return {
    ...schema,
    profile: names.length === 1 ? "none" : names[0] === name ? "optional" : "required",
    callable: functions,
    tableKeys: componentKeys(schema.tables.keys(), ["", INSERT, UPDATE], [ERROR, FILTER]),
    functionKeys: componentKeys(functions.keys()),
  };
}

const rowOf = (
  { comment }: VisibleTable,
  columns: readonly Column[],
  required: readonly Column[],
  schemaOf: (column: Column) => JsonSchema,
): JsonSchema =>
  objectOf(
    Object.fromEntries(columns.map((column) => [column.name, schemaOf(column)])),
    plainText(comment),
    required.map(({ name }) => name),
  );

/** `posts` for rows in responses, `posts_insert` and `posts_update` for request bodies, as far as the role may use them. */
export function tableSchemas(schema: DescribedSchema, table: VisibleTable): [string, JsonSchema][] {
  const { readable, insertable, updatable, may } = table;
  const key = schema.tableKeys.get(table.name)!;
  const note = (column: Column) => keyNote(schema, table, column);
  // All columns are returned without `select`.
  const row = rowOf(table, readable, readable, (column) => ({
    ...columnSchema(column, "toJson", note(column)),
    ...(column.generated === "always" && { readOnly: true }),
  }));
  const required = insertable.filter(({ isNullable, hasDefault }) => !isNullable && !hasDefault);
  const inserted = rowOf(table, insertable, required, (column) =>
    columnSchema(column, "fromJson", note(column), defaultText(columnDefault(column))),
  );
  const updated = rowOf(table, updatable, [], (column) => columnSchema(column, "fromJson", note(column)));
  return Object.entries({
    ...(may.select && { [key]: row }),
    ...(may.insert && { [key + INSERT]: inserted }),
    ...(may.update && { [key + UPDATE]: updated }),
  });
}

/** A row as the argument of a function. Missing columns are null, even if the table declares them NOT NULL. */
export const recordSchema = (table: VisibleTable): JsonSchema =>
  rowOf(table, table.readable, [], (column) => columnSchema({ ...column, isNullable: true }, "fromJson"));

/** The comment of a column and its keys. */
export const describeColumn = (schema: VisibleSchema, table: VisibleTable, column: Column): string =>
  paragraphs(plainText(column.comment), keyNote(schema, table, column));

/**
 * The keys of a column, formatted as PostgREST does, because clients parse the tags; "" without keys:
 *
 *   Note:
 *   This is a Foreign Key to `users.id`.<fk table='users' column='id'/>
 */
function keyNote({ name: schema, tables }: VisibleSchema, table: VisibleTable, { name }: Column): string {
  const targets = table.relationships.flatMap((each) => {
    const isKey = "isOwner" in each && each.isOwner && each.columns.length === 1 && each.columns[0]![0] === name;
    return isKey && each.target.schema === schema
      ? [{ ...tables.get(each.target.name)!, to: each.columns[0]![1] }]
      : [];
  });
  // If a column refers to a table and to a view of it, the note names the table.
  const target = targets.find(({ kind }) => kind !== "view" && kind !== "materialized view") ?? targets[0];
  const foreign = target && `\`${target.name}.${target.to}\`.<fk table='${target.name}' column='${target.to}'/>`;
  const notes = [
    ...(table.primaryKey.includes(name) ? ["This is a Primary Key.<pk/>"] : []),
    ...(foreign ? [`This is a Foreign Key to ${foreign}`] : []),
  ];
  return notes.length === 0 ? "" : ["Note:", ...notes].join("\n");
}

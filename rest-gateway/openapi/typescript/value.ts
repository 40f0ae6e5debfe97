import { type Catalog, type ComputedField, type Table, type TypeShape, tableOf } from "../../../db/catalog/catalog.ts";
import { array, byName, entry, literal, orNull, type Type, union } from "./type.ts";

/** TypeScript types by name in pg_type. All other types of pg_catalog are strings in JSON. */
const JSON_TYPES: Readonly<Record<string, string>> = {
  bool: "boolean",
  int2: "number",
  int4: "number",
  int8: "number",
  float4: "number",
  float8: "number",
  numeric: "number",
  json: "Json",
  jsonb: "Json",
  void: "undefined",
  record: "Record<string, unknown>",
};

/** Types of extensions that are strings in JSON. Others may have a cast to json, and are unknown. */
const TEXT_TYPES: ReadonlySet<string> = new Set(["citext", "cube", "halfvec", "isbn", "ltree", "sparsevec", "vector"]);

/**
 * The type of a non-null value in JSON. A domain has the type of its base type.
 *
 *   int8[] → number[]      timestamptz, bytea, int4range → string      geometry → unknown
 *   public.mood → Database["public"]["Enums"]["mood"], or "happy" | "sad" if its schema is not served
 */
export function valueType(shape: TypeShape, catalog: Catalog): Type {
  const value = VALUES[shape.category](shape, catalog);
  return shape.isArray ? array(value) : value;
}

const VALUES: Readonly<Record<TypeShape["category"], (shape: TypeShape, catalog: Catalog) => Type>> = {
  base: baseOf,
  enum: enumOf,
  composite: rowOf,
  range: () => "string",
  pseudo: ({ name }) => JSON_TYPES[name] ?? "unknown",
};

function baseOf({ schema, name }: TypeShape): Type {
  if (schema === "pg_catalog") return JSON_TYPES[name] ?? "string";
  return TEXT_TYPES.has(name) ? "string" : "unknown";
}

function enumOf({ schema, name, labels }: TypeShape, catalog: Catalog): Type {
  if (catalog.schemas.get(schema)?.enums.has(name)) return entry(schema, "Enums", name);
  return union(labels.map(literal));
}

/** A row as a value contains only columns, without computed fields. */
function rowOf({ schema, name }: TypeShape, catalog: Catalog): Type {
  if (catalog.schemas.get(schema)?.composites.has(name)) return entry(schema, "CompositeTypes", name);
  const table = tableOf(catalog, { schema, name });
  if (!table) return "unknown";
  const computed = computedFieldsOf(table).map((field) => literal(field.name));
  return computed.length === 0 ? rowEntry(table) : `Omit<${rowEntry(table)}, ${computed.join(" | ")}>`;
}

/** The computed fields that can be selected. A column with the same name hides the field. */
export const computedFieldsOf = ({ columns, computedFields }: Table): ComputedField[] =>
  byName(computedFields.values()).filter(({ name }) => !columns.has(name));

/** `Database["public"]["Tables"]["articles"]["Row"]` */
export const rowEntry = (table: Table): string =>
  entry(table.schema, isView(table) ? "Views" : "Tables", table.name, "Row");

/** Whether the relation is listed in `Views`. */
export const isView = ({ kind }: { readonly kind: string }): boolean => kind === "view" || kind === "materialized view";

/** The type of an expression, which includes null unless its type is a NOT NULL domain. */
export const nullableType = (shape: TypeShape, catalog: Catalog): Type =>
  isNotNullDomain(shape, catalog) ? valueType(shape, catalog) : orNull(valueType(shape, catalog));

/** Whether the type is a NOT NULL domain. */
export const isNotNullDomain = ({ domain }: TypeShape, { notNullDomains }: Catalog): boolean =>
  domain !== null && notNullDomains.has(domain);

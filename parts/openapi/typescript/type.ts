import type { ComputedField, Table, TableName, TypeShape } from "../../../db/catalog/catalog.ts";
import { schemaOf } from "../json-schema.ts";
import type { VisibleCatalog, VisibleTable } from "../visible-catalog.ts";

/** A TypeScript type: finished text, or a structure that layout.ts writes on one or several lines. */
export type Type =
  | string
  | { readonly kind: "object"; readonly members: readonly Member[]; readonly isOpen: boolean }
  | { readonly kind: "union"; readonly types: readonly Type[] }
  | { readonly kind: "array"; readonly element: Type }
  | { readonly kind: "tuple"; readonly elements: readonly Type[] };

/** `["age", "number", true]` is `age?: number`. */
export type Member = readonly [name: string, type: Type, isOptional?: boolean];

/** `{ id: number }`, on one line if it fits. */
export const object = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: false });

/** An object with one member per line. */
export const openObject = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: true });

/** An open object with a member for each entry, by name. */
export const openEntries = <Value>(entries: Iterable<readonly [string, Value]>, typeOf: (value: Value) => Type): Type =>
  openObject(inOrder(entries, ([name]) => name).map(([name, value]) => [name, typeOf(value)]));

export const array = (element: Type): Type => ({ kind: "array", element });
export const tuple = (elements: readonly Type[]): Type => ({ kind: "tuple", elements });

/** `"DRAFT" | "PUBLISHED"`. The union of one type is this type; of none, `never`. */
export function union(types: readonly Type[]): Type {
  if (types.length < 2) return types[0] ?? "never";
  return { kind: "union", types };
}

/** `unknown` already includes null. */
export const orNull = (type: Type): Type => (type === "unknown" ? type : union([type, "null"]));

/** `mood` in `Enums` of `public` → `Database["public"]["Enums"]["mood"]` */
const entry = (...path: readonly string[]): string => `Database${path.map((name) => `[${literal(name)}]`).join("")}`;

/** `it's` → `"it's"` */
export const literal = (text: string): string => JSON.stringify(text);

/** A name as the key of an object: `user_id`, `"user-id"`. */
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name));

/** Sorted by code units, which do not depend on the locale. */
export const inOrder = <Item>(items: Iterable<Item>, textOf: (item: Item) => string): Item[] =>
  [...items]
    .map((item) => ({ item, text: textOf(item) }))
    .sort((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
    .map(({ item }) => item);

export const byName = <Item extends { readonly name: string }>(items: Iterable<Item>): Item[] =>
  inOrder(items, ({ name }) => name);

/** Types of extensions that are strings in JSON. Others may have a cast to json, and are unknown. */
const TEXT_TYPES: ReadonlySet<string> = new Set(["citext", "cube", "halfvec", "isbn", "ltree", "sparsevec", "vector"]);

/**
 * The type of a non-null value in JSON. A domain has the type of its base type.
 *
 *   int8[] → number[]      timestamptz, bytea, int4range → string      geometry → unknown
 *   public.mood → Database["public"]["Enums"]["mood"], or "happy" | "sad" if its schema is not served
 */
export function valueType(shape: TypeShape, catalog: VisibleCatalog): Type {
  const value = elementType(shape, catalog);
  return shape.isArray ? array(value) : value;
}

function elementType(shape: TypeShape, catalog: VisibleCatalog): Type {
  const { category, schema, name, labels } = shape;
  switch (category) {
    case "enum":
      if (catalog.schemas.get(schema)?.enums.has(name)) return entry(schema, "Enums", name);
      return union(labels.map(literal));
    case "composite":
      return rowOf(shape, catalog);
    case "range":
      return "string";
    case "pseudo":
      return { void: "undefined", record: RECORD }[name] ?? "unknown";
    case "base": {
      if (schema !== "pg_catalog") return TEXT_TYPES.has(name) ? "string" : "unknown";
      const { type = "any" } = schemaOf({ ...shape, isArray: false });
      return { integer: "number", number: "number", boolean: "boolean", any: "Json" }[String(type)] ?? "string";
    }
  }
}

/** A row whose columns are known only after execution. */
export const RECORD = "Record<string, unknown>";

/** A row as a value contains only columns, without computed fields. */
function rowOf({ schema, name }: TypeShape, catalog: VisibleCatalog): Type {
  if (catalog.schemas.get(schema)?.composites.has(name)) return entry(schema, "CompositeTypes", name);
  const table = tableOf(catalog, { schema, name });
  if (!table) return "unknown";
  const computed = computedFieldsOf(table).map((field) => literal(field.name));
  return computed.length === 0 ? rowEntry(table) : `Omit<${rowEntry(table)}, ${computed.join(" | ")}>`;
}

/** Undefined if the table is not visible. */
export const tableOf = ({ schemas }: VisibleCatalog, { schema, name }: TableName): VisibleTable | undefined =>
  schemas.get(schema)?.tables.get(name);

/** The computed fields that every read may select: volatile ones may write. A column with the same name hides the field. */
export const computedFieldsOf = ({ columns, computedFields }: Table): ComputedField[] =>
  byName(computedFields.values()).filter(({ name, isVolatile }) => !isVolatile && !columns.has(name));

/** `Database["public"]["Tables"]["posts"]["Row"]` */
export const rowEntry = (table: Table): string =>
  entry(table.schema, isView(table) ? "Views" : "Tables", table.name, "Row");

/** Whether the relation is listed in `Views`. */
export const isView = ({ kind }: { readonly kind: string }): boolean => kind === "view" || kind === "materialized view";

/** The type of an expression, which includes null unless its type is a NOT NULL domain. */
export const nullableType = (shape: TypeShape, catalog: VisibleCatalog): Type =>
  isNotNullDomain(shape, catalog) ? valueType(shape, catalog) : orNull(valueType(shape, catalog));

/** Whether the type is a NOT NULL domain. */
export const isNotNullDomain = ({ domain }: TypeShape, { notNullDomains }: VisibleCatalog): boolean =>
  domain !== null && notNullDomains.has(domain);

import { tryJson } from "../../config/json-file.ts";
import type { Column, TypeShape } from "../../db/catalog/catalog.ts";
import type { JsonSchema } from "./document.ts";

/** The JSON Schema of a type, and its SQL name if it differs from the name in pg_type. */
type Fact = { readonly schema: JsonSchema; readonly sqlName?: string };

const integer = (format: string, sqlName?: string): Fact => ({
  schema: { type: "integer", format },
  ...named(sqlName),
});
const number = (format?: string, sqlName?: string): Fact => ({
  schema: { type: "number", ...(format && { format }) },
  ...named(sqlName),
});
const string = (format?: string, sqlName?: string): Fact => ({
  schema: { type: "string", ...(format && { format }) },
  ...named(sqlName),
});
const named = (sqlName: string | undefined) => (sqlName === undefined ? {} : { sqlName });

/**
 * Types by their names in pg_type; every other type is a string in JSON. A type has a format only if the output of
 * Postgres conforms to it: `timestamp` has no offset, so it is not a `date-time`; `interval` is not an ISO duration.
 */
const FACTS: ReadonlyMap<string, Fact> = new Map([
  ["bool", { schema: { type: "boolean" }, sqlName: "boolean" }],
  ["int2", integer("int16", "smallint")],
  ["int4", integer("int32", "integer")],
  ["int8", integer("int64", "bigint")],
  // `to_json` writes only the six number types as numbers.
  ["oid", string()],
  ["float4", number("float", "real")],
  ["float8", number("double", "double precision")],
  ["numeric", number()],
  ["varchar", string(undefined, "character varying")],
  ["bpchar", string(undefined, "character")],
  ["bit", string(undefined, "bit")],
  ["varbit", string(undefined, "bit varying")],
  ["uuid", string("uuid")],
  ["date", string("date")],
  ["time", string("time-local", "time without time zone")],
  ["timetz", string(undefined, "time with time zone")],
  ["timestamp", string("date-time-local", "timestamp without time zone")],
  ["timestamptz", string("date-time", "timestamp with time zone")],
  ["json", { schema: {} }],
  ["jsonb", { schema: {} }],
  ["hstore", { schema: { type: "object", additionalProperties: { type: ["string", "null"] } } }],
  // PostGIS casts it to GeoJSON, and no geography.
  ["geometry", { schema: { type: "object" } }],
] satisfies [string, Fact][]);

/**
 * The JSON Schema of a type, never null:
 *
 *   int8                  → { type: "integer", format: "int64" }
 *   text[]                → { type: "array", items: { type: "string" } }
 *   post_status        → { type: "string", enum: ["DRAFT", "PUBLISHED"] }
 *   jsonb                 → {}
 */
export function schemaOf(shape: TypeShape): JsonSchema {
  const element = elementSchema(shape);
  return shape.isArray ? { type: "array", items: element } : element;
}

function elementSchema({ category, name, labels }: TypeShape): JsonSchema {
  if (category === "enum" && labels.length > 0) return { type: "string", enum: labels };
  if (category === "composite") return { type: "object" };
  if (category === "pseudo") return {};
  return (category === "base" && FACTS.get(name)?.schema) || { type: "string" };
}

/** Adds null: `{ type: "string" }` → `{ type: ["string", "null"] }`. */
export function nullable(schema: JsonSchema): JsonSchema {
  if (typeof schema.type !== "string") return schema;
  const values = schema.enum && { enum: [...schema.enum, null] };
  return { ...schema, type: [schema.type, "null"], ...values };
}

/**
 * The schema of a value in a query string. Postgres parses arrays, objects and JSON from text: `{a,b}`, `(1,x)`, `{"a":1}`.
 */
export function textSchemaOf(shape: TypeShape): JsonSchema {
  const schema = schemaOf(shape);
  return schema.type === undefined || schema.type === "array" || schema.type === "object" ? { type: "string" } : schema;
}

/** The SQL name of a type, without modifiers: `bigint`, `text[]`, `public.post_status`. */
export function sqlNameOf({ name, schema, isArray }: TypeShape): string {
  const element = schema === "pg_catalog" ? (FACTS.get(name)?.sqlName ?? name) : `${schema}.${name}`;
  return isArray ? `${element}[]` : element;
}

/** `anyOf` without duplicates. */
export function anyOf(schemas: readonly JsonSchema[]): JsonSchema {
  const different = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  return different.length === 1 ? different[0]! : { anyOf: different };
}

const QUOTED = /^'((?:[^']|'')*)'::[\w\s.,"()[\]]+$/;

/**
 * The default of a column as a JSON value if it is a constant; undefined if Postgres computes it.
 *
 *   defaultValue("'DRAFT'::post_status", { type: "string", … })  // "DRAFT"
 *   defaultValue("0", { type: "integer" })                          // 0
 *   defaultValue("now()", { type: "string" })                       // undefined
 */
export function defaultValue(expression: string | null, schema: JsonSchema): unknown {
  if (expression === null) return undefined;
  const quoted = QUOTED.exec(expression)?.[1]?.replaceAll("''", "'");
  const read = READERS[typeof schema.type === "string" ? schema.type : "any"];
  return read?.(quoted ?? null, expression, schema);
}

type Reader = (quoted: string | null, expression: string, schema: JsonSchema) => unknown;

/** Numbers with this many digits are exact in JavaScript. */
const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/;

/** `5`, `(-5)` or `'-5'::integer`. */
const readNumber: Reader = (quoted, expression) => {
  const text = quoted ?? expression.replace(/^\((.*)\)$/, "$1");
  return NUMBER.test(text) ? Number(text) : undefined;
};

/** By JSON type. A string with a format, such as a time, may be written differently in SQL and in JSON. */
const READERS: Readonly<Record<string, Reader>> = {
  boolean: (_, expression) => ({ true: true, false: false })[expression],
  integer: readNumber,
  number: readNumber,
  string: (quoted, _, { format }) => (format === undefined || format === "uuid" ? (quoted ?? undefined) : undefined),
  array: (quoted) => (quoted === "{}" ? [] : undefined),
  any: (quoted) => (quoted === null ? undefined : tryJson(quoted)),
};

/** The schema of a column, without null. It allows any value if a cast of the column's domain converts the value. */
export function valueSchema({ casts, shape, maxLength }: Column, cast: "toJson" | "fromJson"): JsonSchema {
  if (casts?.[cast]) return {};
  const schema = schemaOf(shape);
  return maxLength !== null && schema.type === "string" ? { ...schema, maxLength } : schema;
}

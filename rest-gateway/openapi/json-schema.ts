import type { TypeShape } from "../../db/catalog/catalog.ts";
import type { JsonSchema } from "./document.ts";

/** How a value of the type stands in JSON, and what SQL calls the type where pg_type has another name for it. */
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
 * What is known of types, by their names in pg_type; every other type is a string in JSON. A format is given where what
 * Postgres writes has it: `timestamp` has no offset, so it is no date-time; `interval` is no ISO duration.
 */
const FACTS: ReadonlyMap<string, Fact> = new Map([
  ["bool", { schema: { type: "boolean" }, sqlName: "boolean" }],
  ["int2", integer("int16", "smallint")],
  ["int4", integer("int32", "integer")],
  ["int8", integer("int64", "bigint")],
  ["oid", integer("int64")],
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
  // PostGIS casts them to GeoJSON.
  ["geometry", { schema: { type: "object" } }],
  ["geography", { schema: { type: "object" } }],
] satisfies [string, Fact][]);

/**
 * The JSON Schema of a type, never null:
 *
 *   int8                  → { type: "integer", format: "int64" }
 *   text[]                → { type: "array", items: { type: "string" } }
 *   article_status        → { type: "string", enum: ["DRAFT", "PUBLISHED"] }
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

/** Null as well: `{ type: "string" }` → `{ type: ["string", "null"] }`. */
export function nullable(schema: JsonSchema): JsonSchema {
  if (typeof schema.type !== "string") return schema;
  const values = schema.enum && { enum: [...schema.enum, null] };
  return { ...schema, type: [schema.type, "null"], ...values };
}

/**
 * What stands for a value in a query string. Postgres reads arrays, objects and JSON from text: `{a,b}`, `(1,x)`, `{"a":1}`.
 */
export function textSchemaOf(shape: TypeShape): JsonSchema {
  const schema = schemaOf(shape);
  return schema.type === undefined || schema.type === "array" || schema.type === "object" ? { type: "string" } : schema;
}

/** The name that SQL gives a type, without modifiers: `bigint`, `text[]`, `public.article_status`. */
export function sqlNameOf({ name, schema, isArray }: TypeShape): string {
  const element = schema === "pg_catalog" ? (FACTS.get(name)?.sqlName ?? name) : `${schema}.${name}`;
  return isArray ? `${element}[]` : element;
}

/** Any of them; what is the same stands there once. */
export function anyOf(schemas: readonly JsonSchema[]): JsonSchema {
  const different = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  return different.length === 1 ? different[0]! : { anyOf: different };
}

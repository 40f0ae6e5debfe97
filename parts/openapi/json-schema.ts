import { tryJson } from "../../config/json-file.ts";
import type { Column, TypeShape } from "../../db/catalog/catalog.ts";
import type { JsonSchema } from "./document.ts";
import { paragraphs, plainText } from "./schema-parts.ts";

/**
 * The JSON Schema of types by their names in pg_type, and their SQL names where these differ; every other type is a string in JSON. A type
 * has a format only if the output of Postgres conforms to it: `timestamp` has no offset, so it is not a `date-time`; `interval` is not an
 * ISO duration.
 */
const TYPES: ReadonlyMap<string, readonly [schema: JsonSchema, sqlName?: string]> = new Map([
  ["bool", [{ type: "boolean" }, "boolean"]],
  ["int2", [{ type: "integer", format: "int16" }, "smallint"]],
  ["int4", [{ type: "integer", format: "int32" }, "integer"]],
  ["int8", [{ type: "integer", format: "int64" }, "bigint"]],
  ["float4", [{ type: "number", format: "float" }, "real"]],
  ["float8", [{ type: "number", format: "double" }, "double precision"]],
  ["numeric", [{ type: "number" }]],
  ["varchar", [{ type: "string" }, "character varying"]],
  ["bpchar", [{ type: "string" }, "character"]],
  ["varbit", [{ type: "string" }, "bit varying"]],
  ["uuid", [{ type: "string", format: "uuid" }]],
  ["date", [{ type: "string", format: "date" }]],
  ["time", [{ type: "string", format: "time-local" }, "time without time zone"]],
  ["timetz", [{ type: "string" }, "time with time zone"]],
  ["timestamp", [{ type: "string", format: "date-time-local" }, "timestamp without time zone"]],
  ["timestamptz", [{ type: "string", format: "date-time" }, "timestamp with time zone"]],
  ["json", [{}]],
  ["jsonb", [{}]],
  ["hstore", [{ type: "object", additionalProperties: { type: ["string", "null"] } }]],
  // PostGIS casts it to GeoJSON, and no geography.
  ["geometry", [{ type: "object" }]],
]);

/**
 * The JSON Schema of a type, never null:
 *
 *   int8                  → { type: "integer", format: "int64" }
 *   text[]                → { type: "array", items: { type: "string" } }
 *   post_status           → { type: "string", enum: ["DRAFT", "PUBLISHED"] }
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
  return (category === "base" && TYPES.get(name)?.[0]) || { type: "string" };
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
  const element = schema === "pg_catalog" ? (TYPES.get(name)?.[1] ?? name) : `${schema}.${name}`;
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
export function defaultValue(expression: string | null, { type, format }: JsonSchema): unknown {
  if (expression === null) return undefined;
  const quoted = QUOTED.exec(expression)?.[1]?.replaceAll("''", "'");
  switch (type) {
    case "boolean":
      return expression === "true" || (expression === "false" ? false : undefined);
    case "integer":
    case "number": {
      // `5`, `(-5)` or `'-5'::integer`.
      const text = quoted ?? expression.replace(/^\((.*)\)$/, "$1");
      return EXACT_NUMBER.test(text) ? Number(text) : undefined;
    }
    case "string":
      // Another format, such as that of a time, may be written differently in SQL and in JSON.
      return format === undefined || format === "uuid" ? quoted : undefined;
    case "array":
      return quoted === "{}" ? [] : undefined;
    case undefined:
      return quoted === undefined ? undefined : tryJson(quoted);
    default:
      return undefined;
  }
}

/** Numbers with this many digits are exact in JavaScript. */
const EXACT_NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/;

/** The schema of a column, without null. It allows any value if a cast of the column's domain converts the value. */
function valueSchema({ casts, shape, maxLength }: Column, cast: "toJson" | "fromJson"): JsonSchema {
  if (casts?.[cast]) return {};
  const schema = schemaOf(shape);
  return maxLength !== null && schema.type === "string" ? { ...schema, maxLength } : schema;
}

/** The default of a column that a body may leave out, as JSON; undefined if Postgres computes it. */
export const columnDefault = (column: Column): unknown =>
  defaultValue(column.defaultExpression, valueSchema(column, "fromJson"));

/** A column in a response (`toJson`) or a body (`fromJson`), described by its comment and further paragraphs. */
export function columnSchema(column: Column, cast: "toJson" | "fromJson", ...more: readonly string[]): JsonSchema {
  const value = valueSchema(column, cast);
  const description = paragraphs(plainText(column.comment), ...more);
  return { ...(column.isNullable ? nullable(value) : value), ...(description && { description }) };
}

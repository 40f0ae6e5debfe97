import type { Catalog, Column, DatabaseFunction, TypeShape } from "../../../db/catalog/catalog.ts";
import { defaultValue, schemaOf, sqlNameOf } from "../json-schema.ts";
import { documentationOf, plainText } from "../schema-parts.ts";
import type { VisibleTable } from "../visible-catalog.ts";
import { isGettable, type SharedArgument, sharedArguments } from "./function-paths.ts";
import { API_VERSION, type DescriptionOptions } from "./openapi.ts";
import { filtersOf, RESERVED } from "./parameters.ts";
import { type DescribedSchema, describeColumn, describedSchema } from "./table-schemas.ts";

/**
 * Describes what a role may do in a schema as OpenAPI 2.0, with the structure and names of PostgREST 12, for tools made for it: they read
 * `definitions.posts.properties` and the keys in the descriptions of columns. Throws PGRST106 if the schema is not served.
 */
export function swagger(catalog: Catalog, options: DescriptionOptions) {
  const schema = describedSchema(catalog, options);
  const { summary, description } = documentationOf(schema.comment);
  const tables = [...schema.tables.values()];
  const { host, pathname, protocol } = new URL(options.baseUrl);
  return {
    swagger: "2.0",
    info: { title: summary || `Tables of ${schema.name}`, description, version: API_VERSION },
    host,
    basePath: `${pathname.replace(/\/+$/, "")}/rest/v1`,
    schemes: [protocol.slice(0, -1)],
    consumes: [...RESULTS, "text/csv"],
    produces: [...RESULTS, "text/csv"],
    securityDefinitions: SECURITY,
    security: [{ apikey: [] }, { apikey: [], JWT: [] }],
    paths: Object.fromEntries([
      ["/", ROOT],
      ...tables.map(tablePath),
      ...[...schema.callable].map(([name, overloads]) => functionPath(name, overloads)),
    ]),
    definitions: Object.fromEntries(tables.map((table) => [table.name, definitionOf(schema, table)])),
    parameters: Object.fromEntries([...PARAMETERS, ...tables.flatMap(tableParameters)]),
  };
}

/** Media types of rows and of results. */
const RESULTS = [
  "application/json",
  "application/vnd.pgrst.object+json;nulls=stripped",
  "application/vnd.pgrst.object+json",
];

const SECURITY = {
  apikey: { type: "apiKey", in: "header", name: "apikey", description: "The anon key or another key of the service." },
  JWT: {
    type: "apiKey",
    in: "header",
    name: "Authorization",
    description: 'Add the token prepending "Bearer " (without quotes) to it',
  },
};

const ROOT = {
  get: {
    tags: ["Introspection"],
    summary: "OpenAPI description (this document)",
    produces: ["application/openapi+json", "application/json"],
    responses: { 200: { description: "OK" } },
  },
};

const query = (name: string, description: string) => ({
  name,
  description,
  required: false,
  in: "query",
  type: "string",
});
const header = (name: string, description: string, more: object = {}) => ({
  ...query(name, description),
  in: "header",
  ...more,
});

const RETURN = ["return=representation", "return=minimal", "return=headers-only"];
const RESOLUTION = ["resolution=ignore-duplicates", "resolution=merge-duplicates"];
const PAGES = "Limiting and Pagination";

/** The parameters that all tables share. */
const PARAMETERS: readonly [string, object][] = [
  ["preferReturn", header("Prefer", "Preference", { enum: RETURN })],
  ["preferCount", header("Prefer", "Preference", { enum: ["count=exact", "count=planned", "count=estimated"] })],
  ["preferPost", header("Prefer", "Preference", { enum: [...RETURN, ...RESOLUTION] })],
  ["select", query("select", "Filtering Columns")],
  ["on_conflict", query("on_conflict", "On Conflict")],
  ["order", query("order", "Ordering")],
  ["range", header("Range", PAGES)],
  ["rangeUnit", header("Range-Unit", PAGES, { default: "items" })],
  ["offset", query("offset", PAGES)],
  ["limit", query("limit", PAGES)],
];

/** A JSON pointer, escaped as part of a URL. */
const referTo = (kind: "definitions" | "parameters", name: string): { $ref: string } => ({
  $ref: `#/${kind}/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`,
});

function documentation(comment: string | null): object {
  const { summary, description } = documentationOf(comment);
  return { ...(summary && { summary }), ...(description && { description }) };
}

/** `/posts`, with the methods that the role may use. */
function tablePath(table: VisibleTable): [string, object] {
  const { name, may, comment } = table;
  const filters = filtersOf(table).map((column) => `rowFilter.${name}.${column.name}`);
  const body = `body.${name}`;
  const operation = (responses: object, ...parameters: string[]) => ({
    tags: [name],
    ...documentation(comment),
    parameters: parameters.map((each) => referTo("parameters", each)),
    responses,
  });
  const rows = {
    200: { description: "OK", schema: { type: "array", items: referTo("definitions", name) } },
    206: { description: "Partial Content" },
  };
  const created = { 201: { description: "Created" } };
  const done = { 204: { description: "No Content" } };
  const reading = ["select", "order", "range", "rangeUnit", "offset", "limit", "preferCount"];
  const item = {
    ...(may.select && { get: operation(rows, ...filters, ...reading) }),
    ...(may.insert && { post: operation(created, body, "select", "preferPost") }),
    ...(may.delete && { delete: operation(done, ...filters, "preferReturn") }),
    ...(may.update && { patch: operation(done, ...filters, body, "preferReturn") }),
  };
  return [`/${encodeURIComponent(name)}`, item];
}

/** `body.posts`, and `rowFilter.posts.title` for each readable column. */
function tableParameters(table: VisibleTable): [string, object][] {
  const { name } = table;
  const body = { name, description: name, required: false, in: "body", schema: referTo("definitions", name) };
  const filters = filtersOf(table).map(({ name: column, comment, shape }): [string, object] => {
    const { description, ...rest } = query(column, plainText(comment));
    const filter = { ...rest, ...(description && { description }), format: sqlNameOf(shape) };
    return [`rowFilter.${name}.${column}`, filter];
  });
  return [[`body.${name}`, body], ...filters];
}

/** `definitions.posts`: the columns that the role may read or write. */
function definitionOf(schema: DescribedSchema, table: VisibleTable): object {
  const used = new Set([...table.readable, ...table.insertable, ...table.updatable]);
  const columns = [...table.columns.values()].filter((column) => used.has(column));
  const required = columns.filter(({ isNullable }) => !isNullable).map(({ name }) => name);
  const properties = columns.map((column) => [column.name, property(column, describeColumn(schema, table, column))]);
  return definition(table.comment, required, Object.fromEntries(properties));
}

function property(column: Column, description: string): object {
  const { shape, maxLength } = column;
  const initial = defaultOf(column);
  return {
    ...typeOf(shape),
    ...(description && { description }),
    ...(initial !== undefined && { default: initial }),
    ...(shape.category === "enum" && !shape.isArray && { enum: shape.labels }),
    ...(maxLength !== null && { maxLength }),
  };
}

/** If Postgres computes the default of a string, its expression is shown: `now()`. */
function defaultOf({ defaultExpression, shape }: Column): unknown {
  const { type } = typeOf(shape);
  if (type === "array" || defaultExpression === null) return undefined;
  if (type !== "string") return defaultValue(defaultExpression, schemaOf(shape));
  return defaultValue(defaultExpression, { type }) ?? defaultExpression;
}

/** `/rpc/search`: POST, and GET for a read-only function. */
function functionPath(name: string, overloads: readonly DatabaseFunction[]): [string, object] {
  const comment = overloads.find((fn) => fn.comment !== null)?.comment ?? null;
  const operation = (...parameters: object[]) => ({
    tags: [`(rpc) ${name}`],
    ...documentation(comment),
    produces: RESULTS,
    parameters,
    responses: { 200: { description: "OK" } },
  });
  const gettable = overloads.filter(isGettable);
  const inQuery = sharedArguments(gettable).filter(({ name }) => !RESERVED.has(name));
  // OpenAPI 2.0 has no alternatives, so one object contains the arguments of all overloads.
  const named = sharedArguments(overloads).filter(({ name }) => name !== "");
  const required = named.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const properties = named.map(({ name, all: [first] }) => [name, typeOf(first!.shape)]);
  const schema = definition(comment, required, named.length > 0 ? Object.fromEntries(properties) : null);
  const item = {
    ...(gettable.length > 0 && { get: operation(...inQuery.map(argumentOf)) }),
    post: operation({ name: "args", in: "body", required: true, schema }),
  };
  return [`/rpc/${encodeURIComponent(name)}`, item];
}

/** An argument as a query parameter. Arrays, rows and JSON are passed as text. */
function argumentOf({ name, isRequired, all: [first] }: SharedArgument): object {
  const { shape, isVariadic } = first!;
  const { type = "string", format } = typeOf(shape);
  const parameter = { name, in: "query", required: isRequired };
  if (!isVariadic) return { ...parameter, type: type === "array" ? "string" : type, format };
  return { ...parameter, type: "array", items: typeOf({ ...shape, isArray: false }), collectionFormat: "multi" };
}

function definition(comment: string | null, required: readonly string[], properties: object | null): object {
  const description = plainText(comment);
  return {
    type: "object",
    ...(description && { description }),
    ...(required.length > 0 && { required }),
    ...(properties && { properties }),
  };
}

/** A type as PostgREST describes it: the SQL name is the format. JSON has no type, because it may be any value. */
function typeOf(shape: TypeShape): { type?: string; items?: object; format: string } {
  const format = sqlNameOf(shape);
  if (!shape.isArray) return { ...plainTypeOf(shape), format };
  return { type: "array", items: plainTypeOf({ ...shape, isArray: false }), format };
}

/** Rows and GeoJSON are described as strings, because Postgres can parse them from text. */
function plainTypeOf(shape: TypeShape): { type?: string } {
  const { type } = schemaOf(shape);
  if (type === undefined && shape.category !== "pseudo") return {};
  return { type: type === "boolean" || type === "integer" || type === "number" ? type : "string" };
}

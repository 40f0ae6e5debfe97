import type { Catalog, Column, DatabaseFunction, Table, TypeShape } from "../../../db/catalog/catalog.ts";
import { defaultValue, schemaOf, sqlNameOf } from "../json-schema.ts";
import { documentationOf, plainText } from "../schema-parts.ts";
import type { VisibleTable } from "../visible-catalog.ts";
import { isGettable, type SharedArgument, sharedArguments } from "./function-paths.ts";
import { API_VERSION, type DescriptionOptions } from "./openapi.ts";
import { filtersOf, RESERVED } from "./parameters.ts";
import { type DescribedSchema, describeColumn, describedSchema } from "./table-schemas.ts";

/** OpenAPI 2.0, with the same structure and names as PostgREST 12. */
type SwaggerDocument = {
  readonly swagger: "2.0";
  readonly info: { readonly title: string; readonly description: string; readonly version: string };
  readonly host: string;
  readonly basePath: string;
  readonly schemes: readonly string[];
  readonly consumes: readonly string[];
  readonly produces: readonly string[];
  readonly securityDefinitions: object;
  readonly security: readonly object[];
  readonly paths: Readonly<Record<string, object>>;
  readonly definitions: Readonly<Record<string, object>>;
  readonly parameters: Readonly<Record<string, object>>;
};

/**
 * Describes what a role may do in a schema, for tools made for PostgREST: they read `definitions.posts.properties` and the
 * keys in the descriptions of columns. Throws PGRST106 if the schema is not served.
 */
export function swagger(catalog: Catalog, options: DescriptionOptions): SwaggerDocument {
  const schema = describedSchema(catalog, options);
  const { summary, description } = documentationOf(schema.comment);
  const tables = [...schema.tables.values()];
  return {
    swagger: "2.0",
    info: { title: summary || `Tables of ${schema.name}`, description, version: API_VERSION },
    ...serverOf(options.baseUrl),
    consumes: MEDIA_TYPES,
    produces: MEDIA_TYPES,
    securityDefinitions: SECURITY,
    security: [{ apikey: [] }, { apikey: [], JWT: [] }],
    paths: Object.fromEntries([
      ["/", ROOT],
      ...tables.map(swaggerTablePath),
      ...[...schema.callable].map(([name, overloads]) => swaggerFunctionPath(name, overloads)),
    ]),
    definitions: Object.fromEntries(tables.map((table) => [table.name, swaggerDefinition(schema, table)])),
    parameters: Object.fromEntries([...SWAGGER_PARAMETERS, ...tables.flatMap(swaggerTableParameters)]),
  };
}

function serverOf(baseUrl: string): Pick<SwaggerDocument, "host" | "basePath" | "schemes"> {
  const { host, pathname, protocol } = new URL(baseUrl);
  return { host, basePath: `${pathname.replace(/\/+$/, "")}/rest/v1`, schemes: [protocol.slice(0, -1)] };
}

const MEDIA_TYPES = [
  "application/json",
  "application/vnd.pgrst.object+json;nulls=stripped",
  "application/vnd.pgrst.object+json",
  "text/csv",
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

/** `/posts`, with the methods that the role may use. */
function swaggerTablePath(table: VisibleTable): [string, object] {
  const filters = filtersOf(table).map((column) => `rowFilter.${table.name}.${column.name}`);
  const body = `body.${table.name}`;
  const operation = (responses: object, ...parameters: string[]) => ({
    tags: [table.name],
    ...documentation(table.comment),
    parameters: parameters.map((name) => swaggerReference("parameters", name)),
    responses,
  });
  const item = {
    ...(table.may.select && { get: operation(rowsOf(table), ...filters, ...READING) }),
    ...(table.may.insert && { post: operation(CREATED, body, "select", "preferPost") }),
    ...(table.may.delete && { delete: operation(NO_CONTENT, ...filters, "preferReturn") }),
    ...(table.may.update && { patch: operation(NO_CONTENT, ...filters, body, "preferReturn") }),
  };
  return [`/${encodeURIComponent(table.name)}`, item];
}

const READING = ["select", "order", "range", "rangeUnit", "offset", "limit", "preferCount"];
const CREATED = { 201: { description: "Created" } };
const NO_CONTENT = { 204: { description: "No Content" } };

const rowsOf = ({ name }: Table) => ({
  200: { description: "OK", schema: { type: "array", items: swaggerReference("definitions", name) } },
  206: { description: "Partial Content" },
});

function documentation(comment: string | null): object {
  const { summary, description } = documentationOf(comment);
  return { ...(summary && { summary }), ...(description && { description }) };
}

/** `/rpc/search`: POST, and GET for a read-only function. */
function swaggerFunctionPath(name: string, overloads: readonly DatabaseFunction[]): [string, object] {
  const comment = overloads.find((fn) => fn.comment !== null)?.comment ?? null;
  const operation = (parameters: object[]) => ({
    tags: [`(rpc) ${name}`],
    ...documentation(comment),
    produces: RESULTS,
    parameters,
    responses: { 200: { description: "OK" } },
  });
  const schema = swaggerArguments(comment, sharedArguments(overloads));
  const gettable = overloads.filter(isGettable);
  const query = sharedArguments(gettable).filter(({ name }) => !RESERVED.has(name));
  const item = {
    ...(gettable.length > 0 && { get: operation(query.map(swaggerArgument)) }),
    post: operation([{ name: "args", in: "body", required: true, schema }]),
  };
  return [`/rpc/${encodeURIComponent(name)}`, item];
}

const RESULTS = [
  "application/json",
  "application/vnd.pgrst.object+json;nulls=stripped",
  "application/vnd.pgrst.object+json",
];

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
const COUNT = ["count=exact", "count=planned", "count=estimated"];

/** The parameters that all tables share. */
const SWAGGER_PARAMETERS: readonly [string, object][] = [
  ["preferReturn", header("Prefer", "Preference", { enum: RETURN })],
  ["preferCount", header("Prefer", "Preference", { enum: COUNT })],
  ["preferPost", header("Prefer", "Preference", { enum: [...RETURN, ...RESOLUTION] })],
  ["select", query("select", "Filtering Columns")],
  ["on_conflict", query("on_conflict", "On Conflict")],
  ["order", query("order", "Ordering")],
  ["range", header("Range", "Limiting and Pagination")],
  ["rangeUnit", header("Range-Unit", "Limiting and Pagination", { default: "items" })],
  ["offset", query("offset", "Limiting and Pagination")],
  ["limit", query("limit", "Limiting and Pagination")],
];

/** `body.posts`, and `rowFilter.posts.title` for each readable column. */
function swaggerTableParameters(table: VisibleTable): [string, object][] {
  const { name } = table;
  const schema = swaggerReference("definitions", name);
  const filters = filtersOf(table).map((column): [string, object] => {
    const { description, ...rest } = query(column.name, plainText(column.comment));
    return [
      `rowFilter.${name}.${column.name}`,
      { ...rest, ...(description && { description }), format: sqlNameOf(column.shape) },
    ];
  });
  return [[`body.${name}`, { name, description: name, required: false, in: "body", schema }], ...filters];
}

/** An argument as a query parameter. Arrays, rows and JSON are passed as text. */
function swaggerArgument({ name, isRequired, all: [first] }: SharedArgument): object {
  const { shape, isVariadic } = first!;
  const { type = "string", format } = swaggerType(shape);
  const parameter = { name, in: "query", required: isRequired };
  if (!isVariadic) return { ...parameter, type: type === "array" ? "string" : type, format };
  return { ...parameter, type: "array", items: swaggerType({ ...shape, isArray: false }), collectionFormat: "multi" };
}

/** A JSON pointer, escaped as part of a URL. */
const swaggerReference = (kind: "definitions" | "parameters", name: string): { $ref: string } => ({
  $ref: `#/${kind}/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`,
});

/** A type as PostgREST describes it: the SQL name is the format. JSON has no type, because it may be any value. */
function swaggerType(shape: TypeShape): { type?: string; items?: object; format: string } {
  const format = sqlNameOf(shape);
  if (shape.isArray) return { type: "array", items: typeOf({ ...shape, isArray: false }), format };
  return { ...typeOf(shape), format };
}

/** Rows and GeoJSON are described as strings, because Postgres can parse them from text. */
function typeOf(shape: TypeShape): { type?: string } {
  const { type } = schemaOf(shape);
  if (type === undefined && shape.category !== "pseudo") return {};
  return { type: type === "boolean" || type === "integer" || type === "number" ? type : "string" };
}

/** `definitions.posts`: the columns that the role may read or write. */
function swaggerDefinition(schema: DescribedSchema, table: VisibleTable): object {
  const used = new Set([...table.readable, ...table.insertable, ...table.updatable]);
  const columns = [...table.columns.values()].filter((column) => used.has(column));
  const required = columns.filter(({ isNullable }) => !isNullable).map(({ name }) => name);
  const description = plainText(table.comment);
  return {
    type: "object",
    ...(description && { description }),
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(
      columns.map((column) => [column.name, property(column, describeColumn(schema, table, column))]),
    ),
  };
}

function property(column: Column, description: string): object {
  const { shape, maxLength } = column;
  const initial = defaultOf(column);
  return {
    ...swaggerType(shape),
    ...(description && { description }),
    ...(initial !== undefined && { default: initial }),
    ...(shape.category === "enum" && !shape.isArray && { enum: shape.labels }),
    ...(maxLength !== null && { maxLength }),
  };
}

/** If Postgres computes the default of a string, its expression is shown: `now()`. */
function defaultOf({ defaultExpression, shape }: Column): unknown {
  const { type } = swaggerType(shape);
  if (type === "array" || defaultExpression === null) return undefined;
  if (type !== "string") return defaultValue(defaultExpression, schemaOf(shape));
  return defaultValue(defaultExpression, { type }) ?? defaultExpression;
}

/** The body of a call. OpenAPI 2.0 has no alternatives, so one object contains the arguments of all overloads. */
function swaggerArguments(comment: string | null, all: readonly SharedArgument[]): object {
  const description = plainText(comment);
  const named = all.filter(({ name }) => name !== "");
  const required = named.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    type: "object",
    ...(description && { description }),
    ...(required.length > 0 && { required }),
    ...(named.length > 0 && {
      properties: Object.fromEntries(named.map(({ name, all: [first] }) => [name, swaggerType(first!.shape)])),
    }),
  };
}

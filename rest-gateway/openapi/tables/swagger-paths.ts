import type { DatabaseFunction, FunctionArgument, Table } from "../../../db/catalog/catalog.ts";
import { documentationOf, plainText } from "../comment.ts";
import { sqlNameOf } from "../json-schema.ts";
import { filtersOf } from "./filters.ts";
import { isGettable } from "./function-paths.ts";
import { RESERVED } from "./parameters.ts";
import { swaggerArguments, swaggerType } from "./swagger-definitions.ts";
import type { TableAccess } from "./visible-schema.ts";

/** `/articles`, with the methods that the role may use. */
export function swaggerTablePath(access: TableAccess): [string, object] {
  const { table } = access;
  const filters = filtersOf(access).map((column) => `rowFilter.${table.name}.${column.name}`);
  const body = `body.${table.name}`;
  const operation = (responses: object, ...parameters: string[]) => ({
    tags: [table.name],
    ...documentation(table.comment),
    parameters: parameters.map((name) => swaggerReference("parameters", name)),
    responses,
  });
  const item = {
    ...(access.isReadable && { get: operation(rowsOf(table), ...filters, ...READING) }),
    ...(access.isInsertable && { post: operation(CREATED, body, "select", "preferPost") }),
    ...(access.isDeletable && { delete: operation(NO_CONTENT, ...filters, "preferReturn") }),
    ...(access.isUpdatable && { patch: operation(NO_CONTENT, ...filters, body, "preferReturn") }),
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
export function swaggerFunctionPath(name: string, overloads: readonly DatabaseFunction[]): [string, object] {
  const comment = overloads.find((fn) => fn.comment !== null)?.comment ?? null;
  const operation = (parameters: object[]) => ({
    tags: [`(rpc) ${name}`],
    ...documentation(comment),
    produces: RESULTS,
    parameters,
    responses: { 200: { description: "OK" } },
  });
  const schema = swaggerArguments(comment, combinedArguments(overloads));
  const gettable = overloads.filter(isGettable);
  const query = combinedArguments(gettable).filter((argument) => !RESERVED.has(argument.name));
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

/** The arguments of all overloads by name. An argument is required if all overloads require it. */
function combinedArguments(overloads: readonly DatabaseFunction[]): FunctionArgument[] {
  const byName = Map.groupBy(
    overloads.flatMap((fn) => fn.arguments),
    ({ name }) => name,
  );
  return [...byName.values()].map((same) => ({
    ...same[0]!,
    isRequired: same.length === overloads.length && same.every(({ isRequired }) => isRequired),
  }));
}

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
export const SWAGGER_PARAMETERS: readonly [string, object][] = [
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

/** `body.articles`, and `rowFilter.articles.title` for each readable column. */
export function swaggerTableParameters(access: TableAccess): [string, object][] {
  const { name } = access.table;
  const schema = swaggerReference("definitions", name);
  const filters = filtersOf(access).map((column): [string, object] => {
    const { description, ...rest } = query(column.name, plainText(column.comment));
    return [
      `rowFilter.${name}.${column.name}`,
      { ...rest, ...(description && { description }), format: sqlNameOf(column.shape) },
    ];
  });
  return [[`body.${name}`, { name, description: name, required: false, in: "body", schema }], ...filters];
}

/** An argument as a query parameter. Arrays, rows and JSON are passed as text. */
function swaggerArgument({ name, shape, isRequired, isVariadic }: FunctionArgument): object {
  const { type = "string", format } = swaggerType(shape);
  const parameter = { name, in: "query", required: isRequired };
  if (!isVariadic) return { ...parameter, type: type === "array" ? "string" : type, format };
  return { ...parameter, type: "array", items: swaggerType({ ...shape, isArray: false }), collectionFormat: "multi" };
}

/** A JSON pointer, escaped as part of a URL. */
const swaggerReference = (kind: "definitions" | "parameters", name: string): { $ref: string } => ({
  $ref: `#/${kind}/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`,
});

import type { DatabaseFunction, FunctionArgument, TypeShape } from "../../../db/catalog/catalog.ts";
import { rawBodyOf } from "../../table/plan/call.ts";
import { mediaTypeOfDomain } from "../../table/plan/format.ts";
import type { Content, JsonSchema, Operation, Parameter, PathItem, Reference } from "../document.ts";
import { anyOf, nullable, schemaOf, sqlNameOf, textSchemaOf } from "../json-schema.ts";
import { documentationOf, queryParameter, refer } from "../schema-parts.ts";
import { profileParameters, RESERVED, shared } from "./parameters.ts";
import { type ErrorStatus, errors, headers, rowsContent } from "./responses.ts";
import { recordSchema } from "./table-schemas.ts";
import type { NamedSchema, VisibleSchema } from "./visible-schema.ts";

/** The tag of all functions. */
export const FUNCTIONS_TAG = "Functions (rpc)";

/** `/rpc/search`: POST, and GET for a read-only function. Overloads share the path. */
export function functionPath(
  visible: NamedSchema,
  name: string,
  overloads: readonly DatabaseFunction[],
): [string, PathItem] {
  const gettable = overloads.filter(isGettable);
  const item = {
    ...(gettable.length > 0 && { get: getOperation(visible, name, gettable) }),
    post: postOperation(visible, name, overloads),
  };
  return [`/rpc/${encodeURIComponent(name)}`, item];
}

/** Whether GET can call the function: it is read-only, and a query string can contain its arguments. */
export const isGettable = (fn: DatabaseFunction) =>
  fn.volatility !== "volatile" &&
  rawBodyOf(fn) === null &&
  fn.arguments.every(({ name, isRequired }) => !isRequired || !RESERVED.has(name));

const getOperation = (visible: NamedSchema, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `query_${visible.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [
    ...argumentParameters(overloads),
    ...resultParameters(overloads),
    ...(returnsRows(overloads) ? shared("range", "rangeUnit") : []),
    ...profileParameters(visible, "Accept-Profile"),
  ],
  responses: responses(visible, overloads, [400, 401, 403, 404, 406, 416]),
});

const postOperation = (visible: NamedSchema, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `call_${visible.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [...resultParameters(overloads), ...profileParameters(visible, "Content-Profile")],
  requestBody: {
    required: overloads.every((fn) => fn.arguments.some(({ isRequired }) => isRequired)),
    content: bodyContent(visible, overloads),
  },
  responses: responses(visible, overloads, [400, 401, 403, 404, 406, 409, 416]),
});

/** The comment of the first overload that has one. */
function described(
  name: string,
  overloads: readonly DatabaseFunction[],
): Pick<Operation, "tags" | "summary" | "description"> {
  const comments = overloads.map(({ comment }) => documentationOf(comment));
  const { summary, description } = comments.find((comment) => comment.summary !== "") ?? comments[0]!;
  return { tags: [FUNCTIONS_TAG], summary: summary || name, ...(description && { description }) };
}

const isRow = ({ returns: { kind } }: DatabaseFunction) => kind !== "void" && kind !== "scalar";
const isSet = ({ returns }: DatabaseFunction) => "isSet" in returns && returns.isSet;
const returnsRows = (overloads: readonly DatabaseFunction[]) => overloads.some((fn) => isRow(fn) && isSet(fn));

function resultParameters(overloads: readonly DatabaseFunction[]): (Parameter | Reference)[] {
  if (returnsRows(overloads)) return shared("select", "order", "limit", "offset", "and", "or", "preferRead");
  return overloads.some(isRow) ? shared("select") : [];
}

function responses(
  visible: NamedSchema,
  overloads: readonly DatabaseFunction[],
  statuses: readonly ErrorStatus[],
): Operation["responses"] {
  const results = overloads.map((fn) => resultContent(visible, fn));
  const contents = results.filter((content) => content !== null);
  const isRead = overloads.some(({ volatility }) => volatility !== "volatile");
  const result = {
    content: combineContents(contents),
    ...headers(
      ...(returnsRows(overloads) ? (["contentRange"] as const) : []),
      ...(isRead ? (["changePosition"] as const) : []),
    ),
  };
  return {
    ...(contents.length > 0 && { 200: { description: "Returns the result of the function.", ...result } }),
    ...(contents.length < results.length && { 204: { description: "The function has run. It returns no value." } }),
    ...(returnsRows(overloads) && {
      206: { description: "Returns some of the rows; `Content-Range` has their total number.", ...result },
    }),
    ...errors(...statuses),
  };
}

/** The body of a call, by media type: an object with the named arguments, or the value of the single unnamed argument. */
function bodyContent(visible: VisibleSchema, overloads: readonly DatabaseFunction[]): Content {
  const byType = Map.groupBy(overloads, (fn) => rawBodyOf(fn) ?? "application/json");
  const entries = [...byType].map(([type, fns]) => [type, { schema: anyOf(fns.map((fn) => bodySchema(visible, fn))) }]);
  return Object.fromEntries(entries);
}

function bodySchema(visible: VisibleSchema, fn: DatabaseFunction): JsonSchema {
  if (rawBodyOf(fn) !== null) return schemaOf(fn.arguments[0]!.shape);
  const required = fn.arguments.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(fn.arguments.map((argument) => [argument.name, argumentSchema(visible, argument)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

/** If the argument is a row of a table, its schema lists the columns of the table. */
function argumentSchema(visible: VisibleSchema, { shape }: FunctionArgument): JsonSchema {
  const table = shape.schema === visible.schema.name ? visible.tables.get(shape.name) : undefined;
  if (shape.category === "composite" && !shape.isArray && table !== undefined) return recordSchema(table);
  return { ...schemaOf(shape), description: `\`${sqlNameOf(shape)}\`` };
}

/** The arguments of all overloads as query parameters. */
function argumentParameters(overloads: readonly DatabaseFunction[]): Parameter[] {
  const names = new Set(overloads.flatMap((fn) => fn.arguments.map(({ name }) => name)));
  return [...names]
    .filter((name) => !RESERVED.has(name))
    .map((name) => {
      const found = overloads.map((fn) => fn.arguments.find((argument) => argument.name === name));
      const present = found.filter((argument) => argument !== undefined);
      const types = [...new Set(present.map(({ shape }) => `\`${sqlNameOf(shape)}\``))];
      const schema = anyOf(present.map((argument) => querySchema(argument)));
      return {
        ...queryParameter(name, types.join(" or "), schema),
        required: found.every((argument) => argument?.isRequired ?? false),
      };
    });
}

/** A variadic argument is repeated for each value: `?v=1&v=2`. */
const querySchema = ({ isVariadic, shape }: FunctionArgument) => (isVariadic ? schemaOf(shape) : textSchemaOf(shape));

/** The response body by media type; null if the function returns void. */
function resultContent(visible: NamedSchema, { returns }: DatabaseFunction): Content | null {
  if (returns.kind === "void") return null;
  if (returns.kind === "scalar") return scalarContent(returns.shape, returns.isSet);
  const row = rowSchema(visible, returns);
  return returns.isSet ? rowsContent(row) : rowContent(row);
}

/** A domain named like a media type is sent unchanged, with this media type. */
function scalarContent(shape: TypeShape, isSet: boolean): Content {
  const mediaType = mediaTypeOfDomain(shape.domain);
  if (mediaType !== null) return { [mediaType]: { schema: { type: "string" } } };
  const schema = schemaOf(shape);
  return { "application/json": { schema: isSet ? { type: "array", items: schema } : nullable(schema) } };
}

const rowContent = (row: JsonSchema): Content => ({
  "application/json": { schema: row },
  "application/vnd.pgrst.object+json": { schema: row },
});

type RowResult = Exclude<DatabaseFunction["returns"], { kind: "void" | "scalar" }>;

function rowSchema(visible: NamedSchema, returns: RowResult): JsonSchema {
  if (returns.kind === "composite") {
    const properties = [...returns.columns].map(([name, { shape }]) => [name, nullable(schemaOf(shape))]);
    return { type: "object", properties: Object.fromEntries(properties) };
  }
  if (returns.kind === "record" || returns.table.schema !== visible.schema.name) return { type: "object" };
  const table = visible.tables.get(returns.table.name);
  return table?.isReadable ? refer("schemas", visible.tableKey(table.table)) : { type: "object" };
}

/** Combines the response bodies of overloads. */
function combineContents(contents: readonly Content[]): Content {
  const byType = Map.groupBy(contents.flatMap(Object.entries<Content[string]>), ([type]) => type);
  return Object.fromEntries(
    [...byType].map(([type, entries]) => [type, { schema: anyOf(entries.map(([, { schema }]) => schema)) }]),
  );
}

import type { DatabaseFunction, FunctionArgument, TypeShape } from "../../../db/catalog/catalog.ts";
import { documentationOf } from "../comment.ts";
import type { Content, JsonSchema, Operation, Parameter, PathItem, Reference } from "../document.ts";
import { anyOf, nullable, schemaOf, sqlNameOf, textSchemaOf } from "../json-schema.ts";
import { queryParameter, refer } from "../schema-parts.ts";
import { profileParameters, RESERVED, shared } from "./parameters.ts";
import { type ErrorStatus, errors, headers, rowsContent } from "./responses.ts";
import { recordSchema } from "./table-schemas.ts";
import { type NamedOffer, type Offer, rawBodyOf } from "./visible-schema.ts";

/** The tag of all functions. */
export const FUNCTIONS_TAG = "Functions (rpc)";

/** `/rpc/search`: POST, and GET for a function that changes nothing. Overloads share the path. */
export function functionPath(
  offer: NamedOffer,
  name: string,
  overloads: readonly DatabaseFunction[],
): [string, PathItem] {
  const gettable = overloads.filter(isGettable);
  const item = {
    ...(gettable.length > 0 && { get: getOperation(offer, name, gettable) }),
    post: postOperation(offer, name, overloads),
  };
  return [`/rpc/${encodeURIComponent(name)}`, item];
}

/** Whether GET can call it: it writes nothing, and its arguments fit into a query string. */
export const isGettable = (fn: DatabaseFunction) =>
  fn.volatility !== "volatile" &&
  rawBodyOf(fn) === null &&
  fn.arguments.every(({ name, isRequired }) => !isRequired || !RESERVED.has(name));

const getOperation = (offer: NamedOffer, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `query_${offer.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [
    ...argumentParameters(overloads),
    ...resultParameters(overloads),
    ...(returnsRows(overloads) ? shared("range", "rangeUnit") : []),
    ...profileParameters(offer, "Accept-Profile"),
  ],
  responses: responses(offer, overloads, [400, 401, 403, 404, 406, 416]),
});

const postOperation = (offer: NamedOffer, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `call_${offer.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [...resultParameters(overloads), ...profileParameters(offer, "Content-Profile")],
  requestBody: {
    required: overloads.every((fn) => fn.arguments.some(({ isRequired }) => isRequired)),
    content: bodyContent(offer, overloads),
  },
  responses: responses(offer, overloads, [400, 401, 403, 404, 406, 409, 416]),
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
  offer: NamedOffer,
  overloads: readonly DatabaseFunction[],
  statuses: readonly ErrorStatus[],
): Operation["responses"] {
  const results = overloads.map((fn) => resultContent(offer, fn));
  const contents = results.filter((content) => content !== null);
  const result = { content: uniteContents(contents), ...(returnsRows(overloads) && headers("contentRange")) };
  return {
    ...(contents.length > 0 && { 200: { description: "What the function returns.", ...result } }),
    ...(contents.length < results.length && { 204: { description: "Done; the function returns nothing." } }),
    ...(returnsRows(overloads) && { 206: { description: "Some of the rows, when they were counted.", ...result } }),
    ...errors(...statuses),
  };
}

/** The body of a call, by media type: an object of the named arguments, or the one unnamed argument itself. */
export function bodyContent(offer: Offer, overloads: readonly DatabaseFunction[]): Content {
  const byType = Map.groupBy(overloads, (fn) => rawBodyOf(fn) ?? "application/json");
  const entries = [...byType].map(([type, fns]) => [type, { schema: anyOf(fns.map((fn) => bodySchema(offer, fn))) }]);
  return Object.fromEntries(entries);
}

function bodySchema(offer: Offer, fn: DatabaseFunction): JsonSchema {
  if (rawBodyOf(fn) !== null) return schemaOf(fn.arguments[0]!.shape);
  const required = fn.arguments.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(fn.arguments.map((argument) => [argument.name, argumentSchema(offer, argument)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

/** An argument that is a row of a table is told with the columns of the table. */
function argumentSchema(offer: Offer, { shape }: FunctionArgument): JsonSchema {
  const table = shape.schema === offer.schema.name ? offer.tables.get(shape.name) : undefined;
  if (shape.category === "composite" && !shape.isArray && table !== undefined) return recordSchema(table);
  return { ...schemaOf(shape), description: `\`${sqlNameOf(shape)}\`` };
}

/** Arguments in a query string; those of overloads stand side by side. */
export function argumentParameters(overloads: readonly DatabaseFunction[]): Parameter[] {
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

/** The values of a variadic argument are named one by one: `?v=1&v=2`. */
const querySchema = ({ isVariadic, shape }: FunctionArgument) => (isVariadic ? schemaOf(shape) : textSchemaOf(shape));

/** What the function answers, by media type; null when it returns nothing. */
export function resultContent(offer: NamedOffer, { returns }: DatabaseFunction): Content | null {
  if (returns.kind === "void") return null;
  if (returns.kind === "scalar") return scalarContent(returns.shape, returns.isSet);
  const row = rowSchema(offer, returns);
  return returns.isSet ? rowsContent(row) : rowContent(row);
}

/** A domain that is named like a media type is answered as such, as it is. */
function scalarContent(shape: TypeShape, isSet: boolean): Content {
  const mediaType = /"([^"/]+\/[^"/]+)"$/.exec(shape.domain ?? "")?.[1];
  if (mediaType !== undefined) return { [mediaType]: { schema: { type: "string" } } };
  const schema = schemaOf(shape);
  return { "application/json": { schema: isSet ? { type: "array", items: schema } : nullable(schema) } };
}

const rowContent = (row: JsonSchema): Content => ({
  "application/json": { schema: row },
  "application/vnd.pgrst.object+json": { schema: row },
});

type RowResult = Exclude<DatabaseFunction["returns"], { kind: "void" | "scalar" }>;

function rowSchema(offer: NamedOffer, returns: RowResult): JsonSchema {
  if (returns.kind === "composite") {
    const properties = [...returns.columns].map(([name, { shape }]) => [name, nullable(schemaOf(shape))]);
    return { type: "object", properties: Object.fromEntries(properties) };
  }
  if (returns.kind === "record" || returns.table.schema !== offer.schema.name) return { type: "object" };
  const table = offer.tables.get(returns.table.name);
  return table?.isReadable ? refer("schemas", offer.tableKey(table.table)) : { type: "object" };
}

/** The contents of overloads in one. */
export function uniteContents(contents: readonly Content[]): Content {
  const byType = Map.groupBy(contents.flatMap(Object.entries<Content[string]>), ([type]) => type);
  return Object.fromEntries(
    [...byType].map(([type, entries]) => [type, { schema: anyOf(entries.map(([, { schema }]) => schema)) }]),
  );
}

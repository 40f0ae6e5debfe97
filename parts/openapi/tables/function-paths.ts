import type { DatabaseFunction, FunctionArgument } from "../../../db/catalog/catalog.ts";
import { rawBodyOf } from "../../../rest-gateway/table/plan/call.ts";
import { mediaTypeOfDomain } from "../../../rest-gateway/table/plan/format.ts";
import type { Content, JsonSchema, Operation, Parameter, PathItem } from "../document.ts";
import { anyOf, nullable, schemaOf, sqlNameOf, textSchemaOf } from "../json-schema.ts";
import { arrayOf, documentationOf, objectOf, queryParameter, refer, shared } from "../schema-parts.ts";
import { profileParameters, RESERVED } from "./parameters.ts";
import { errors, headers, rowsContent } from "./responses.ts";
import { type DescribedSchema, recordSchema } from "./table-schemas.ts";

/** The tag of all functions. */
export const FUNCTIONS_TAG = "Functions (rpc)";

/** The overloads of a name, which share a path. */
type Overloads = readonly DatabaseFunction[];

/** `/rpc/search`: POST, and GET for a read-only function. */
export function functionPath(schema: DescribedSchema, name: string, overloads: Overloads): [string, PathItem] {
  const gettable = overloads.filter(isGettable);
  const key = schema.functionKeys.get(name)!;
  const get: Operation = {
    operationId: `query_${key}`,
    ...described(name, gettable),
    parameters: [
      ...argumentParameters(gettable),
      ...resultParameters(gettable),
      ...(returnsRows(gettable) ? shared("range", "rangeUnit") : []),
      ...profileParameters(schema, "Accept-Profile"),
    ],
    responses: { ...results(schema, gettable), ...errors(400, 401, 403, 404, 406, 416) },
  };
  const post: Operation = {
    operationId: `call_${key}`,
    ...described(name, overloads),
    parameters: [...resultParameters(overloads), ...profileParameters(schema, "Content-Profile")],
    requestBody: {
      required: overloads.every((fn) => fn.arguments.some(({ isRequired }) => isRequired)),
      content: combine(overloads.map((fn) => bodyOf(schema, fn))),
    },
    responses: { ...results(schema, overloads), ...errors(400, 401, 403, 404, 406, 409, 416) },
  };
  return [`/rpc/${encodeURIComponent(name)}`, { ...(gettable.length > 0 && { get }), post }];
}

/** Whether GET can call the function: it is read-only, and a query string can contain its arguments. */
export const isGettable = (fn: DatabaseFunction) =>
  fn.volatility !== "volatile" &&
  rawBodyOf(fn) === null &&
  fn.arguments.every(({ name, isRequired }) => !isRequired || !RESERVED.has(name));

/** The comment of the first overload that has one. */
function described(name: string, overloads: Overloads): Pick<Operation, "tags" | "summary" | "description"> {
  const comments = overloads.map(({ comment }) => documentationOf(comment));
  const { summary = "", description } = comments.find((comment) => comment.summary !== "") ?? {};
  return { tags: [FUNCTIONS_TAG], summary: summary || name, ...(description && { description }) };
}

const isRow = ({ returns: { kind } }: DatabaseFunction) => kind !== "void" && kind !== "scalar";
const isSet = ({ returns }: DatabaseFunction) => "isSet" in returns && returns.isSet;
const returnsRows = (overloads: Overloads) => overloads.some((fn) => isRow(fn) && isSet(fn));

function resultParameters(overloads: Overloads) {
  if (returnsRows(overloads)) return shared("select", "order", "limit", "offset", "and", "or", "preferRead");
  return overloads.some(isRow) ? shared("select") : [];
}

function results(schema: DescribedSchema, overloads: Overloads): Operation["responses"] {
  const contents = overloads.filter(({ returns }) => returns.kind !== "void").map((fn) => resultOf(schema, fn));
  const hasRows = returnsRows(overloads);
  const isRead = overloads.some(({ volatility }) => volatility !== "volatile");
  const result = {
    content: combine(contents),
    ...headers(...(hasRows ? (["Content-Range"] as const) : []), ...(isRead ? (["Change-Position"] as const) : [])),
  };
  return {
    ...(contents.length > 0 && { 200: { description: "Returns the result of the function.", ...result } }),
    ...(contents.length < overloads.length && { 204: { description: "The function has run. It returns no value." } }),
    ...(hasRows && {
      206: { description: "Returns some of the rows; `Content-Range` has their total number.", ...result },
    }),
  };
}

/** Bodies of overloads by media type. */
function combine(contents: readonly Content[]): Content {
  const byType = Map.groupBy(contents.flatMap(Object.entries<Content[string]>), ([type]) => type);
  return Object.fromEntries(
    [...byType].map(([type, entries]) => [type, { schema: anyOf(entries.map(([, { schema }]) => schema)) }]),
  );
}

/** An object with the named arguments, or the value of the single unnamed argument. */
function bodyOf(schema: DescribedSchema, fn: DatabaseFunction): Content {
  const type = rawBodyOf(fn);
  if (type !== null) return { [type]: { schema: schemaOf(fn.arguments[0]!.shape) } };
  const required = fn.arguments.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const properties = fn.arguments.map((argument) => [argument.name, argumentSchema(schema, argument)]);
  const object = objectOf(Object.fromEntries(properties), "", required);
  return { "application/json": { schema: { ...object, additionalProperties: false } } };
}

/** If the argument is a row of a table, its schema lists the columns of the table. */
function argumentSchema(schema: DescribedSchema, { shape }: FunctionArgument): JsonSchema {
  const table = shape.schema === schema.name ? schema.tables.get(shape.name) : undefined;
  if (shape.category === "composite" && !shape.isArray && table !== undefined) return recordSchema(table);
  return { ...schemaOf(shape), description: `\`${sqlNameOf(shape)}\`` };
}

/** An argument of some overloads. It is required if all of them require it. */
export type SharedArgument = {
  readonly name: string;
  readonly isRequired: boolean;
  readonly all: readonly FunctionArgument[];
};

export function sharedArguments(overloads: Overloads): readonly SharedArgument[] {
  const byName = Map.groupBy(
    overloads.flatMap((fn) => fn.arguments),
    ({ name }) => name,
  );
  return [...byName].map(([name, all]) => ({
    name,
    isRequired: all.length === overloads.length && all.every(({ isRequired }) => isRequired),
    all,
  }));
}

/** A variadic argument is repeated for each value: `?v=1&v=2`. */
const argumentParameters = (overloads: Overloads): Parameter[] =>
  sharedArguments(overloads).flatMap(({ name, isRequired, all }) => {
    if (RESERVED.has(name)) return [];
    const types = new Set(all.map(({ shape }) => `\`${sqlNameOf(shape)}\``));
    const schema = anyOf(all.map(({ isVariadic, shape }) => (isVariadic ? schemaOf(shape) : textSchemaOf(shape))));
    return [{ ...queryParameter(name, [...types].join(" or "), schema), required: isRequired }];
  });

function resultOf(schema: DescribedSchema, fn: DatabaseFunction): Content {
  const { returns } = fn;
  if (returns.kind === "scalar") {
    // A domain named like a media type is sent unchanged, with this media type.
    const mediaType = mediaTypeOfDomain(returns.shape.domain);
    if (mediaType !== null) return { [mediaType]: { schema: { type: "string" } } };
    const value = schemaOf(returns.shape);
    return { "application/json": { schema: returns.isSet ? arrayOf(value) : nullable(value) } };
  }
  const row = rowSchema(schema, returns);
  if (isSet(fn)) return rowsContent(row);
  return { "application/json": { schema: row }, "application/vnd.pgrst.object+json": { schema: row } };
}

function rowSchema(schema: DescribedSchema, returns: DatabaseFunction["returns"]): JsonSchema {
  if (returns.kind === "composite") {
    const properties = [...returns.columns].map(([name, { shape }]) => [name, nullable(schemaOf(shape))]);
    return objectOf(Object.fromEntries(properties), "", []);
  }
  const isOwn = returns.kind === "table" && returns.table.schema === schema.name;
  const table = isOwn ? schema.tables.get(returns.table.name) : undefined;
  return table?.may.select ? refer("schemas", schema.tableKeys.get(table.name)!) : { type: "object" };
}

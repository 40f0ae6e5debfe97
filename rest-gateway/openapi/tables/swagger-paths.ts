import type { DatabaseFunction, FunctionArgument, Table } from "../../db/catalog/catalog.ts";
import { documentationOf } from "./comment.ts";
import { filtersOf } from "./filters.ts";
import { isGettable } from "./function-paths.ts";
import { RESERVED } from "./parameters.ts";
import { swaggerArguments } from "./swagger-definitions.ts";
import { swaggerArgument, swaggerReference } from "./swagger-parameters.ts";
import type { OfferedTable } from "./visible-schema.ts";

/** `/articles`, with the methods that the role may use. */
export function swaggerTablePath(offered: OfferedTable): [string, object] {
  const { table } = offered;
  const filters = filtersOf(offered).map((column) => `rowFilter.${table.name}.${column.name}`);
  const body = `body.${table.name}`;
  const operation = (responses: object, ...parameters: string[]) => ({
    tags: [table.name],
    ...documentation(table.comment),
    parameters: parameters.map((name) => swaggerReference("parameters", name)),
    responses,
  });
  const item = {
    ...(offered.isReadable && { get: operation(rowsOf(table), ...filters, ...READING) }),
    ...(offered.isInsertable && { post: operation(CREATED, body, "select", "preferPost") }),
    ...(offered.isDeletable && { delete: operation(NO_CONTENT, ...filters, "preferReturn") }),
    ...(offered.isUpdatable && { patch: operation(NO_CONTENT, ...filters, body, "preferReturn") }),
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

/** `/rpc/search`: POST, and GET for a function that changes nothing. */
export function swaggerFunctionPath(name: string, overloads: readonly DatabaseFunction[]): [string, object] {
  const comment = overloads.find((fn) => fn.comment !== null)?.comment ?? null;
  const operation = (parameters: object[]) => ({
    tags: [`(rpc) ${name}`],
    ...documentation(comment),
    produces: RESULTS,
    parameters,
    responses: { 200: { description: "OK" } },
  });
  const schema = swaggerArguments(comment, unitedArguments(overloads));
  const gettable = overloads.filter(isGettable);
  const query = unitedArguments(gettable).filter((argument) => !RESERVED.has(argument.name));
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

/** The arguments of all overloads by name; required is what all of them require. */
function unitedArguments(overloads: readonly DatabaseFunction[]): FunctionArgument[] {
  const byName = Map.groupBy(
    overloads.flatMap((fn) => fn.arguments),
    ({ name }) => name,
  );
  return [...byName.values()].map((same) => ({
    ...same[0]!,
    isRequired: same.length === overloads.length && same.every(({ isRequired }) => isRequired),
  }));
}

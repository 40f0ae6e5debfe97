import { type Catalog, type DatabaseFunction, type FunctionResult, tableOf } from "../../../db/catalog/catalog.ts";
import { mayExecute } from "../../../db/catalog/grants.ts";
import { similarTo } from "../../../db/catalog/similar.ts";
import {
  type CallArguments,
  type CallPlan,
  type Count,
  type Format,
  type RowSource,
  VALUE,
} from "../../../db/query/plan.ts";
import { problem } from "../../../problems/problem.ts";
import { ambiguousFunction, JSON_IN_FORM, noSuchColumn, noSuchFunction } from "../problem.ts";
import type { Body, SelectItem, TableRequest } from "../request.ts";
import { isJsonInForm } from "./changes.ts";
import { type RowOptions, RowPlanner, sourceOf } from "./rows.ts";

export type Call = { readonly function: DatabaseFunction; readonly arguments: CallArguments };

/**
 * The overload that accepts the arguments: every required one is given, and each given one exists. Otherwise the one whose
 * single unnamed argument receives a body of this media type. Source: PostgREST docs, "Functions as RPC".
 */
export function findCall(request: TableRequest, catalog: Catalog, schema: string): Call {
  const { body, target } = request;
  const { name } = target;
  const overloads = catalog.schemas.get(schema)!.functions.get(name) ?? [];
  const given = givenNames(request);
  const named = given === null ? [] : overloads.filter((each) => matches(each, given));
  const unnamed = body === null ? [] : overloads.filter((each) => namesUnnamed(each, given));
  const whole = body === null ? [] : overloads.filter((each) => rawBodyOf(each) === typeOf(body));
  const candidates = [[...named, ...unnamed], whole].find(({ length }) => length > 0) ?? [];
  if (candidates.length > 1) throw ambiguousFunction(candidates.toSorted(byTypes).map(signatureOf));
  const [match] = candidates;
  if (match === undefined) throw unknownFunction(request, catalog, schema, given, overloads);
  if (named.length > 0) return { function: match, arguments: namedArguments(request, match, given!) };
  const isJson = body!.kind === "json";
  return { function: match, arguments: { kind: "whole", argument: match.arguments[0]!, isJson } };
}

export function planCall(
  request: TableRequest,
  catalog: Catalog,
  call: Call,
  count: Count | null,
  format: Format,
  options: RowOptions & { readonly maxBytes: number | null },
): CallPlan {
  const { method, preferences, query } = request;
  const { returns } = call.function;
  const maxAffected = preferences.handling === "strict" ? preferences.maxAffected : null;
  if (maxAffected !== null && !isSet(returns)) throw problem("max affected needs set");
  const isReadOnly = method !== "POST" || call.function.volatility !== "volatile";
  const source = rowSourceOf(returns, catalog);
  const rows = new RowPlanner(catalog, query, options).plan(source, source.table?.name ?? call.function.name);
  if (!givesRows(returns)) refuseSelect(query.select, call.function.name);
  return {
    kind: "call",
    format,
    maxAffected,
    maxBytes: isReadOnly ? null : options.maxBytes,
    function: call.function,
    arguments: call.arguments,
    rows: givesRows(returns) || isSet(returns) ? rows : null,
    count,
    isReadOnly,
    isBodiless: method === "HEAD",
  };
}

const isSet = (returns: FunctionResult) => "isSet" in returns && returns.isSet;
const givesRows = ({ kind }: FunctionResult) => kind === "table" || kind === "composite";

/** The columns for filters and order: none for a single value, and none for a `record`, whose columns are not known in advance. */
function rowSourceOf(returns: FunctionResult, catalog: Catalog): RowSource {
  if (returns.kind === "table") return sourceOf(tableOf(catalog, returns.table)!);
  if (returns.kind === "composite") return { table: null, columns: returns.columns };
  const value = returns.kind === "scalar" && returns.isSet ? [{ ...returns, name: VALUE }] : [];
  return { table: null, columns: new Map(value.map((column) => [column.name, column])) };
}

/** Scalar values are not objects, so they have no keys to select. */
function refuseSelect(select: readonly SelectItem[], name: string): void {
  for (const item of select)
    if (item.kind === "field") throw noSuchColumn(name, item.field?.name ?? item.aggregate?.name ?? VALUE);
}

/** Null when the body is neither an object nor a list of objects: only a function with one unnamed argument accepts it. */
function givenNames({ method, query, body }: TableRequest): ReadonlySet<string> | null {
  if (method !== "POST") return new Set(query.arguments.keys());
  if (body?.kind !== "json" || body.isOther) return null;
  const names = query.columns ?? body.keys;
  return names && new Set(names);
}

const matches = ({ arguments: all }: DatabaseFunction, given: ReadonlySet<string>) =>
  all.every(({ name, isRequired }) => !isRequired || given.has(name)) &&
  [...given].every((name) => name !== "" && all.some((argument) => argument.name === name));

/** Clients with generated types name an unnamed argument `""`: `{"": "text"}`. The function receives this object. */
const namesUnnamed = (each: DatabaseFunction, given: ReadonlySet<string> | null) =>
  given?.size === 1 && given.has("") && rawBodyOf(each) !== null;

const typesOf = ({ arguments: all }: DatabaseFunction) => all.map(({ type }) => type).join(", ");
const byTypes = (one: DatabaseFunction, other: DatabaseFunction) => (typesOf(one) < typesOf(other) ? -1 : 1);

function namedArguments(
  { method, query, body }: TableRequest,
  match: DatabaseFunction,
  given: ReadonlySet<string>,
): CallArguments {
  const used = match.arguments.filter(({ name }) => given.has(name));
  if (method === "POST") {
    const json = body as Extract<Body, { kind: "json" }>;
    return { kind: "body", arguments: used, isArray: json.isArray, isForm: json.source === "form" };
  }
  const values = used.map((argument) => ({ argument, values: query.arguments.get(argument.name)! }));
  return { kind: "named", values };
}

/** The media type of the body, by the type of a single unnamed argument that receives the whole body. */
const RAW_BODIES: ReadonlyMap<string, string> = new Map([
  ["json", "application/json"],
  ["jsonb", "application/json"],
  ["text", "text/plain"],
  ["xml", "text/xml"],
  ["bytea", "application/octet-stream"],
]);

/** The media type of the body if it is passed as the single unnamed argument; otherwise null. */
export function rawBodyOf({ arguments: [first, ...others] }: DatabaseFunction): string | null {
  if (first === undefined || others.length > 0 || first.name !== "" || first.shape.isArray) return null;
  return RAW_BODIES.get(first.shape.name) ?? null;
}

/** Undefined for forms and CSV, which only supply named arguments. */
function typeOf(body: Body): string | undefined {
  if (body.kind === "text") return body.type;
  return body.source === "json" ? "application/json" : undefined;
}
const wholeTypes = (body: Body) => [...RAW_BODIES].flatMap(([name, type]) => (type === typeOf(body) ? [name] : []));

/** `public.add(a => integer, b => integer)` */
const signatureOf = ({ schema, name, arguments: all }: DatabaseFunction) =>
  `${schema}.${name}(${all.map((each) => (each.name === "" ? each.type : `${each.name} => ${each.type}`)).join(", ")})`;

function unknownFunction(
  { target, body }: TableRequest,
  catalog: Catalog,
  schema: string,
  given: ReadonlySet<string> | null,
  overloads: readonly DatabaseFunction[],
) {
  const name = `${schema}.${target.name}`;
  const names = [...(given ?? [])].sort().join(", ");
  const signature = given === null ? name : names === "" ? `${name} without parameters` : `${name}(${names})`;
  const wanted = [
    ...(given === null ? [] : [names === "" ? "without parameters" : `with parameters ${names}`]),
    ...(body === null || typeOf(body) === undefined
      ? []
      : [`with a single unnamed ${wholeTypes(body).join("/")} parameter`]),
  ];
  const details = `Searched for the function ${name} ${wanted.join(" or ")}, but no matches were found in the schema cache.`;
  if (isJsonInForm(body)) return noSuchFunction(signature, details, () => JSON_IN_FORM);
  if (overloads.length > 0)
    return noSuchFunction(signature, details, () => `It exists as ${overloads.map(signatureOf).join(" or ")}`);
  return noSuchFunction(signature, details, ({ role }) => {
    const functions = [...catalog.schemas.get(schema)!.functions];
    const usable = functions.filter(([, all]) => all.some((each) => mayExecute(catalog, role, each)));
    const similar = similarTo(
      target.name,
      usable.map(([name]) => name),
    );
    return similar && `Perhaps you meant to call the function ${schema}.${similar}`;
  });
}

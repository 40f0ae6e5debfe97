import { forObjects } from "../../../cache/cache.ts";
import type { Condition } from "../../../db/filters/condition.ts";
import type { Field } from "../../../db/filters/field.ts";
import { takeKey } from "../../../identity/credentials.ts";
import { problem } from "../../../problems/problem.ts";
import { type MediaType, parseAccept, parseContentType } from "../../conventions/headers.ts";
import { methodNotAllowed } from "../../conventions/problem.ts";
import { invalidBody, methodNotForFunctions, queryTypeOnly } from "../problem.ts";
import {
  type Body,
  type Method,
  type ParseLimits,
  QUERY_TYPE,
  type QueryPart,
  type RequestText,
  type RequestUrl,
  type TableRequest,
  type Target,
} from "../request.ts";
import { parseBody, textOf } from "./body.ts";
import { parsePreferences, parseProfile, parseRange } from "./headers.ts";
import { parseQuery } from "./query-string.ts";
import { decodePiece, decodeText, MAX_PARAMETERS, refuseManyParameters } from "./url-encoded.ts";

/** The path of the table interface. */
export const BASE = "/rest/v1";

/** `/rest/v1/users?id=eq.1&api_key=cs_user_…` → `{ path: "/rest/v1/users", search: "id=eq.1", apiKey: "cs_user_…" }` */
export function parseUrl(url: string): RequestUrl {
  const at = url.indexOf("?");
  if (at < 0) return { path: url, search: "", apiKey: null };
  const path = url.slice(0, at);
  const search = url.slice(at + 1);
  return url.includes("key=", at) ? { path, ...takeKey(search) } : { path, search, apiKey: null };
}

/** A request counts for RATE_LIMIT again for each time that its query string has so many characters: its lists and columns cost that much. */
const COUNTED_CHARACTERS = 10_000;

export function countQuery({ search }: RequestUrl, count: (cost: number) => void): void {
  const more = Math.floor(search.length / COUNTED_CHARACTERS);
  if (more > 0) count(more);
}

/** The response to OPTIONS depends only on the target. */
const WITHOUT_DETAILS = { search: "", headers: {} as RequestText["headers"] };
const WITH_BODY: ReadonlySet<Method> = new Set(["POST", "PUT", "PATCH"]);
const READING: ReadonlySet<Method> = new Set(["OPTIONS", "GET", "HEAD"]);

/**
 * Parses an HTTP request to the table interface, without looking up the names in it. Throws Problem for malformed
 * input. Parts of the result are cached and shared, so they must not be changed.
 */
export function parseRequest(text: RequestText, limits: ParseLimits): TableRequest {
  const { url } = text;
  const target = parseTarget(url.path.slice(BASE.length + 1));
  const method = parseMethod(text.method, target);
  // Ignoring it would not protect the row.
  if (!READING.has(method) && (text.headers["if-match"] ?? "*") !== "*") throw problem("no versions");
  const { search, headers } = method === "OPTIONS" ? WITHOUT_DETAILS : { search: url.search, headers: text.headers };
  const hasArguments = target.kind === "function" && READING.has(method);
  const { query, values } = parseQuery(search, { hasArguments, limits });
  const request = {
    method,
    target,
    schema: parseProfile(text.headers[READING.has(method) ? "accept-profile" : "content-profile"]),
    query,
    values,
    preferences: parsePreferences(headers.prefer),
    range: method === "GET" ? parseRange(headers) : null,
    accept: parseAccept(headers.accept),
    body: WITH_BODY.has(method) ? bodyOf(text, target, limits) : null,
  };
  return { ...request, shape: shapeOf(request) };
}

const METHODS: readonly Method[] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const FUNCTION_METHODS: readonly Method[] = ["OPTIONS", "GET", "HEAD", "POST"];

/** `users` → the table users, `rpc/add` → the function add. */
function parseTarget(path: string): Target {
  const segments = path.split("/");
  const isFunction = segments.length === 2 && segments[0] === "rpc";
  const name = segments.at(-1)!;
  if ((segments.length > 1 && !isFunction) || name === "") throw problem("no such path");
  return { kind: isFunction ? "function" : "table", name: decodeText("path", name) };
}

function parseMethod(method: string, { kind }: Target): Method {
  const known = METHODS.find((each) => each === method);
  if (!known) throw methodNotAllowed(method, allowedMethods(kind));
  if (kind === "function" && !FUNCTION_METHODS.includes(known)) throw methodNotForFunctions(method);
  return known;
}

/** QUERY is a GET whose query string is in the body. */
const allowedMethods = (kind: Target["kind"]) =>
  (kind === "table" ? METHODS : FUNCTION_METHODS).flatMap((method) =>
    method === "HEAD" ? [method, "QUERY"] : [method],
  );

const NO_BYTES = Buffer.alloc(0);

const bodyOf = ({ body, content, headers }: RequestText, target: Target, limits: ParseLimits): Body =>
  parseBody(body ?? NO_BYTES, {
    target,
    contentType: headers["content-type"],
    maxDepth: limits.jsonMaxDepth,
    content: content ?? null,
  });

/** The text of an object that requests share. The parsers cache these objects. */
const jsonOf = forObjects((shared: object): string => JSON.stringify(shared));

/**
 * Equal for requests that differ only in their values, or in the text of the body and its number of rows.
 * Names are written as JSON, which contains no line break, so a name cannot imitate another line.
 */
export function shapeOf(request: Omit<TableRequest, "shape">): string {
  const { method, target, schema, query, preferences, range, accept, body, isSnapshot } = request;
  let shape = `${isSnapshot ? "snapshot " : ""}${method} ${target.kind} ${quote(target.name)} ${quote(schema)}
${jsonOf(query.select)}
${jsonOf(preferences)}
${shapeOfAccept(accept)}
${range ? `${range.first}-${range.last}` : ""}
${body ? shapeOfBody(body) : ""}
${query.columns && jsonOf(query.columns)}
${query.onConflict && jsonOf(query.onConflict)}
${query.arguments.size === 0 ? "" : JSON.stringify([...query.arguments])}`;
  for (const [path, part] of query.parts) shape += `\n${quote(path)} ${shapeOfPart(part)}`;
  return shape;
}

const quote = (name: string | null) => JSON.stringify(name);

const shapeOfAccept = forObjects((accept: readonly MediaType[]) =>
  JSON.stringify(accept.map(({ type, parameters }) => [type, ...parameters])),
);

const shapeOfBody = (body: Body) =>
  JSON.stringify(body.kind === "text" ? body.type : [body.source, body.isArray, body.isOther, body.keys]);

const shapeOfPart = ({ conditions, order, limit, offset }: QueryPart) =>
  `${shapeOfConditions(conditions)} ${jsonOf(order)} ${limit} ${offset}`;

const shapeOfConditions = (conditions: readonly Condition<Field>[]): string =>
  `(${conditions.map(shapeOfCondition).join()})`;

function shapeOfCondition(condition: Condition<Field>): string {
  const negation = condition.isNegated ? "not." : "";
  if (condition.kind === "logic") return `${negation}${condition.operator}${shapeOfConditions(condition.conditions)}`;
  const { field, operator, quantifier, language, keyword, value } = condition;
  const modifier = quantifier ?? (language === null ? "" : quote(language));
  return `${negation}${operator}(${modifier}).${keyword ?? ""} ${value} ${shapeOfField(field)}`;
}

const shapeOfField = ({ name, path }: Field) =>
  path.length === 0 ? quote(name) : `${quote(name)}${JSON.stringify(path)}`;

const OVERRIDES: ReadonlySet<string> = new Set(["GET", "QUERY", "PATCH", "DELETE"]);

/** The parameter with the changes of PATCH. Its value is a JSON object, which cannot be a filter. */
const CHANGES = "body";

/**
 * Moves a query string that is in the body, because it is too long for a URL, to the URL. Other requests are returned
 * unchanged.
 *
 *   QUERY /items?select=id  body id=in.(1,2)                        // GET /items?select=id&id=in.(1,2)
 *   POST /items, X-HTTP-Method-Override: DELETE  body id=in.(1,2)   // DELETE /items?id=in.(1,2)
 *   POST /items, …: PATCH  body id=in.(1,2)&body={"name":"x"}       // PATCH /items?id=in.(1,2)  body {"name":"x"}
 * Source: RFC 10008, "The HTTP QUERY Method".
 */
export function withQueryInUrl(request: RequestText): RequestText {
  if (request.method === "QUERY")
    return request.body?.length ? moveQuery(request, "GET") : { ...request, method: "GET" };
  const override = request.method === "POST" ? request.headers["x-http-method-override"] : undefined;
  if (override === undefined) return request;
  const method = String(override).toUpperCase();
  if (!OVERRIDES.has(method))
    throw methodNotAllowed(method, ["OPTIONS", "GET", "HEAD", "QUERY", "POST", "PATCH", "DELETE"]);
  return moveQuery(request, method === "QUERY" ? "GET" : method);
}

function moveQuery(request: RequestText, method: string): RequestText {
  const { url, headers, body } = request;
  requireQueryType(headers["content-type"]);
  const text = textOf(body ?? Buffer.alloc(0));
  const [search, changes] = method === "PATCH" ? splitChanges(text) : [text, null];
  return {
    method,
    url: { ...url, search: [url.search, search].filter((part) => part !== "").join("&") },
    headers: { ...headers, "content-type": "application/json" },
    body: changes === null ? null : Buffer.from(changes),
  };
}

function requireQueryType(contentType: string | undefined): void {
  const media = contentType ? parseContentType(contentType) : null;
  const charset = media?.parameters.get("charset") ?? "utf-8";
  if (media?.type !== QUERY_TYPE || charset.toLowerCase() !== "utf-8") throw queryTypeOnly(contentType ?? "none");
}

/** `id=eq.1&body={"a":1}` → `["id=eq.1", "{\"a\":1}"]` */
function splitChanges(text: string): [search: string, changes: string] {
  const parts = text.split("&", MAX_PARAMETERS + 1);
  refuseManyParameters(parts.length);
  const pairs = parts.map((pair) => ({ pair, changes: changesIn(pair) }));
  const [found, ...more] = pairs.filter(({ changes }) => changes !== null);
  if (!found || more.length > 0) throw invalidBody(`PATCH needs one parameter ${CHANGES} with a JSON object`);
  return [pairs.flatMap((each) => (each === found ? [] : [each.pair])).join("&"), found.changes!];
}

/** Null for another parameter, such as a filter by a column of that name. */
function changesIn(pair: string): string | null {
  const at = pair.indexOf("=");
  if (at < 0 || decodePiece("form", pair.slice(0, at)) !== CHANGES) return null;
  const value = decodePiece("form", pair.slice(at + 1));
  return value.trimStart().startsWith("{") ? value : null;
}

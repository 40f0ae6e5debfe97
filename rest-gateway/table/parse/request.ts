import type { IncomingHttpHeaders } from "node:http";
import type { Condition } from "../../../db/filters/condition.ts";
import type { Field } from "../../../db/filters/field.ts";
import { problem } from "../../../db/problems/problem.ts";
import { takeKey } from "../../../identity/credentials.ts";
import { type MediaType, parseAccept } from "../../conventions/headers.ts";
import { methodNotAllowed } from "../../conventions/problem.ts";
import { methodNotForFunctions } from "../problem.ts";
import type { Body, Method, ParseLimits, QueryPart, RequestUrl, TableRequest, Target } from "../request.ts";
import { parseBody } from "./body.ts";
import { parsePreferences, parseProfile, parseRange } from "./headers.ts";
import { parseQuery } from "./query-string.ts";
import { decodeText } from "./url-encoded.ts";

/** The path of the table interface. */
export const BASE = "/rest/v1";

/** `/rest/v1/users?id=eq.1&api_key=cs_user_…` → `{ path: "/rest/v1/users", search: "id=eq.1", apiKey: "cs_user_…" }` */
export function parseUrl(url: string): RequestUrl {
  const at = url.indexOf("?");
  if (at < 0) return { path: url, search: "", apiKey: null };
  const path = url.slice(0, at);
  const search = url.slice(at + 1);
  return url.includes("api_key=", at) ? { path, ...takeKey(search) } : { path, search, apiKey: null };
}

type ParseInput = {
  readonly method: string;
  /** The path after `/rest/v1/`, percent-encoded: `users`, `rpc/add`. */
  readonly path: string;
  /** The query string of the URL, without `?`. */
  readonly search: string;
  readonly headers: IncomingHttpHeaders;
  /** Null when the method has no body. */
  readonly body: Buffer | null;
  readonly limits: ParseLimits;
};

/** The response to OPTIONS depends only on the target. */
const WITHOUT_DETAILS: Pick<ParseInput, "search" | "headers"> = { search: "", headers: {} };
const WITH_BODY: ReadonlySet<Method> = new Set(["POST", "PUT", "PATCH"]);
const READING: ReadonlySet<Method> = new Set(["OPTIONS", "GET", "HEAD"]);

/**
 * Parses an HTTP request to the table interface, without looking up the names in it. Throws Problem for malformed
 * input. Parts of the result are cached and shared, so they must not be changed.
 */
export function parseRequest(input: ParseInput): TableRequest {
  const target = parseTarget(input.path);
  const method = parseMethod(input.method, target);
  const { search, headers } = method === "OPTIONS" ? WITHOUT_DETAILS : input;
  const hasArguments = target.kind === "function" && READING.has(method);
  const { query, values } = parseQuery(search, { hasArguments, limits: input.limits });
  const request = {
    method,
    target,
    schema: parseProfile(input.headers[READING.has(method) ? "accept-profile" : "content-profile"]),
    query,
    values,
    preferences: parsePreferences(headers.prefer),
    range: method === "GET" ? parseRange(headers) : null,
    accept: parseAccept(headers.accept),
    body: WITH_BODY.has(method) ? bodyOf(input, target) : null,
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

const bodyOf = ({ body, headers, limits }: ParseInput, target: Target): Body =>
  parseBody(body ?? NO_BYTES, { target, contentType: headers["content-type"], maxDepth: limits.jsonMaxDepth });

/** The texts of objects that requests share. The parsers cache these objects. */
const texts = new WeakMap<object, string>();

/**
 * Equal for requests that differ only in their values, or in the text of the body and its number of rows.
 * Names are written as JSON, which contains no line break, so a name cannot imitate another line.
 */
export function shapeOf(request: Omit<TableRequest, "shape">): string {
  const { method, target, schema, query, preferences, range, accept, body } = request;
  let shape = `${method} ${target.kind} ${quote(target.name)} ${quote(schema)}
${textOfShared(query.select, JSON.stringify)}
${textOfShared(preferences, JSON.stringify)}
${textOfShared(accept, shapeOfAccept)}
${range ? `${range.first}-${range.last}` : ""}
${body ? shapeOfBody(body) : ""}
${query.columns && textOfShared(query.columns, JSON.stringify)}
${query.onConflict && textOfShared(query.onConflict, JSON.stringify)}
${query.arguments.size === 0 ? "" : JSON.stringify([...query.arguments])}`;
  for (const [path, part] of query.parts) shape += `\n${quote(path)} ${shapeOfPart(part)}`;
  return shape;
}

const quote = (name: string | null) => JSON.stringify(name);

function textOfShared<Shared extends object>(shared: Shared, write: (shared: Shared) => string): string {
  const text = texts.get(shared);
  if (text !== undefined) return text;
  const written = write(shared);
  texts.set(shared, written);
  return written;
}

const shapeOfAccept = (accept: readonly MediaType[]) =>
  JSON.stringify(accept.map(({ type, parameters }) => [type, ...parameters]));

const shapeOfBody = (body: Body) =>
  JSON.stringify(body.kind === "text" ? body.type : [body.source, body.isArray, body.isOther, body.keys]);

const shapeOfPart = ({ conditions, order, limit, offset }: QueryPart) =>
  `${shapeOfConditions(conditions)} ${textOfShared(order, JSON.stringify)} ${limit} ${offset}`;

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

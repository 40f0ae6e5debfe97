import type { IncomingHttpHeaders } from "node:http";
import { parseAccept } from "../../conventions/media.ts";
import type { Body, Method, ParseLimits, TableRequest, Target } from "../request.ts";
import { parseBody } from "./body.ts";
import { parsePreferences, parseProfile, parseRange } from "./headers.ts";
import { parseQuery } from "./query-string.ts";
import { shapeOf } from "./shape.ts";
import { parseMethod, parseTarget } from "./url.ts";

export type ParseInput = {
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

/** OPTIONS depends on the target only. */
const NOTHING_MORE: Pick<ParseInput, "search" | "headers"> = { search: "", headers: {} };
const WITH_BODY: ReadonlySet<Method> = new Set(["POST", "PUT", "PATCH"]);
const READING: ReadonlySet<Method> = new Set(["OPTIONS", "GET", "HEAD"]);

/**
 * Parses an HTTP request to the table interface, without looking up the names in it. Throws TableError for malformed
 * input. Requests share parts of the result: treat them as immutable.
 */
export function parseRequest(input: ParseInput): TableRequest {
  const target = parseTarget(input.path);
  const method = parseMethod(input.method, target);
  const { search, headers } = method === "OPTIONS" ? NOTHING_MORE : input;
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

const NO_BYTES = Buffer.alloc(0);

const bodyOf = ({ body, headers, limits }: ParseInput, target: Target): Body =>
  parseBody(body ?? NO_BYTES, { target, contentType: headers["content-type"], maxDepth: limits.bodyDepth });

import { parseAccept } from "../../conventions/media.ts";
import type { Body, Method, TableRequest, Target } from "../request.ts";
import { parseBody } from "./body.ts";
import type { Incoming } from "./incoming.ts";
import { parsePreferences } from "./prefer.ts";
import { parseProfile } from "./profile.ts";
import { parseQuery } from "./query-string.ts";
import { parseRange } from "./range.ts";
import { shapeOf } from "./shape.ts";
import { parseMethod, parseTarget } from "./target.ts";

export type { Incoming, ParseLimits } from "./incoming.ts";

/** OPTIONS asks about the target alone. */
const NOTHING_MORE: Pick<Incoming, "search" | "headers"> = { search: "", headers: {} };
const WITH_BODY: ReadonlySet<Method> = new Set(["POST", "PUT", "PATCH"]);
const READING: ReadonlySet<Method> = new Set(["OPTIONS", "GET", "HEAD"]);

/**
 * Parses an HTTP request to the table interface. Throws TableError for what can't be read; whether there is what it
 * names is not asked here. Parts of the result are shared by requests: nobody may change them.
 */
export function parseRequest(incoming: Incoming): TableRequest {
  const target = parseTarget(incoming.path);
  const method = parseMethod(incoming.method, target);
  const { search, headers } = method === "OPTIONS" ? NOTHING_MORE : incoming;
  const hasArguments = target.kind === "function" && READING.has(method);
  const { query, values } = parseQuery(search, { hasArguments, limits: incoming.limits });
  const request = {
    method,
    target,
    schema: parseProfile(incoming.headers[READING.has(method) ? "accept-profile" : "content-profile"]),
    query,
    values,
    preferences: parsePreferences(headers.prefer),
    range: method === "GET" ? parseRange(headers) : null,
    accept: parseAccept(headers.accept),
    body: WITH_BODY.has(method) ? bodyOf(incoming, target) : null,
  };
  return { ...request, shape: shapeOf(request) };
}

const NO_BYTES = Buffer.alloc(0);

const bodyOf = ({ body, headers, limits }: Incoming, target: Target): Body =>
  parseBody(body ?? NO_BYTES, { target, contentType: headers["content-type"], maxDepth: limits.bodyDepth });

import { parseContentType } from "../../conventions/headers.ts";
import { methodNotAllowed } from "../../conventions/problem.ts";
import { invalidBody, queryTypeOnly } from "../problem.ts";
import { QUERY_TYPE, type RequestText } from "../request.ts";
import { textOf } from "./body.ts";
import { BASE } from "./request.ts";
import { decodePiece } from "./url-encoded.ts";

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
  const pairs = text.split("&").map((pair) => ({ pair, changes: changesIn(pair) }));
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

/** The function of DB_ROOT_SPEC. `schema` is null for the schema of the request. */
export type RootSpec = { readonly schema: string | null; readonly name: string };

const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * `GET /rest/v1/?a=1` as a call of the function: `GET /rest/v1/rpc/root?a=1`. Null for every other request, and without
 * such a function.
 */
export function rootCall(request: RequestText, root: RootSpec | null): RequestText | null {
  const { method, url, headers } = request;
  if (root === null || url.path.length > `${BASE}/`.length || !METHODS.has(method)) return null;
  // Adds JSON, the type of the function's result, where the client accepts an OpenAPI description.
  const accept = headers.accept?.replace(/application\/openapi\+json[^,]*/gi, "$&, application/json");
  const profile = root.schema !== null && { "accept-profile": Buffer.from(root.schema).toString("latin1") };
  return {
    ...request,
    url: { ...url, path: `${BASE}/rpc/${encodeURIComponent(root.name)}` },
    headers: { ...headers, ...(accept !== undefined && { accept }), ...profile },
  };
}

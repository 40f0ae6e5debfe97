import { BASE } from "./parse/request.ts";
import type { RequestText } from "./request.ts";

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
  // A client that prefers a description takes JSON too.
  const accept = headers.accept?.replace(/application\/openapi\+json[^,]*/gi, "$&, application/json");
  const profile = root.schema !== null && { "accept-profile": Buffer.from(root.schema).toString("latin1") };
  return {
    ...request,
    url: { ...url, path: `${BASE}/rpc/${encodeURIComponent(root.name)}` },
    headers: { ...headers, ...(accept !== undefined && { accept }), ...profile },
  };
}

import { takeKey } from "../../../identity/credentials.ts";
import { methodNotAllowed, methodNotForFunctions, noSuchPath } from "../problem.ts";
import type { Method, RequestUrl, Target } from "../request.ts";
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

const METHODS: readonly Method[] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const FUNCTION_METHODS: readonly Method[] = ["OPTIONS", "GET", "HEAD", "POST"];

/** `users` → the table users, `rpc/add` → the function add. */
export function parseTarget(path: string): Target {
  const segments = path.split("/");
  const isFunction = segments.length === 2 && segments[0] === "rpc";
  const name = segments.at(-1)!;
  if ((segments.length > 1 && !isFunction) || name === "") throw noSuchPath();
  return { kind: isFunction ? "function" : "table", name: decodeText("path", name) };
}

export function parseMethod(method: string, { kind }: Target): Method {
  const known = METHODS.find((each) => each === method);
  if (!known) throw methodNotAllowed(method, kind === "table" ? METHODS : FUNCTION_METHODS);
  if (kind === "function" && !FUNCTION_METHODS.includes(known)) throw methodNotForFunctions(method);
  return known;
}

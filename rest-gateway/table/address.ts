/** Where the table interface lives. */
export const BASE = "/rest/v1";

/** The URL of a request, in its two parts. */
export type Address = { readonly path: string; readonly search: string };

/** `/rest/v1/users?id=eq.1` → `{ path: "/rest/v1/users", search: "id=eq.1" }` */
export function addressOf(url: string): Address {
  const at = url.indexOf("?");
  return at < 0 ? { path: url, search: "" } : { path: url.slice(0, at), search: url.slice(at + 1) };
}

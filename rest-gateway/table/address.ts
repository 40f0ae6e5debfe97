import { takeKey } from "../../identity/credentials.ts";

/** Where the table interface lives. */
export const BASE = "/rest/v1";

/** The URL of a request, in its parts; `search` is what may be kept and answered, without the credential. */
export type Address = { readonly path: string; readonly search: string; readonly apiKey: string | null };

/** `/rest/v1/users?id=eq.1&api_key=cs_user_…` → `{ path: "/rest/v1/users", search: "id=eq.1", apiKey: "cs_user_…" }` */
export function addressOf(url: string): Address {
  const at = url.indexOf("?");
  if (at < 0) return { path: url, search: "", apiKey: null };
  const path = url.slice(0, at);
  const search = url.slice(at + 1);
  return url.includes("api_key=", at) ? { path, ...takeKey(search) } : { path, search, apiKey: null };
}

export const urlOf = ({ path, search }: Address): string => (search === "" ? path : `${path}?${search}`);

import type { IncomingMessage } from "node:http";
import type { RequestContext } from "../db/identity.ts";

/** What functions and policies may ask about a request; its path is how the interface calls it. */
export const contextOf = (
  { method = "GET", headers }: Pick<IncomingMessage, "method" | "headers">,
  path: string,
): RequestContext => ({
  method,
  path,
  headers: requestHeaders(headers),
  cookies: requestCookies(headers.cookie),
});

/** Headers that carry credentials stay out of the database, where any function could keep them. */
const CREDENTIALS = new Set([
  ...["authorization", "proxy-authorization", "cookie", "apikey", "x-api-key"],
  ...["x-csrf-token", "x-xsrf-token"],
]);

/** `{ "user-agent": "curl/8" }` → `{"user-agent":"curl/8"}` */
export function requestHeaders(headers: Readonly<Record<string, unknown>>): string {
  const shown: Record<string, unknown> = {};
  for (const name in headers) if (!CREDENTIALS.has(name)) shown[name] = headers[name];
  return JSON.stringify(shown);
}

/** The session's cookie is a credential: functions don't need it. */
const CREDENTIAL_COOKIES = new Set(["SESSION"]);

/** `a=1; b=%20` → `{"a":"1","b":"%20"}`; of a name that comes twice the first counts. */
export function requestCookies(header: string | undefined): string {
  if (!header) return "{}";
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, Math.max(0, at)).trim();
    if (name === "" || CREDENTIAL_COOKIES.has(name) || name in cookies) continue;
    const value = pair.slice(at + 1).trim();
    cookies[name] = value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value;
  }
  return JSON.stringify(cookies);
}

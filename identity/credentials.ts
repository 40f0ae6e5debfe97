import type { IncomingHttpHeaders } from "node:http";
import { bearerToken } from "./bearer.ts";
import { hasFormOfKey } from "./secrets.ts";

/** Everything that a request may be signed in with; "" counts as absent. */
export type Credentials = {
  /** `Authorization: Bearer …` */
  readonly bearer: string | null;
  readonly basic: BasicCredentials | null;
  /** The cookie SESSION. */
  readonly session: string | null;
  /** `apikey`, which is the header of the table interface, `X-API-Key`, and the parameter `api_key`. */
  readonly keys: readonly string[];
  /** The scheme of an Authorization that can't be read, or is neither Bearer nor Basic. */
  readonly unreadable: "Basic" | "other" | null;
};

export type BasicCredentials = { readonly username: string; readonly password: string };

/** Throws nothing: what can't be read is told as such. */
export function readCredentials(headers: IncomingHttpHeaders, parameter: string | null = null): Credentials {
  const { authorization } = headers;
  const bearer = authorization ? bearerToken(authorization) : null;
  const basic = authorization && bearer === null ? readBasic(authorization) : null;
  return {
    bearer,
    basic,
    session: headers.cookie ? sessionIn(headers.cookie) : null,
    keys: keysIn(headers, parameter),
    unreadable: authorization && bearer === null && basic === null ? schemeOf(authorization) : null,
  };
}

const schemeOf = (authorization: string) => (/^Basic(?: |$)/i.test(authorization) ? "Basic" : "other");

const NO_KEYS: readonly string[] = [];

function keysIn({ apikey, "x-api-key": other }: IncomingHttpHeaders, parameter: string | null): readonly string[] {
  if (!other && !parameter) return apikey ? [String(apikey)] : NO_KEYS;
  return [apikey, other, parameter].filter((key) => key).map(String);
}

/** `/graphql?api_key=cs_user_…` → the key; null without one. */
export function apiKeyIn(url = "/"): string | null {
  const at = url.indexOf("?");
  if (at < 0 || !url.includes("api_key", at)) return null;
  return new URLSearchParams(url.slice(at + 1)).get("api_key") || null;
}

/**
 * Takes the key out of parameters that are filters or arguments, which one of this name may be too:
 *
 *   takeKey("id=eq.1&api_key=cs_user_…")  // { apiKey: "cs_user_…", search: "id=eq.1" }
 *   takeKey("id=eq.1&api_key=eq.x")       // { apiKey: null, search: "id=eq.1&api_key=eq.x" }
 * Two keys are none that is good, as in headers.
 */
export function takeKey(search: string): { readonly apiKey: string | null; readonly search: string } {
  const pairs = search.split("&").map((pair) => ({ pair, key: keyIn(pair) }));
  const keys = pairs.flatMap(({ key }) => (key === null ? [] : [key]));
  const others = pairs.filter(({ key }) => key === null).map(({ pair }) => pair);
  return { apiKey: keys.join(", ") || null, search: others.join("&") };
}

/** Null for another parameter, and for a value that has not the form of a key. */
function keyIn(pair: string): string | null {
  if (!pair.startsWith("api_key=")) return null;
  const key = new URLSearchParams(pair).get("api_key")!;
  return hasFormOfKey(key) ? key : null;
}

const SESSION = /(?:^|;)\s*SESSION=([^;]*)/;

/** Of two the first counts, as for functions of the database. */
const sessionIn = (cookies: string): string | null => SESSION.exec(cookies)?.[1]?.trim() || null;

const MAX_LENGTH = 254;

/** Null for what no login can be. The name ends at the first colon. Source: RFC 7617. */
function readBasic(authorization: string): BasicCredentials | null {
  const [, encoded] = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  if (colon < 1 || colon > MAX_LENGTH || text.includes("\0") || text.includes("\ufffd")) return null;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

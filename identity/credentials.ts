import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { SESSION } from "./cookies.ts";
import { looksLikeKey } from "./secrets.ts";

/** The credentials of a request; an empty one counts as absent. */
export type Credentials = {
  /** `Authorization: Bearer …` */
  readonly bearer: string | null;
  readonly basic: BasicCredentials | null;
  /** The cookie SESSION. */
  readonly session: string | null;
  /** The headers `apikey` and `X-API-Key`, and the parameter `api_key`. */
  readonly keys: readonly string[];
  /** The scheme of an Authorization header that is malformed, or is neither Bearer nor Basic. */
  readonly unreadable: "Basic" | "other" | null;
};

export type BasicCredentials = { readonly username: string; readonly password: string };

/** Reads the credentials of a request; `parameter` is the key in the URL. Never throws: see `unreadable`. */
export function readCredentials(headers: IncomingHttpHeaders, parameter: string | null): Credentials {
  const { authorization } = headers;
  const bearer = authorization ? readBearer(authorization) : null;
  const basic = authorization && bearer === null ? readBasic(authorization) : null;
  return {
    bearer,
    basic,
    session: SESSION.in({ headers }),
    keys: readKeys(headers, parameter),
    unreadable: authorization && bearer === null && basic === null ? schemeOf(authorization) : null,
  };
}

/** `"Bearer eyJ…"` → `"eyJ…"`, which is not yet verified; null for another scheme. */
function readBearer(authorization: string): string | null {
  const scheme = /^Bearer +/i.exec(authorization);
  return scheme && (authorization.slice(scheme[0].length).trimEnd() || null);
}

const MAX_USERNAME_LENGTH = 254;

/** Null for malformed credentials and for usernames that cannot exist. The name ends at the first colon. Source: RFC 7617. */
function readBasic(authorization: string): BasicCredentials | null {
  const [, encoded] = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  if (colon < 1 || colon > MAX_USERNAME_LENGTH || text.includes("\0") || text.includes("\ufffd")) return null;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

const schemeOf = (authorization: string) => (/^Basic(?: |$)/i.test(authorization) ? "Basic" : "other");

const NO_KEYS: readonly string[] = [];

function readKeys({ apikey, "x-api-key": other }: IncomingHttpHeaders, parameter: string | null): readonly string[] {
  if (!other && !parameter) return apikey ? [String(apikey)] : NO_KEYS;
  return [apikey, other, parameter].filter((key) => key).map(String);
}

/** Parameters with a key: ours, and that of Supabase's gateway. */
export const KEY_PARAMETERS: readonly string[] = ["api_key", "apikey"];

/**
 * `/graphql?api_key=cs_user_…` → `"cs_user_…"`; null without one. Two keys are joined to one invalid key, as Node joins repeated headers.
 * With `isFilter`, other parameters are filters or arguments: see `takeKey`.
 */
export function apiKeyIn(url: string, isFilter = false): string | null {
  const at = url.indexOf("?");
  if (at < 0) return null;
  if (isFilter) return takeKey(url.slice(at + 1)).apiKey;
  const parameters = new URLSearchParams(url.slice(at + 1));
  return KEY_PARAMETERS.flatMap((name) => parameters.get(name) || []).join(", ") || null;
}

/**
 * Separates the API key from parameters that are filters or arguments, one of which may have the same name:
 *
 *   takeKey("id=eq.1&api_key=cs_user_…")  // { apiKey: "cs_user_…", search: "id=eq.1" }
 *   takeKey("id=eq.1&api_key=eq.x")       // { apiKey: null, search: "id=eq.1&api_key=eq.x" }
 */
export function takeKey(search: string): { readonly apiKey: string | null; readonly search: string } {
  const pairs = search.split("&").map((pair) => ({ pair, key: keyIn(pair) }));
  const keys = pairs.flatMap(({ key }) => (key === null ? [] : [key]));
  const others = pairs.filter(({ key }) => key === null).map(({ pair }) => pair);
  return { apiKey: keys.join(", ") || null, search: others.join("&") };
}

/** Null for another parameter, and for a value that does not look like a key. */
function keyIn(pair: string): string | null {
  const [name = "", value] = new URLSearchParams(pair).entries().next().value ?? [];
  if (value === undefined || !KEY_PARAMETERS.includes(name)) return null;
  return looksLikeKey(value) ? value : null;
}

/** CSRF tokens: a keyed hash of the session's id, known only to pages that may read responses of this service. */
export class CsrfTokens {
  readonly #key: Buffer;

  /** `secret` is the secret of the service. */
  constructor(secret: string) {
    this.#key = createHmac("sha256", secret).update("csrf").digest();
  }

  of(session: string): string {
    return createHmac("sha256", this.#key).update(session).digest("base64url");
  }

  isOf(token: string, session: string): boolean {
    const expected = Buffer.from(this.of(session));
    const given = Buffer.from(token);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

/** The CSRF token of a request: `X-CSRF-Token`, `X-XSRF-TOKEN`, or the parameter `_csrf` of clients that cannot set headers. */
export function csrfTokenIn({ headers, url = "" }: Pick<IncomingMessage, "headers" | "url">): string | null {
  const token = headers["x-csrf-token"] || headers["x-xsrf-token"] || PARAMETER.exec(url)?.[1];
  return token ? String(token) : null;
}

/** Tokens are base64url, which is not escaped in a URL. */
const PARAMETER = /[?&]_csrf=([\w-]+)(?:&|$)/;

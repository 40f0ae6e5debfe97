import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import express from "express";
import type { Recipient } from "../../db/admission/byte-budget.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";

const WELL_FORMED_ID = /^[\w.:-]{1,128}$/;

/** The id under which a request is logged: the client's X-Request-Id if it is well formed, otherwise a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers["x-request-id"];
  return typeof sent === "string" && WELL_FORMED_ID.test(sent) ? sent : randomUUID();
}

/** If one of these headers is sent twice, Node keeps the first and a proxy may have used the other. */
const SINGLE_HEADERS = new Set(["host", "authorization"]);

/**
 * Why a proxy may read this request differently: two Host or two Authorization headers, or a URL with a host
 * (`GET http://elsewhere/graphql`). Null for every other request.
 */
export function ambiguityOf({ rawHeaders, url = "/" }: IncomingMessage): string | null {
  if (!url.startsWith("/") && url !== "*") return "the request must name a path, not a URL with a host";
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!SINGLE_HEADERS.has(name)) continue;
    if (seen.has(name)) return `the header ${name} must not be sent twice`;
    seen.add(name);
  }
  return null;
}

/** The IP address of the client. */
export type AddressReader = (request: IncomingMessage) => string;

type Trust = (address: string, hop: number) => boolean;

/** Without the zone of a link-local address, `fe80::1%eth0`, which Postgres does not accept. */
const addressOfConnection: AddressReader = ({ socket }) => socket.remoteAddress?.split("%", 1)[0] ?? "";

/** Reads the last address that does not belong to a trusted proxy; `trustedProxies` as in TRUST_PROXY. */
export function addressReader(trustedProxies: readonly string[]): AddressReader {
  if (trustedProxies.length === 0) return addressOfConnection;
  const isTrusted = trustOf(trustedProxies);
  return (request) => {
    const own = addressOfConnection(request);
    const forwarded = String(request.headers["x-forwarded-for"] ?? "")
      .split(",")
      .map(withoutPort)
      .filter((address) => address !== "");
    const chain = [own, ...forwarded.reverse()];
    const found = chain.find((address, hop) => !isTrusted(address, hop)) ?? chain.at(-1)!;
    return isIP(found) > 0 ? found : own;
  };
}

/** Whether an address belongs to a trusted proxy. */
export const trustOf = (trustedProxies: readonly string[]): Trust =>
  express().set("trust proxy", trustedProxies).get("trust proxy fn");

/** ` 203.0.113.7:4711` → `203.0.113.7`, `[2001:db8::7]` → `2001:db8::7` */
const withoutPort = (text: string) => text.trim().replace(/^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::\d+)?$/, "$1$2");

export type ContextOptions = {
  /** Where the results go. */
  readonly recipient?: Recipient;
  /** Whether functions can read the credentials, in the headers and cookies. */
  readonly showsCredentials?: boolean;
};

/** `/rest/v1/items` → `/items`, as PostgREST has it. Other paths are as they are. */
const pathInDatabase = (path: string): string => path.replace(/^\/rest\/v1(?=\/|$)/, "") || "/";

/** The request as functions and policies see it; `path` is without the query string. */
export const contextOf = (
  { method = "GET", headers }: Pick<IncomingMessage, "method" | "headers">,
  path: string,
  { recipient, showsCredentials = false }: ContextOptions = {},
): RequestContext => ({
  method,
  path: pathInDatabase(path),
  headers: requestHeaders(headers, showsCredentials),
  cookies: requestCookies(headers.cookie, showsCredentials),
  recipient,
});

/** Headers that carry credentials. Any function of the database that reads them could store them. */
const CREDENTIAL_HEADERS = new Set([
  ...["authorization", "proxy-authorization", "cookie", "apikey", "x-api-key"],
  ...["x-csrf-token", "x-xsrf-token"],
]);

/** Random for each WebSocket. Without it, equal subscribers share the rows that are read for them. */
const SOCKET_KEY = "sec-websocket-key";

/** `{ "user-agent": "curl/8", "cookie": "…" }` → `{"user-agent":"curl/8"}`, without credentials. */
export function requestHeaders(headers: Readonly<Record<string, unknown>>, showsCredentials = false): string {
  const shown: Record<string, unknown> = {};
  for (const name in headers)
    if (name !== SOCKET_KEY && (showsCredentials || !CREDENTIAL_HEADERS.has(name))) shown[name] = headers[name];
  return JSON.stringify(shown);
}

/** Those of the service: sessions of the API and of the console, and all that it names `__Host-…`, as sign-ins and confirmations do. */
const CREDENTIAL_COOKIE = /^(?:SESSION$|console$|__Host-)/;

/** `a=1; b=%20` → `{"a":"1","b":"%20"}`; if a name is sent twice, the first counts. */
function requestCookies(header: string | undefined, showsCredentials: boolean): string {
  if (!header) return "{}";
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, Math.max(0, at)).trim();
    if (name === "" || name in cookies || (CREDENTIAL_COOKIE.test(name) && !showsCredentials)) continue;
    const value = pair.slice(at + 1).trim();
    cookies[name] = value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value;
  }
  return JSON.stringify(cookies);
}

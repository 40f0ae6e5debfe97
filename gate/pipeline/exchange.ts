import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP } from "node:net";
import express from "express";
import { type ByteBudget, type Holder, Recipient } from "../../db/admission/byte-budget.ts";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import { OTHER } from "../../telemetry/metrics.ts";
import type { Span } from "../../telemetry/span.ts";
import type { Turns } from "../limits/turns.ts";

/** What the interfaces find out about a request, for the log and the metrics. */
export class RequestNotes {
  /** The template of the path, from a small fixed set of texts: `/users/{id}`. */
  route = OTHER;
  /** The code of the error that was sent. */
  code: string | null = null;
  /** Null when requests are not traced. */
  span: Span | null = null;
}

/** The first headers of every response, whichever interface sends it. */
export type Head = {
  readonly requestId: string;
  /** Includes X-Request-Id. Names and values alternate: the format that `writeHead` processes fastest. */
  readonly headers: readonly string[];
  readonly notes: RequestNotes;
};

/** A request and its response, which is still empty. */
export type Destination = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly head: Head };

/** A request on its way from the pipeline to an interface. */
export type Exchange = Destination & {
  readonly identity: RequestIdentity;
  /**
   * Counts what the request multiplies, such as its messages, like `cost` further requests of a known caller or else of the network.
   * Throws Problem if they are too many.
   */
  countMore(knownName: string | null, cost: number): void;
  /** Absent without a body, and where bodies are not counted. */
  readonly counting?: Counting | undefined;
};

/**
 * Counts a body as it arrives, for the network of its client until the response has ended. A complete one waits for a turn of its
 * client: reading it may take longer than the request itself.
 */
type Counting = Pick<Destination, "response"> & {
  readonly identity: RequestIdentity;
  readonly budget: ByteBudget;
  readonly turns: Turns;
};

/** Whether the request has a body, which may still be on its way. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;

/** Sets the head of a response that is not sent by `writeHead` with a list of headers. */
export function setHead(response: ServerResponse, { headers }: Head): void {
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!);
}

/** A field, not a WeakMap: its value refers to the request, and V8 would keep both until it collects the whole heap. */
const EXCHANGE = Symbol("exchange");
type KeptRequest = IncomingMessage & { [EXCHANGE]?: Exchange };

/** Makes the exchange available to those who receive the request alone. */
export function keepExchange(exchange: Exchange): void {
  (exchange.request as KeptRequest)[EXCHANGE] = exchange;
}

/** The exchange of a request that has passed the pipeline. */
export const exchangeOf = (request: KeptRequest): Exchange => request[EXCHANGE]!;

/** The identity of a request in an Express handler. */
export const identityOf = (request: IncomingMessage): RequestIdentity => exchangeOf(request).identity;

/** The client of a request, as the limits count it. Close it when the client has received all results. */
export function recipientOf(identity: RequestIdentity, caller: Caller, holder: Holder | null = null): Recipient {
  const { network } = identity;
  return new Recipient(identity.nameOf(caller) ?? network, network, { holder });
}

/**
 * Whether the database is overloaded and would refuse a request of this caller. False if identifying the caller needs a query, and
 * for an invalid credential, which the interface reports.
 */
export function isRefused(database: Pick<Database, "waiting" | "refuses">, identity: RequestIdentity): boolean {
  if (database.waiting === 0) return false;
  try {
    const caller = identity.caller();
    if (!(caller instanceof Promise)) return database.refuses(caller.role, recipientOf(identity, caller).client);
    caller.catch(() => {});
  } catch {}
  return false;
}

/** The request as functions and policies see it. Call this when the caller is known; `path` is without the query string. */
export const contextOfExchange = (
  { request, response, head, identity }: Exchange,
  path: string,
  caller: Caller,
): RequestContext => {
  const recipient = recipientOfResponse(response, identity, caller);
  const { showsCredentials, trial } = identity;
  const plain = contextOf(request, path, { recipient, showsCredentials });
  const { requestId } = head;
  const context = trial ? { ...plain, requestId, trial, operator: trial.operator } : { ...plain, requestId };
  const { span } = head.notes;
  return span === null ? context : { ...context, span };
};

/** The client that waits for a response. It is closed with the response: when all of it is sent, or the client has disconnected. */
export function recipientOfResponse(response: ServerResponse, identity: RequestIdentity, caller: Caller): Recipient {
  const recipient = recipientOf(identity, caller, response);
  if (response.destroyed) recipient.close();
  response.once("close", () => recipient.close());
  return recipient;
}

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
export function ambiguityOf({ rawHeaders, url = "/" }: IncomingMessage): Problem | null {
  const ambiguous = (message: string) => problem("invalid request", { message });
  if (!url.startsWith("/") && url !== "*") return ambiguous("the request must name a path, not a URL with a host");
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!SINGLE_HEADERS.has(name)) continue;
    if (seen.has(name)) return ambiguous(`the header ${name} must not be sent twice`);
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

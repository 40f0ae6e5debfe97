import type { IncomingMessage, ServerResponse } from "node:http";
import corsLibrary from "cors";
import { DATA_HEADERS, PAGE_HEADERS } from "./security-headers.ts";

const MAX_AGE_SECONDS = 600;

/** Whether pages of an origin may call this service; `["*"]` allows every origin. */
export const allowsOrigin = (allowed: readonly string[]) => (origin: string) =>
  allowed.includes("*") || allowed.includes(origin);

export const EXPOSED_HEADERS = [
  "WWW-Authenticate",
  "Accept-Query",
  "X-Request-Id",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-Total-Count",
  "X-API-Version",
  "X-Supabase-Api-Version",
  "X-API-Warn",
  "X-API-Sunset",
  "Allow",
  "Change-Position",
  "Retry-After",
  "Content-Encoding",
  "Content-Length",
  "Content-Location",
  "Content-Profile",
  "Content-Range",
  "ETag",
  "Last-Modified",
  "Link",
  "Location",
  "Preference-Applied",
  "Proxy-Status",
  "Server-Timing",
  "traceresponse",
  "Warning",
];

type CorsHandler = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

/** Cross-origin requests of browsers. Credentials (cookies) are allowed only from origins that are listed. */
export type Cors = {
  /**
   * `pageHeaders`: the headers of responses that are pages. `dataHeaders`: those of responses that are data, to requests with an Origin.
   * Both include the security headers; names and values alternate. `handle` sets the headers that depend on the request.
   */
  readonly pageHeaders: readonly string[];
  readonly dataHeaders: readonly string[];
  /** Responds to preflights; calls `next` for every other request. */
  readonly handle: CorsHandler;
};

export function cors(allowed: readonly string[]): Cors {
  const all = allowed.includes("*");
  const library = corsLibrary({
    origin: all ? "*" : [...allowed],
    credentials: !all,
    methods: ["GET", "HEAD", "QUERY", "PUT", "PATCH", "POST", "DELETE"],
    maxAge: MAX_AGE_SECONDS,
    exposedHeaders: EXPOSED_HEADERS,
  }) as CorsHandler;
  if (!all) return { pageHeaders: PAGE_HEADERS, dataHeaders: DATA_HEADERS, handle: skipPlainOptions(library) };

  // If every origin is allowed, all responses except those to preflights have the same headers.
  const headers = ["Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", EXPOSED_HEADERS.join(",")];
  const handle: CorsHandler = (request, response, next) =>
    request.method === "OPTIONS" ? library(request, response, next) : next();
  return {
    pageHeaders: [...PAGE_HEADERS, ...headers],
    dataHeaders: [...DATA_HEADERS, ...headers],
    handle: skipPlainOptions(handle),
  };
}

/** The library responds to every OPTIONS. Without a requested method it is not a preflight, and the interface handles it. */
const skipPlainOptions =
  (handle: CorsHandler): CorsHandler =>
  (request, response, next) => {
    const isPlain = request.method === "OPTIONS" && request.headers["access-control-request-method"] === undefined;
    if (isPlain) next();
    else handle(request, response, next);
  };

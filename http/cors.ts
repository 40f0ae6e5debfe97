import type { IncomingMessage, ServerResponse } from "node:http";
import cors from "cors";

const MAX_AGE_SECONDS = 600;

/** Whether pages of this origin may call; `["*"]` is all of them. */
export const allowsOrigin = (allowed: readonly string[]) => (origin: string) =>
  allowed.includes("*") || allowed.includes(origin);

const EXPOSED_HEADERS = ["X-Request-Id", "Retry-After"];

type CorsHandler = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

/** Cross-origin calls from browsers; credentials (cookies) only from origins that are named. */
export function corsHandler(allowed: readonly string[]): CorsHandler {
  const all = allowed.includes("*");
  const library = cors({
    origin: all ? "*" : [...allowed],
    credentials: !all,
    maxAge: MAX_AGE_SECONDS,
    exposedHeaders: EXPOSED_HEADERS,
  }) as CorsHandler;
  if (!all) return library;

  // Where every origin may call, all answers but those to OPTIONS have the same headers.
  const headers = new Map([
    ["Access-Control-Allow-Origin", "*"],
    ["Access-Control-Expose-Headers", EXPOSED_HEADERS.join(",")],
  ]);
  return (request, response, next) => {
    if (request.method === "OPTIONS") return library(request, response, next);
    response.setHeaders(headers);
    next();
  };
}

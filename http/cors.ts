import cors from "cors";
import type { RequestHandler } from "express";

const MAX_AGE_SECONDS = 600;

/** Whether pages of this origin may call; `["*"]` is all of them. */
export const allowsOrigin = (allowed: readonly string[]) => (origin: string) =>
  allowed.includes("*") || allowed.includes(origin);

/** Cross-origin calls from browsers; credentials (cookies) only from origins that are named. */
export function corsHandler(allowed: readonly string[]): RequestHandler {
  const all = allowed.includes("*");
  return cors({
    origin: all ? "*" : [...allowed],
    credentials: !all,
    maxAge: MAX_AGE_SECONDS,
    exposedHeaders: ["X-Request-Id", "Retry-After"],
  });
}

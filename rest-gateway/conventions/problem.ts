import type { ServerResponse } from "node:http";
import type { Problem } from "../../db/errors.ts";

/** Sends a problem in the envelope of the general REST convention. */
export function sendProblem(
  response: ServerResponse,
  { status, code, message, details, hint }: Problem,
  requestId: string,
): void {
  const timestamp = new Date().toISOString();
  const error = { code, message, details: details ?? undefined, hint, requestId, timestamp };
  if (status === 401) response.setHeader("WWW-Authenticate", "Bearer");
  if (status === 503) response.setHeader("Retry-After", "5");
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json; charset=utf-8");
  response.end(JSON.stringify({ error }));
}

import type { IncomingMessage } from "node:http";
import { type BodyLimits, readBytes } from "../../http/body.ts";
import { parseBody } from "../conventions/json-body.ts";
import { notAnObject } from "./problem.ts";

/** A body as `/users` takes it: JSON, of any type. Rejects with RestError, and ApiError for what is too large. */
export const readBody = async (request: IncomingMessage, limits: BodyLimits): Promise<unknown> =>
  parseBody(await readBytes(request, limits.size), request.headers["content-type"], limits);

/** Throws RestError for anything but a JSON object. */
export function objectOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw notAnObject();
}

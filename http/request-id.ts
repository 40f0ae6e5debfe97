import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";

const WELL_FORMED = /^[\w.:-]{1,128}$/;

/** The id under which a request is logged: the client's own X-Request-Id when it is well formed, else a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers["x-request-id"];
  return typeof sent === "string" && WELL_FORMED.test(sent) ? sent : randomUUID();
}

import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";

const WELL_FORMED = /^[\w.:-]{1,128}$/;

/** One of its own for each process; with a number behind it, it takes a fraction of what a UUID does. */
const PREFIX = randomBytes(9).toString("base64url");
let requests = 0;

/** The id under which a request is logged: the client's own X-Request-Id when it is well formed, else a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers["x-request-id"];
  return typeof sent === "string" && WELL_FORMED.test(sent) ? sent : `${PREFIX}.${(++requests).toString(36)}`;
}

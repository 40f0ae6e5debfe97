import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { ambiguityOf } from "./ambiguous.ts";
import { cors } from "./cors.ts";
import { type Head, setHead } from "./head.ts";
import { ambiguous, tooManyRequests, turnAway } from "./interfaces.ts";
import type { RateLimit } from "./rate-limit.ts";
import { requestIdOf } from "./request-id.ts";
import { securityHeaders } from "./security-headers.ts";

export type ArrivalOptions = {
  readonly log: Logger;
  readonly corsOrigins: readonly string[];
  /** Null where there is none. */
  readonly rateLimit: RateLimit | null;
};

type Arrival = (request: IncomingMessage, response: ServerResponse, next: (head: Head) => void) => void;

/** What every request gets: an id, a line in the log, the headers of every answer, and a place in the count. */
export function arrival({ log, corsOrigins, rateLimit }: ArrivalOptions): Arrival {
  const { headers: corsHeaders, handle: handleCors } = cors(corsOrigins);
  const ofEveryAnswer = [...securityHeaders(), ...corsHeaders];
  return (request, response, next) => {
    const requestId = requestIdOf(request);
    const taken = rateLimit?.count(request);
    const ofLimit = taken ? rateLimit!.headersOf(taken) : [];
    const head: Head = { requestId, headers: ["X-Request-Id", requestId, ...ofLimit, ...ofEveryAnswer] };
    const start = performance.now();
    const { url = "/" } = request;
    response.once("close", () => logRequest(log, request, url, response, requestId, performance.now() - start));

    // A preflight is answered there and then.
    if (request.method === "OPTIONS") setHead(response, head);
    handleCors(request, response, () => {
      const ambiguity = ambiguityOf(request);
      if (taken?.isOver) turnAway({ request, response, head }, tooManyRequests(taken));
      else if (ambiguity !== null) turnAway({ request, response, head }, ambiguous(ambiguity));
      else next(head);
    });
  };
}

/** What nginx, and others since, note of a client that went away before it had its answer. */
const CLIENT_GONE = 499;

function logRequest(
  log: Logger,
  { method }: IncomingMessage,
  url: string,
  response: ServerResponse,
  requestId: string,
  took: number,
): void {
  const status = response.writableFinished ? response.statusCode : CLIENT_GONE;
  const level = levelOf(status);
  if (!log.isLevelEnabled(level)) return;
  const line = {
    requestId,
    method,
    path: url.split("?", 1)[0],
    status,
    milliseconds: Math.round(took),
  };
  log[level](line, "request");
}

/** 503 is what a service that starts or stops answers, many times to those who wait for it: nothing is wrong with it. */
function levelOf(status: number): "error" | "info" | "debug" {
  if (status < 400 || status === 503) return "debug";
  return status >= 500 ? "error" : "info";
}

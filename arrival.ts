import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { ambiguityOf } from "./http/ambiguous.ts";
import { cors } from "./http/cors.ts";
import { type Head, setHead } from "./http/head.ts";
import type { RateLimit } from "./http/rate-limit.ts";
import { requestIdOf } from "./http/request-id.ts";
import { securityHeaders } from "./http/security-headers.ts";
import { tooManyRequests, turnAway } from "./interfaces.ts";
import { sendProblem } from "./rest-gateway/conventions/problem.ts";

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
    response.once("finish", () => logRequest(log, request, url, response, requestId, performance.now() - start));

    const ambiguity = ambiguityOf(request);
    if (ambiguity !== null) {
      setHead(response, head);
      return sendProblem(response, { status: 400, code: "VALIDATION_ERROR", message: ambiguity }, requestId);
    }
    // A preflight is answered there and then.
    if (request.method === "OPTIONS") setHead(response, head);
    handleCors(request, response, () => {
      if (taken?.isOver) turnAway({ request, response, head }, tooManyRequests(taken));
      else next(head);
    });
  };
}

function logRequest(
  log: Logger,
  { method }: IncomingMessage,
  url: string,
  response: ServerResponse,
  requestId: string,
  took: number,
): void {
  const { statusCode: status } = response;
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

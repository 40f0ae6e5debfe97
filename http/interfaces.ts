import type { IncomingMessage, ServerResponse } from "node:http";
import { mediaTypeOf, refusal, sendAnswer } from "../graphql/envelope.ts";
import { type RestProblem, sendProblem } from "../rest-gateway/conventions/problem.ts";
import { toTableProblem } from "../rest-gateway/table/problem.ts";
import { sendTableProblem } from "../rest-gateway/table/send.ts";
import { type Head, setHead } from "./head.ts";
import type { ServiceState } from "./health.ts";
import type { Taken } from "./rate-limit.ts";
import { RETRY_SECONDS } from "./retry.ts";

/** What an address belongs to; "rest" is everything that nobody else has. */
export type InterfaceName = "tables" | "graphql" | "rest";

export function interfaceAt(url: string): InterfaceName {
  if (isUnder("/rest/v1", url)) return "tables";
  return url === "/graphql" || url.startsWith("/graphql?") ? "graphql" : "rest";
}

const isUnder = (base: string, url: string) =>
  url.startsWith(base) && (url.length === base.length || url[base.length] === "/" || url[base.length] === "?");

/** A request and where its answer goes; nothing of the head has been set. */
export type Arrived = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly head: Head };

/** Answers with a problem that no interface has had a say in, in the envelope of the one that was asked. */
export function turnAway(arrived: Arrived, problem: RestProblem): void {
  ENVELOPES[interfaceAt(arrived.request.url ?? "/")](arrived, problem);
}

const ENVELOPES: Readonly<Record<InterfaceName, (arrived: Arrived, problem: RestProblem) => void>> = {
  tables(arrived, problem) {
    sendTableProblem(arrived, toTableProblem(problem));
  },
  graphql({ request, response, head }, problem) {
    setHead(response, head);
    for (const [name, value] of Object.entries(problem.headers ?? {})) response.setHeader(name, value);
    sendAnswer(response, mediaTypeOf(request.headers.accept), refusal(problem));
  },
  rest({ response, head }, problem) {
    setHead(response, head);
    sendProblem(response, problem, head.requestId);
  },
};

// Why requests are turned away before an interface looks at them.

export const serviceUnavailable = (state: ServiceState): RestProblem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: `the service is ${state}: try again`,
  headers: { "Retry-After": RETRY_SECONDS, Connection: "close" },
});

export const ambiguous = (reason: string): RestProblem => ({ status: 400, code: "VALIDATION_ERROR", message: reason });

export const tooManyRequests = ({ retryAfter }: Taken): RestProblem => ({
  status: 429,
  code: "RATE_LIMITED",
  message: `too many requests: try again in ${retryAfter} s`,
  headers: { "Retry-After": String(retryAfter) },
});

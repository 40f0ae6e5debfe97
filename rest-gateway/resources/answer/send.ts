import type { IncomingMessage, ServerResponse } from "node:http";
import type { Head } from "../../../http/exchange.ts";
import { endWith, varyOf } from "../../../http/response.ts";
import { isNotModified, lastModifiedText } from "../../conventions/conditional.ts";
import type { Header, RestAnswer } from "../../conventions/endpoint.ts";
import { type ErrorDialect, problemBody, problemHeaders, type RestProblem } from "../../conventions/problem.ts";

export type Destination = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly head: Head;
};

const VARY = "Accept, Prefer, X-API-Version, Accept-Version, Authorization, apikey, X-API-Key, Cookie";

/** Sends an answer, or 304 if the client has it already. `headers` are those of every response to this request. */
export function sendAnswer(
  { request, response, head }: Destination,
  answer: RestAnswer,
  headers: readonly Header[],
  contentType: string,
): void {
  const { etag, lastModified, body } = answer;
  const all = [...head.headers, "Cache-Control", "private, no-cache", "Vary", varyOf(response, VARY)];
  for (const [name, value] of headers) all.push(name, value);
  for (const [name, value] of answer.headers) all.push(name, value);
  if (etag !== null) all.push("ETag", etag);
  if (lastModified !== null) all.push("Last-Modified", lastModifiedText(lastModified));
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (isRead && answer.status === 200 && isNotModified(request.headers, answer)) {
    response.writeHead(304, all);
    response.end();
  } else {
    if (body !== null) all.push("Content-Type", contentType, "Content-Length", String(body.length));
    response.writeHead(answer.status, all);
    if (body === null || request.method === "HEAD") response.end();
    else endWith(response, body);
  }
  finishReading(request);
}

/** Sends a problem in the dialect that the client prefers. */
export function sendProblem(
  { request, response, head }: Destination,
  problem: RestProblem,
  headers: readonly Header[],
  dialect: ErrorDialect,
): void {
  const body = Buffer.from(problemBody(problem, head.requestId, dialect));
  const all = [...head.headers, "Vary", varyOf(response, VARY), ...headers.flat(), ...problemHeaders(problem)];
  response.writeHead(problem.status, [...all, "Content-Length", String(body.length)]);
  response.end(request.method === "HEAD" ? undefined : body);
  finishReading(request);
}

/** The unread rest of a body would block the next request on the connection. */
function finishReading(request: IncomingMessage): void {
  if (!request.complete) request.resume();
}

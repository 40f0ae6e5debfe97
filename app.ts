import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from "express";
import type { Logger } from "pino";
import { ApiError, internalError } from "./db/errors.ts";
import { ambiguityOf } from "./http/ambiguous.ts";
import { cors } from "./http/cors.ts";
import { type Head, setHead } from "./http/head.ts";
import { type Health, healthHandler, liveHandler, onlyWhenReady } from "./http/health.ts";
import { requestIdOf } from "./http/request-id.ts";
import { securityHeaders } from "./http/security-headers.ts";
import { sendProblem } from "./rest-gateway/conventions/problem.ts";

/** The interfaces, mounted once they are ready. */
export type Routes = {
  readonly graphql: Handler | null;
  readonly tables: (request: IncomingMessage, response: ServerResponse, head: Head) => Promise<void>;
  readonly explorer: RequestHandler | null;
  readonly docs: RequestHandler | null;
  readonly auth: RequestHandler | null;
};

/** Answers a request without Express. */
type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export type AppOptions = {
  readonly log: Logger;
  readonly health: Health;
  readonly corsOrigins: readonly string[];
  readonly trustProxy: readonly string[];
  /** Null until the service is ready. */
  routes(): Routes | null;
};

/** `express` serves everything but GraphQL and the tables; `listener` is where every HTTP request arrives. */
export type App = { readonly express: Express; readonly listener: RequestListener };

export function createApp(options: AppOptions): App {
  const app = createExpress(options);
  const arrive = arrival(options);
  const listener: RequestListener = (request, response) =>
    arrive(request, response, (head) => {
      const routes = options.health.state() === "ready" ? options.routes() : null;
      const { url = "" } = request;
      // Express takes as long for a request as all else that we do about HTTP: the two main roads go by it.
      const fail = (error: unknown) => answerError(options.log, error, response, head.requestId);
      if (routes && isUnder("/rest/v1", url)) return void routes.tables(request, response, head).catch(fail);
      setHead(response, head);
      if (!routes?.graphql || !isGraphQL(url)) return app(request, response);
      routes.graphql(request, response).catch(fail);
    });
  return { express: app, listener };
}

const isGraphQL = (url: string) => url === "/graphql" || url.startsWith("/graphql?");

const isUnder = (base: string, url: string) =>
  url.startsWith(base) && (url.length === base.length || url[base.length] === "/" || url[base.length] === "?");

function createExpress({ log, health, trustProxy, routes }: AppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.enable("strict routing");
  app.set("etag", false);
  app.set("trust proxy", trustProxy);

  app.get("/live", liveHandler);
  app.get("/health", healthHandler(health));
  app.use(onlyWhenReady(health.state));
  app.use(optional(() => routes()!.explorer));
  app.use(optional(() => routes()!.docs));
  app.use(optional(() => routes()!.auth));
  app.use((_request, response) => sendProblem(response, notFound(), requestIdOn(response)));
  const handleError: ErrorRequestHandler = (error, _request, response, _next) =>
    answerError(log, error, response, requestIdOn(response));
  app.use(handleError);
  return app;
}

const optional =
  (handler: () => RequestHandler | null): RequestHandler =>
  (request, response, next) => {
    const present = handler();
    if (present) present(request, response, next);
    else next();
  };

type Arrival = (request: IncomingMessage, response: ServerResponse, next: (head: Head) => void) => void;

/** What every request gets: an id, a line in the log, the headers of every answer. */
function arrival({ log, corsOrigins }: AppOptions): Arrival {
  const { headers: corsHeaders, handle: handleCors } = cors(corsOrigins);
  const ofEveryAnswer = [...securityHeaders(), ...corsHeaders];
  return (request, response, next) => {
    const requestId = requestIdOf(request);
    const head: Head = { requestId, headers: ["X-Request-Id", requestId, ...ofEveryAnswer] };
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
    handleCors(request, response, () => next(head));
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

const requestIdOn = (response: ServerResponse) => String(response.getHeader("X-Request-Id"));

function answerError(log: Logger, error: unknown, response: ServerResponse, requestId: string): void {
  const problem = error instanceof ApiError ? error.problem : internalError();
  if (!(error instanceof ApiError)) log.error({ requestId, err: error }, "unhandled error");
  if (response.headersSent) response.destroy();
  else sendProblem(response, problem, requestId);
}

const notFound = () =>
  ({ status: 404, code: "RESOURCE_NOT_FOUND", message: "there is nothing at this address" }) as const;

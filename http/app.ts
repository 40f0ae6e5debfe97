import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from "express";
import type { Logger } from "pino";
import { ApiError, internalError } from "../db/errors.ts";
import {
  DOCUMENTATION,
  nothingHere,
  RestError,
  type RestProblem,
  restProblemOf,
  sendProblem,
} from "../rest-gateway/conventions/problem.ts";
import { errorsHandler } from "../rest-gateway/openapi/reference/page.ts";
import type { ResourceInterface } from "../rest-gateway/resources/index.ts";
import { type AddressReader, addressReader, type Trust } from "./address.ts";
import { type Head, setHead } from "./head.ts";
import { type Health, healthHandler, liveHandler } from "./health.ts";
import { interfaceAt, serviceUnavailable, turnAway } from "./interfaces.ts";
import { byMethod } from "./methods.ts";
import { arrival } from "./middleware.ts";
import { MemoryBuckets, RateLimit } from "./rate-limit.ts";

/** The interfaces, mounted once they are ready. */
export type Routes = {
  readonly graphql: Handler | null;
  readonly tables: (request: IncomingMessage, response: ServerResponse, head: Head) => Promise<void>;
  readonly resources: ResourceInterface;
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
  /** Requests a minute of one caller, or from one address; 0 is no limit. */
  readonly rateLimit: number;
  /** Who sends a request, when that is known already. */
  knownAs(request: IncomingMessage): string | null;
  /** Null until the service is ready. */
  routes(): Routes | null;
};

/** `listener` is where every HTTP request arrives. */
export type App = {
  readonly listener: RequestListener;
  /** Null where there is none. */
  readonly rateLimit: RateLimit | null;
  readonly addressOf: AddressReader;
};

export function createApp(options: AppOptions): App {
  const { log, health, trustProxy, rateLimit: limit, knownAs } = options;
  const app = createExpress(options);
  const addressOf = addressReader(trustProxy.length === 0 ? null : (app.get("trust proxy fn") as Trust));
  const rateLimit =
    limit === 0 ? null : new RateLimit({ limit, store: new MemoryBuckets({ limit }), addressOf, knownAs });
  const arrive = arrival({ ...options, rateLimit });
  const listener: RequestListener = (request, response) =>
    arrive(request, response, (head) => {
      const state = health.state();
      const routes = state === "ready" ? options.routes() : null;
      // Express takes as long for a request as all else that we do about HTTP: the interfaces do without it.
      const asked = interfaceAt(request.url!);
      const fail = (error: unknown) => answerError(log, error, response, head.requestId);
      if (routes === null && asked !== "rest") return turnAway({ request, response, head }, serviceUnavailable(state));
      if (routes && asked === "tables") return void routes.tables(request, response, head).catch(fail);
      if (routes?.resources.serves(request.url!))
        return void routes.resources.handle(request, response, head).catch(fail);
      setHead(response, head);
      if (!routes?.graphql || asked !== "graphql") return app(request, response);
      routes.graphql(request, response).catch(fail);
    });
  return { listener, rateLimit, addressOf };
}

function createExpress({ log, health, trustProxy, routes }: AppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.enable("strict routing");
  app.enable("case sensitive routing");
  app.set("etag", false);
  app.set("trust proxy", trustProxy);

  app.all("/live", byMethod({ GET: liveHandler }));
  app.all("/health", byMethod({ GET: healthHandler(health) }));
  app.all(DOCUMENTATION, byMethod({ GET: errorsHandler() }));
  app.use((_request, _response, next) => {
    const state = health.state();
    if (state !== "ready") throw new RestError(serviceUnavailable(state));
    next();
  });
  app.use(optional(() => routes()!.explorer));
  app.use(optional(() => routes()!.docs));
  app.use(optional(() => routes()!.auth));
  app.use((_request, response) => sendProblem(response, nothingHere().problem, requestIdOn(response)));
  const handleError: ErrorRequestHandler = (error, _request, response, _next) =>
    answerError(log, error, response, requestIdOn(response));
  app.use(handleError);
  return app;
}

const optional =
  (handler: () => RequestHandler | null): RequestHandler =>
  (request, response, next) => {
    const present = handler();
    return present ? present(request, response, next) : next();
  };

const requestIdOn = (response: ServerResponse) => String(response.getHeader("X-Request-Id"));

function answerError(log: Logger, error: unknown, response: ServerResponse, requestId: string): void {
  const problem = problemOf(error);
  // Whoever broke off what he sent has made no error of ours.
  if (response.destroyed) return;
  if (problem === null) log.error({ requestId, err: error }, "unhandled error");
  if (response.headersSent) response.destroy();
  else sendProblem(response, problem ?? restProblemOf(internalError()), requestId);
}

function problemOf(error: unknown): RestProblem | null {
  if (error instanceof RestError) return error.problem;
  if (error instanceof ApiError) return restProblemOf(error.problem);
  return error instanceof URIError && "status" in error ? unreadableAddress() : null;
}

/** Express decodes the parts of addresses. */
const unreadableAddress = (): RestProblem => ({
  status: 400,
  code: "BAD_REQUEST",
  message: "the address has a % that is not followed by UTF-8 in hex",
});

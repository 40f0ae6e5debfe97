import express, { type ErrorRequestHandler, type Express, type RequestHandler } from "express";
import type { Logger } from "pino";
import { ApiError, internalError } from "./db/errors.ts";
import { ambiguityOf } from "./http/ambiguous.ts";
import { corsHandler } from "./http/cors.ts";
import { type Health, healthHandler, liveHandler, onlyWhenReady } from "./http/health.ts";
import { requestIdOf } from "./http/request-id.ts";
import { securityHeaders } from "./http/security-headers.ts";
import { sendProblem } from "./rest-gateway/conventions/problem.ts";

/** The interfaces, mounted once they are ready. */
export type Routes = {
  readonly graphql: RequestHandler;
  readonly explorer: RequestHandler | null;
  readonly auth: RequestHandler | null;
};

export type AppOptions = {
  readonly log: Logger;
  readonly health: Health;
  readonly corsOrigins: readonly string[];
  readonly trustProxy: readonly string[];
  /** Null until the service is ready. */
  routes(): Routes | null;
};

/** Every HTTP request, from its id to its answer. */
export function createApp({ log, health, corsOrigins, trustProxy, routes }: AppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.set("etag", false);
  app.set("trust proxy", trustProxy);

  app.use(identifyAndLog(log));
  app.use(refuseAmbiguous);
  app.use(securityHeaders(), corsHandler(corsOrigins));
  app.get("/live", liveHandler);
  app.get("/health", healthHandler(health));
  app.use(onlyWhenReady(health.state));
  app.use("/graphql", (request, response, next) => routes()!.graphql(request, response, next));
  app.use(optional(() => routes()!.explorer));
  app.use(optional(() => routes()!.auth));
  app.use((_request, response) => sendProblem(response, notFound(), response.locals.requestId));
  app.use(handleError(log));
  return app;
}

const optional =
  (handler: () => RequestHandler | null): RequestHandler =>
  (request, response, next) => {
    const present = handler();
    if (present) present(request, response, next);
    else next();
  };

function identifyAndLog(log: Logger): RequestHandler {
  return (request, response, next) => {
    const requestId = requestIdOf(request);
    response.locals.requestId = requestId;
    response.setHeader("X-Request-Id", requestId);
    const start = performance.now();
    response.once("finish", () => {
      const { statusCode: status } = response;
      const level = levelOf(status);
      if (!log.isLevelEnabled(level)) return;
      const path = request.originalUrl.split("?", 1)[0];
      const milliseconds = Math.round(performance.now() - start);
      log[level]({ requestId, method: request.method, path, status, milliseconds }, "request");
    });
    next();
  };
}

const refuseAmbiguous: RequestHandler = (request, _response, next) => {
  const message = ambiguityOf(request);
  if (message !== null) throw new ApiError({ status: 400, code: "VALIDATION_ERROR", message });
  next();
};

/** 503 is what a service that starts or stops answers: nothing is wrong with it. */
function levelOf(status: number): "error" | "info" | "debug" {
  if (status >= 500 && status !== 503) return "error";
  return status >= 400 ? "info" : "debug";
}

function handleError(log: Logger): ErrorRequestHandler {
  return (error, _request, response, next) => {
    if (response.headersSent) return next(error);
    const { requestId } = response.locals;
    if (error instanceof ApiError) return sendProblem(response, error.problem, requestId);
    log.error({ requestId, err: error }, "unhandled error");
    sendProblem(response, internalError(), requestId);
  };
}

const notFound = () => ({ status: 404, code: "RESOURCE_NOT_FOUND", message: "there is nothing at this address" }) as const;

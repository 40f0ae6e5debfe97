import type { Express, RequestHandler } from "express";
import express from "express";
import { unavailabilityOf } from "../db/errors.ts";
import { type Destination, type Exchange, setHead } from "../gate/pipeline/exchange.ts";
import type { HttpEnvelope, HttpInterface } from "../gate/pipeline/pipeline.ts";
import { Problem, problem } from "../problems/problem.ts";
import { rejectRest } from "./conventions/problem.ts";

/** The form of the errors of every path that has no other one, as GraphQL, tables and `/auth/v1` have. */
export const REST: HttpEnvelope = { reject: rejectRest };

export type ExpressInterfaceOptions = {
  readonly routers: readonly RequestHandler[];
  /** Sends an error; the default is the form of the REST endpoints. */
  readonly reject?: HttpEnvelope["reject"];
  onInternalError(error: unknown, requestId: string): void;
};

/** Endpoints and pages that are Express routers, and 404 for everything else. Without routers, Express is not asked. */
export class ExpressInterface implements HttpInterface {
  readonly reject: HttpEnvelope["reject"];
  readonly #options: ExpressInterfaceOptions;
  readonly #app: Express | null;

  constructor(options: ExpressInterfaceOptions) {
    this.#options = options;
    this.reject = options.reject ?? rejectRest;
    this.#app = options.routers.length > 0 ? appOf(options.routers) : null;
  }

  async handle(exchange: Destination | Exchange): Promise<void> {
    const { request, response, head } = exchange;
    const app = this.#app;
    if (app === null) return this.reject(exchange, problem("no such path"));
    setHead(response, head);
    // Before the listener of the pipeline. Express sets `route` when it has found one.
    response.prependOnceListener("close", () => {
      const { route } = request as { route?: { path: string } };
      if (route) head.notes.route = templateOf(route.path);
    });
    // Called if no router has an endpoint for the URL, and with the errors of all routers.
    const onEnd = (error: unknown = problem("no such path")) => this.#fail(error, exchange);
    app(request as never, response as never, onEnd);
  }

  #fail(error: unknown, destination: Destination): void {
    const { response, head } = destination;
    // The client has closed the connection, which caused the error.
    if (response.destroyed) return;
    const found = problemOf(error);
    if (found === null) this.#options.onInternalError(error, head.requestId);
    if (response.headersSent) response.destroy();
    else this.reject(destination, found ?? problem("internal error"));
  }
}

function appOf(routers: readonly RequestHandler[]): Express {
  const app = express();
  app.disable("x-powered-by");
  app.set("etag", false);
  for (const router of routers) app.use(router);
  return app;
}

/** `/auth/keys/:id` → `/auth/keys/{id}` */
const templateOf = (path: string) => path.replace(/[:*](\w+)/g, "{$1}");

/**
 * Express throws a URIError if it cannot decode a segment of the path. A statement fails with an error of the server, or of a pooler, if
 * its connection is ended. Null for an internal error.
 */
function problemOf(error: unknown): Problem | null {
  if (error instanceof URIError && "status" in error) return problem("unreadable path");
  return error instanceof Problem ? error : unavailabilityOf(error);
}

import { type ErrorRequestHandler, type Request, type RequestHandler, type Response, Router } from "express";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import { messagesFor } from "../../db/catalog/exposure.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import { problemOf } from "../../db/errors.ts";
import { type Db, dbOf } from "../../db/queries.ts";
import type { HttpLimits } from "../../gate/limits.ts";
import { type BodyLimits, readJson } from "../../gate/pipeline/body.ts";
import { contextOfExchange, exchangeOf } from "../../gate/pipeline/exchange.ts";
import { byMethod, type Methods } from "../../gate/pipeline/express.ts";

export type Method = keyof Methods;

/** A path of an application. */
export type Route = {
  /** As Express reads it: `/reports/:id` */
  readonly path: string;
  /** HEAD, OPTIONS and the 405 of other methods follow from them. */
  readonly methods: Readonly<Partial<Record<Method, RouteHandler>>>;
  /** What `/openapi.json` says about its methods: `{ get: { summary: "One report." } }` */
  readonly openapi?: RouteDescription;
};

/** The operations of a path, as in OpenAPI 3.1. What is absent follows from the path. */
export type RouteDescription = Readonly<Partial<Record<Lowercase<Method>, Readonly<Record<string, unknown>>>>>;

/** Returns what is sent as JSON, or responds itself and awaits it; without either, the response is 204. */
export type RouteHandler = (request: Request, response: Response, context: Context) => unknown;

/** What a request of the application has. */
export type Context = {
  readonly caller: Pick<Caller, "role" | "claims">;
  /** With the rights of the caller. Cancelled when the client disconnects. */
  readonly db: Db;
  /** Its lines have the id of the request. */
  readonly log: Logger;
  /** Aborted when the client disconnects before it has the response. */
  readonly signal: AbortSignal;
};

type RouteOptions = {
  readonly application: { readonly routes: readonly (Route | Router)[] };
  readonly settings: Pick<Config, "bodyLimit" | "dbAnonRole"> & Pick<HttpLimits, "jsonMaxDepth">;
  readonly database: Pick<Database, "forRole">;
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly log: Logger;
};

/**
 * The routes and routers of an application, in one router; none if it has none. Errors of the database have the status that they have on every interface. In a router,
 * `await response.locals.context()` is the context of the request.
 */
export function applicationRouters(options: RouteOptions): readonly Router[] {
  const { routes } = options.application;
  if (routes.length === 0) return [];
  const router = Router({ caseSensitive: true, strict: true });
  router.use(keepContext(options));
  for (const route of routes) {
    if (isRouter(route)) router.use(route);
    else router.all(route.path, byMethod(handlersOf(route, options.settings)));
  }
  router.use(translated(options));
  return [router];
}

/** Those that are described, which routers are not. */
export const routesOf = ({ routes }: RouteOptions["application"]): readonly Route[] =>
  routes.flatMap((route) => (isRouter(route) ? [] : [route]));

export const isRouter = (route: Route | Router): route is Router => typeof route === "function";

/** Express calls `context` only where it is needed: a path that does not exist is 404 for every credential. */
function keepContext(options: RouteOptions): RequestHandler {
  return (request, response, next) => {
    let context: Promise<Context> | undefined;
    response.locals.context = () => {
      context ??= contextOf(request, response, options);
      return context;
    };
    next();
  };
}

async function contextOf(request: Request, response: Response, { database, log }: RouteOptions): Promise<Context> {
  const exchange = exchangeOf(request);
  const caller = await exchange.identity.caller();
  response.locals.caller = caller;
  const gone = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) gone.abort();
  });
  const { signal } = gone;
  const identity = { caller, request: contextOfExchange(exchange, request.path, caller) };
  const db = dbOf((statements) => database.forRole(caller.role).run(identity, statements, { signal }));
  return { caller, db, log: log.child({ requestId: exchange.head.requestId }), signal };
}

const handlersOf = ({ methods }: Route, limits: BodyLimits): Methods =>
  Object.fromEntries(
    Object.entries(methods).map(([method, handle]) => [
      method,
      (async (request, response) => {
        const context: Context = await response.locals.context();
        if (method !== "GET" && hasJson(request)) request.body = await readJson(request, limits);
        const value = await handle(request, response, context);
        if (response.headersSent) return;
        if (value === undefined) response.status(204).end();
        else response.json(value);
      }) satisfies RequestHandler,
    ]),
  );

const hasJson = (request: Request): boolean => /^application\/json\b/i.test(request.headers["content-type"] ?? "");

/** Turns errors of the database into those that clients see. */
function translated({ catalog, settings: { dbAnonRole: anonymousRole } }: RouteOptions): ErrorRequestHandler {
  return (error, _request, response, next) => {
    const caller: Caller | undefined = response.locals.caller;
    if (!caller) return next(error);
    const { role, refused } = caller;
    const messages = messagesFor(catalog.current, role);
    next(problemOf(error, { ...messages, anonymous: role === anonymousRole, refused }) ?? error);
  };
}

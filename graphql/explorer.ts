import { type RequestHandler, Router } from "express";
import { ruruHTML } from "ruru/server";
import { serveStatic } from "ruru/static";
import { byMethod } from "../http/express.ts";

const STATIC_PATH = "/graphiql/static/";

/** Extends helmet's policy by the page's inline script and styles, workers and the WebSocket. Other origins stay blocked. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "worker-src 'self' blob:",
  "connect-src 'self' ws: wss:",
  "frame-ancestors 'none'",
].join("; ");

/** `/graphiql`: Ruru, served from its npm package and not from a CDN. */
export function explorerRouter(): Router {
  const page = ruruHTML({ staticPath: STATIC_PATH, endpoint: "/graphql", subscriptionEndpoint: "/graphql" });
  const html: RequestHandler = (_request, response) => {
    response
      .set("Content-Security-Policy", CONTENT_SECURITY_POLICY)
      .set("Cache-Control", "no-cache")
      .type("html")
      .send(page);
  };
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/graphiql", byMethod({ GET: html }));
  router.all(`${STATIC_PATH}*file`, byMethod({ GET: serveStatic(STATIC_PATH) }));
  return router;
}

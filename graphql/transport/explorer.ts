import { readFileSync } from "node:fs";
import { type RequestHandler, Router } from "express";
import { type RuruClientConfig, ruruHTML } from "ruru/server";
import { serveStatic } from "ruru/static";
import { SIGNED_IN } from "../../http/operations/sign-in.ts";
import { headerOf, type Link } from "../../http/pages/html.ts";
import { byMethod } from "../../http/pipeline/express.ts";

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

const SIGN_IN = readFileSync(new URL("explorer.html", import.meta.url), "utf8");

export type ExplorerOptions = {
  /** The operation that a new visitor sees. */
  example(): Promise<string>;
  /** Whether users can sign in here. Otherwise they need a token from another issuer. */
  readonly hasAccounts: boolean;
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** `/graphiql`: Ruru, served from its npm package and not from a CDN, with a form to sign in. */
export function explorerRouter({ example, hasAccounts, links }: ExplorerOptions): Router {
  const signIn = SIGN_IN.replace("HAS_ACCOUNTS", String(hasAccounts)).replace("SIGNED_IN", () => SIGNED_IN);
  const html: RequestHandler = async (_request, response) => {
    const page = ruruHTML({
      staticPath: STATIC_PATH,
      endpoint: "/graphql",
      subscriptionEndpoint: "/graphql",
      clientConfig: { defaultQuery: await example() } as RuruClientConfig,
      htmlParts: {
        metaTags: (content) => `${content}<meta name="viewport" content="width=device-width, initial-scale=1">`,
        titleTag:
          '<title>GraphiQL – Content Service</title>\n<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/assets/header.css">',
        bodyContent: (content) => headerOf(links, "/graphiql").text + signIn + content,
      },
    });
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

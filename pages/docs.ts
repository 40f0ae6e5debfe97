import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type RequestHandler, Router } from "express";
import { PAGE_POLICY } from "../http/pages/html.ts";
import { byMethod } from "../http/pipeline/express.ts";
import { contentHandler } from "../rest-gateway/conventions/conditional.ts";
import { type Doc, type DocsOptions, docsOf, SCHEMA, SEARCH, textOf } from "./contents.ts";

/** `/docs/…`: the documentation, as a page for browsers and as Markdown for programs. `/docs` itself is the reference of the API. */
export function docsPages(options: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const doc of docsOf(options)) router.all(doc.path, byMethod({ GET: docHandler(doc, options) }));
  router.all(SEARCH, byMethod({ GET: searchHandler(options) }));
  const { schema } = options;
  if (schema !== null) router.all(SCHEMA, byMethod({ GET: textHandler(readFileSync(schema, "utf8")) }));
  return router;
}

/** The file with the GraphQL schema of an application; null if there is none. */
export function schemaIn(folder: string | null): string | null {
  const file = folder && join(folder, "schema.graphql");
  return file && existsSync(file) ? file : null;
}

const HEADERS = { "Cache-Control": "public, max-age=300", Vary: "Accept" };

const textHandler = (text: string): RequestHandler =>
  contentHandler({ type: "text/plain; charset=utf-8", text, headers: HEADERS });

/** Loaded with the first request: Markdown and colours are slow to load. */
const rendering = () => import("./document.ts");

/** Each form is created with the first request for it. */
function docHandler(doc: Doc, options: DocsOptions): RequestHandler {
  let text: RequestHandler | undefined;
  let page: Promise<RequestHandler> | undefined;
  return async (request, response, next) => {
    const isBrowser = request.accepts(["text/plain", "text/html"]) === "text/html";
    if (isBrowser) page ??= pageHandler(doc, options);
    else text ??= textHandler(textOf(doc.file));
    const handler = isBrowser ? await page! : text!;
    handler(request, response, next);
  };
}

async function pageHandler(doc: Doc, options: DocsOptions): Promise<RequestHandler> {
  const { pageOf } = await rendering();
  const headers = { ...HEADERS, "Content-Security-Policy": PAGE_POLICY };
  return contentHandler({ type: "text/html; charset=utf-8", text: pageOf(doc, options), headers });
}

function searchHandler(options: DocsOptions): RequestHandler {
  let handler: Promise<RequestHandler> | undefined;
  const create = async () => {
    const { searchOf } = await rendering();
    return contentHandler({ type: "application/json; charset=utf-8", text: searchOf(options), headers: HEADERS });
  };
  return async (request, response, next) => {
    handler ??= create();
    (await handler)(request, response, next);
  };
}

import { readFileSync } from "node:fs";
import { type RequestHandler, Router } from "express";
import { type Link, PAGE_POLICY } from "../gate/pages/html.ts";
import { byMethod } from "../gate/pipeline/express.ts";
import type { AlwaysOnInterface } from "../gate/pipeline/pipeline.ts";
import { compressedHandler, contentHandler } from "../rest-gateway/conventions/conditional.ts";
import { ExpressInterface, type ExpressInterfaceOptions } from "../rest-gateway/express-interface.ts";
import { ASSETS, type Asset } from "./assets.ts";
import {
  type Doc,
  type DocsOptions,
  type Documents,
  docsOf,
  joinDocuments,
  listImages,
  markdownPath,
  ROOT,
  SCHEMA,
  SEARCH,
  textOf,
} from "./documents.ts";

type PagesOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  /** Those of parts. */
  readonly documents: readonly Documents[];
  readonly assets: readonly Asset[];
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** `/docs/…` and `/assets/…`: the documents and files of all parts. They are served while the service starts and stops too. */
export function createPages({ documents, assets, links, onInternalError }: PagesOptions): AlwaysOnInterface {
  const routers = [docsPages({ ...joinDocuments(documents), links }), assetRouter([...ASSETS, ...assets])];
  return alwaysOn(new ExpressInterface({ routers, onInternalError }));
}

/** Pages that need neither the database nor the caller. */
export const alwaysOn = (pages: ExpressInterface): AlwaysOnInterface => ({
  isAlwaysOn: true,
  reject: (destination, problem) => pages.reject(destination, problem),
  handle: (destination) => pages.handle(destination),
});

/** The documents, as pages for browsers and as Markdown for programs. `/docs` itself is the reference of the API. */
function docsPages(options: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const doc of docsOf(options)) {
    router.all(doc.path, byMethod({ GET: docHandler(doc, options) }));
    router.all(markdownPath(doc), byMethod({ GET: lazily(() => textHandler(textOf(doc.file))) }));
  }
  for (const { path, type, file } of listImages())
    router.all(
      path,
      byMethod({ GET: lazily(() => contentHandler({ type, text: readFileSync(ROOT + file), headers: HEADERS })) }),
    );
  router.all(SEARCH, byMethod({ GET: lazily(() => searchHandler(options)) }));
  const { schema } = options;
  if (schema !== null) router.all(SCHEMA, byMethod({ GET: textHandler(readFileSync(schema, "utf8")) }));
  return router;
}

function assetRouter(assets: readonly Asset[]): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const { name, type, file } of assets) router.all(`/assets/${name}`, byMethod({ GET: assetHandler(type, file) }));
  return router;
}

const assetHandler = (type: string, file: string): RequestHandler =>
  file.endsWith(".gz")
    ? compressedHandler(file, "no-cache")
    : contentHandler({ type, text: readFileSync(file, "utf8"), headers: { "Cache-Control": "no-cache" } });

const HEADERS = { "Cache-Control": "public, max-age=300", Vary: "Accept" };

const textHandler = (text: string): RequestHandler =>
  contentHandler({ type: "text/plain; charset=utf-8", text, headers: HEADERS });

/** A handler that is made with the first request for it. */
function lazily(make: () => RequestHandler | Promise<RequestHandler>): RequestHandler {
  let handler: RequestHandler | Promise<RequestHandler> | undefined;
  return async (request, response, next) => {
    handler ??= make();
    await (await handler)(request, response, next);
  };
}

/** Loaded with the first request: Markdown and colours are slow to load. */
const rendering = () => import("./document.ts");

function docHandler(doc: Doc, options: DocsOptions): RequestHandler {
  const text = lazily(() => textHandler(textOf(doc.file)));
  const page = lazily(() => pageHandler(doc, options));
  return (request, response, next) => {
    const isBrowser = request.accepts(["text/plain", "text/html"]) === "text/html";
    return (isBrowser ? page : text)(request, response, next);
  };
}

async function pageHandler(doc: Doc, options: DocsOptions): Promise<RequestHandler> {
  const { pageOf } = await rendering();
  const headers = { ...HEADERS, "Content-Security-Policy": PAGE_POLICY };
  return contentHandler({ type: "text/html; charset=utf-8", text: pageOf(doc, options), headers });
}

async function searchHandler(options: DocsOptions): Promise<RequestHandler> {
  const { searchOf } = await rendering();
  return contentHandler({ type: "application/json; charset=utf-8", text: searchOf(options), headers: HEADERS });
}

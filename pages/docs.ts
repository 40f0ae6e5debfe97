import { existsSync, globSync, readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { type RequestHandler, Router } from "express";
import { current, documentOf, type Html, html, type Link, PAGE_POLICY } from "../http/pages/html.ts";
import { byMethod } from "../http/pipeline/express.ts";
import { contentHandler } from "../rest-gateway/conventions/conditional.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** A document of the product. */
export type Doc = Link & { readonly file: string };

/** Documents outside of `docs/`. */
const OTHERS: Readonly<Record<string, string>> = {
  "README.md": "/docs/readme",
  "CHANGELOG.md": "/docs/changelog",
  "SECURITY.md": "/docs/security",
  "bench/results.md": "/docs/benchmarks",
};

/** `docs/tables.md` → `/docs/tables`; `docs/decisions/README.md` → `/docs/decisions` */
const pathOf = (file: string) => OTHERS[file] ?? `/${file.replace(/(\/README)?\.md$/, "")}`;

/** All documents, by their titles. An installation may leave some out. */
export function listDocs(): readonly Doc[] {
  const files = [...globSync("docs/**/*.md", { cwd: ROOT }), ...Object.keys(OTHERS)];
  return files
    .filter((file) => existsSync(ROOT + file))
    .map((file) => ({ file, path: pathOf(file), name: titleOf(file) }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

const titleOf = (file: string) => /^# (.*)$/m.exec(readFileSync(ROOT + file, "utf8"))?.[1] ?? file;

export type DocsOptions = {
  /** Those that are served. */
  readonly docs: readonly Doc[];
  /** The file with the GraphQL schema of the application; null if it is not served. */
  readonly schema: string | null;
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** `/docs/…`: the documentation, as a page for browsers and as Markdown for programs. `/docs` itself is the reference of the API. */
export function docsPages(options: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const doc of options.docs) router.all(doc.path, byMethod({ GET: docHandler(doc, options) }));
  if (options.schema !== null) router.all(SCHEMA, byMethod({ GET: textHandler(options.schema) }));
  return router;
}

const SCHEMA = "/docs/schema.graphql";

/** The file with the GraphQL schema of an application; null if there is none. */
export function schemaIn(folder: string | null): string | null {
  const file = folder && join(folder, "schema.graphql");
  return file && existsSync(file) ? file : null;
}

const HEADERS = { "Cache-Control": "public, max-age=300", Vary: "Accept" };

const textHandler = (file: string): RequestHandler =>
  contentHandler({ type: "text/plain; charset=utf-8", text: readFileSync(file, "utf8"), headers: HEADERS });

/** Each form is created with the first request for it. */
function docHandler(doc: Doc, options: DocsOptions): RequestHandler {
  let text: RequestHandler | undefined;
  let page: Promise<RequestHandler> | undefined;
  return async (request, response, next) => {
    const isBrowser = request.accepts(["text/plain", "text/html"]) === "text/html";
    if (isBrowser) page ??= pageHandler(doc, options);
    else text ??= textHandler(ROOT + doc.file);
    const handler = isBrowser ? await page! : text!;
    handler(request, response, next);
  };
}

async function pageHandler(doc: Doc, options: DocsOptions): Promise<RequestHandler> {
  const { renderMarkdown } = await import("./markdown.ts");
  const main = renderMarkdown(readFileSync(ROOT + doc.file, "utf8"), (href) => resolveLink(href, doc.file, options));
  const text = documentOf({ title: doc.name, path: doc.path, aside: asideOf(doc, options.docs), main }, options.links);
  const headers = { ...HEADERS, "Content-Security-Policy": PAGE_POLICY };
  return contentHandler({ type: "text/html; charset=utf-8", text, headers });
}

const asideOf = (doc: Doc, docs: readonly Doc[]): Html =>
  html`<aside><nav aria-label="Documentation"><ul>${docs.map(
    ({ path, name }) => html`<li><a href="${path}"${current(path, doc.path)}>${name}</a></li>`,
  )}</ul></nav></aside>`;

/** Files beside the documents are not served: links to them become text. */
function resolveLink(href: string, from: string, { docs, schema }: DocsOptions): string | null {
  if (/^(https?:|#|\/)/.test(href)) return href;
  const [target = "", anchor] = href.split("#");
  const file = normalize(join(from, "..", target));
  const path = ROOT + file === schema ? SCHEMA : docs.find((doc) => doc.file === file)?.path;
  return path === undefined ? null : path + (anchor === undefined ? "" : `#${anchor}`);
}

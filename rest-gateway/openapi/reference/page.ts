import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { type RequestHandler, Router } from "express";
import { byMethod } from "../../../http/express.ts";
import { contentHandler } from "../../conventions/conditional.ts";
import { DOCUMENTATION } from "../../conventions/problem.ts";

export const BUNDLE_FILE = new URL("./scalar-1.72.1.js.gz", import.meta.url);
const BUNDLE_PATH = "/docs/scalar-1.72.1.js";

export type DocsOptions = {
  /** The public key with which the page sends requests; null if none is needed. Browsers may see it. */
  readonly anonKey: string | null;
  /** The supported versions of the resources. */
  readonly versions: readonly number[];
};

/** `/docs`: the reference of the resources and tables, rendered by Scalar. Everything is loaded from this service. */
export function docsRouter(options: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/docs", byMethod({ GET: pageHandler(options) }));
  router.all(BUNDLE_PATH, byMethod({ GET: bundleHandler() }));
  return router;
}

/**
 * Fetches the descriptions, with the key if one is needed, and renders them. "Try it" requests send the key as well.
 * Interfaces that are not served, such as resources whose tables are missing, are omitted.
 */
const SCRIPT = `
const reference = document.getElementById("reference");
const { key, versions } = reference.dataset;
const tables = {
  title: "Tables",
  base: "/rest/v1",
  path: "/rest/v1/",
  headers: key ? { apikey: key } : {},
  authentication: { preferredSecurityScheme: "apikey", securitySchemes: { apikey: { value: key } } },
};
const resources = versions.split(" ").map((version) => ({
  title: "Resources v" + version,
  base: version === "1" ? "" : "/api/v" + version,
  path: "/api/v" + version + "/openapi.json",
  headers: {},
}));
const sources = await Promise.all([...resources, tables].map(async ({ title, base, path, headers, authentication }) => {
  const response = await fetch(path, { headers });
  const content = await response.json();
  content.servers = [{ url: location.origin + base }];
  for (const parameter of Object.values(content.components?.parameters ?? {})) disable(parameter);
  const operations = Object.values(content.paths ?? {}).flatMap((item) => Object.values(item));
  // These operations are at the root of the service, unlike the others.
  for (const operation of operations) if (operation.servers) operation.servers = [{ url: location.origin }];
  const isServed = response.ok && Object.keys(content.paths).length > 0;
  const message = response.ok ? null : (content.error ?? content).message;
  return { title, slug: title.toLowerCase().replace(" ", "-"), content, authentication, isServed, message };
}));
// Scalar would send the default or first value of each parameter, but some parameters cannot be combined.
function disable(parameter) {
  const { default: initial, enum: values = [] } = parameter.schema;
  parameter.examples = { default: { value: initial ?? values[0] ?? "", "x-disabled": true } };
}
const served = sources.filter(({ isServed }) => isServed);
if (served.length === 0) {
  reference.textContent = sources.at(-1).message ?? "This service has no interface to describe.";
  throw new Error(reference.textContent);
}
Scalar.createApiReference(reference, served.map(({ title, slug, content, authentication }) => ({
  title,
  slug,
  content,
  authentication,
  operationTitleSource: "path",
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  mcp: { disabled: true },
  agent: { disabled: true },
})));
`;

/** Scalar adds inline styles to the page. Nothing is loaded from other hosts. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${createHash("sha256").update(SCRIPT).digest("base64")}'`,
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

function pageHandler({ anonKey, versions }: DocsOptions): RequestHandler {
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reference</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="reference" data-key="${escapeHtml(anonKey ?? "")}" data-versions="${versions.join(" ")}"></div>
<script src="${BUNDLE_PATH}"></script>
<script type="module">${SCRIPT}</script>
</body>
</html>
`;
  return contentHandler({
    type: "text/html; charset=utf-8",
    text,
    headers: { "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache" },
  });
}

export const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** The bundle is stored compressed, and decompressed only for clients without gzip. */
function bundleHandler(): RequestHandler {
  const bundle = readFileSync(BUNDLE_FILE);
  return (request, response) => {
    response.set("Cache-Control", "public, max-age=31536000, immutable").vary("Accept-Encoding").type("js");
    if (request.acceptsEncodings("gzip")) response.set("Content-Encoding", "gzip").send(bundle);
    else response.send(gunzipSync(bundle));
  };
}

const ERRORS_FILE = new URL("../../../docs/errors.md", import.meta.url);

export const isErrorReference = (url: string): boolean => url.split("?", 1)[0] === DOCUMENTATION;

/** `GET /docs/errors`: the meaning of the error codes. */
export function errorReference(): Router {
  const content = contentHandler({
    type: "text/plain; charset=utf-8",
    text: readFileSync(ERRORS_FILE, "utf8"),
    headers: { "Cache-Control": "public, max-age=300" },
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all(DOCUMENTATION, byMethod({ GET: content }));
  return router;
}

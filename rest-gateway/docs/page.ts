import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { type RequestHandler, Router } from "express";
import { byMethod } from "../../http/methods.ts";
import { contentHandler } from "../conventions/content.ts";

export const BUNDLE_FILE = new URL("./scalar-1.72.1.js.gz", import.meta.url);
const BUNDLE_PATH = "/docs/scalar-1.72.1.js";

export type DocsOptions = {
  /** The public key of the service, which the page asks with; null where none is needed. It is safe in browsers. */
  readonly anonKey: string | null;
};

/** `/docs`: the reference of the table interface, by Scalar, from this service alone. */
export function docsRouter({ anonKey }: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/docs", byMethod({ GET: pageHandler(anonKey) }));
  router.all(BUNDLE_PATH, byMethod({ GET: bundleHandler() }));
  return router;
}

/** Asks what holders of the key may do, and shows it. Requests that are tried out carry the key as well. */
const SCRIPT = `
const reference = document.getElementById("reference");
const { key } = reference.dataset;
const response = await fetch("/rest/v1/", { headers: key ? { apikey: key } : {} });
const content = await response.json();
if (!response.ok) {
  reference.textContent = content.message;
  throw new Error(content.message);
}
document.title = content.info.title;
Scalar.createApiReference(reference, {
  content,
  servers: [{ url: location.origin + "/rest/v1" }],
  authentication: { preferredSecurityScheme: "apikey", securitySchemes: { apikey: { value: key } } },
  operationTitleSource: "path",
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  mcp: { disabled: true },
  agent: { disabled: true },
});
`;

/** Scalar writes its styles into the page; nothing is loaded from elsewhere. */
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

function pageHandler(anonKey: string | null): RequestHandler {
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reference</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="reference" data-key="${escapeHtml(anonKey ?? "")}"></div>
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

const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** The bundle is kept compressed, and goes out so to all but the few clients that can't read it. */
function bundleHandler(): RequestHandler {
  const bundle = readFileSync(BUNDLE_FILE);
  return (request, response) => {
    response.set("Cache-Control", "public, max-age=31536000, immutable").vary("Accept-Encoding").type("js");
    if (request.acceptsEncodings("gzip")) response.set("Content-Encoding", "gzip").send(bundle);
    else response.send(gunzipSync(bundle));
  };
}

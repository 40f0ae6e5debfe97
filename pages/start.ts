import { readFileSync } from "node:fs";
import { type RequestHandler, Router } from "express";
import { byMethod } from "../http/express.ts";
import type { ServiceState } from "../http/health.ts";
import { RETRY_SECONDS } from "../http/response.ts";
import { contentHandler } from "../rest-gateway/conventions/conditional.ts";
import { documentOf, html, type Link, PAGE_POLICY } from "./html.ts";

/** The version of the service. */
export const VERSION: string = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;

/** Something that the service offers. `url` is complete, because clients copy it. */
export type Offer = { readonly name: string; readonly url: string; readonly about: string };

export type StartOptions = {
  offers(): readonly Offer[];
  /** The documentation. */
  readonly docs: readonly Link[];
  readonly links: readonly Link[];
  state(): ServiceState;
};

/** `/`: what the service offers, for people and for programs; while the service starts or stops, with status 503. */
export function startPage(options: StartOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  const handler: RequestHandler = (request, response, next) => {
    response.vary("Accept");
    const isBrowser = request.accepts(["application/json", "text/html"]) === "text/html";
    const headers = { "Cache-Control": "no-cache" };
    const content = isBrowser
      ? { type: "text/html; charset=utf-8", text: pageOf(options), headers: { ...headers, ...PAGE_HEADERS } }
      : { type: "application/json; charset=utf-8", text: jsonOf(options), headers };
    if (options.state() === "ready") {
      contentHandler(content)(request, response, next);
    } else {
      const unavailable = { ...content.headers, "Cache-Control": "no-store", "Retry-After": RETRY_SECONDS };
      response.status(503).set(unavailable).type(content.type).send(content.text);
    }
  };
  router.all("/", byMethod({ GET: handler }));
  return router;
}

const PAGE_HEADERS = { "Content-Security-Policy": PAGE_POLICY };

const jsonOf = ({ offers, docs, state }: StartOptions): string => {
  const interfaces = offers().map(({ name, url, about }) => ({ name, url, description: about }));
  const documentation = docs.map(({ name, path }) => ({ name, path }));
  return `${JSON.stringify({ name: "Content Service", version: VERSION, state: state(), interfaces, documentation }, null, 2)}\n`;
};

const STATES: Readonly<Record<ServiceState, string>> = {
  starting: "is starting",
  ready: "is running",
  draining: "is stopping",
};

const pageOf = ({ offers, docs, links, state }: StartOptions): string => {
  const isReady = state() === "ready";
  const main = html`
<h1>Content Service</h1>
<p>Version ${VERSION} <strong class="${isReady ? "good" : "warn"}">${STATES[state()]}</strong>. It turns a PostgreSQL database into an API.</p>
<h2>Interfaces</h2>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Interface</th><th scope="col">URL</th><th scope="col">What it is</th></tr></thead>
<tbody>
${offers().map(
  ({ name, url, about }) =>
    html`<tr><th scope="row">${name}</th><td>${url.startsWith("ws") ? html`<code>${url}</code>` : html`<a href="${url}">${url}</a>`}</td><td>${about}</td></tr>\n`,
)}</tbody>
</table></div>
<h2>Documentation</h2>
<ul>${docs.map(({ name, path }) => html`<li><a href="${path}">${name}</a></li>\n`)}</ul>
`;
  return documentOf({ title: "Start", path: "/", main }, links);
};

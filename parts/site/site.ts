import { readFileSync } from "node:fs";
import { type RequestHandler, Router } from "express";
import { badge, documentOf, html, PAGE_POLICY } from "../../gate/pages/html.ts";
import { type IconName, icon } from "../../gate/pages/icons.ts";
import { byMethod } from "../../gate/pipeline/express.ts";
import type { ServiceState } from "../../gate/pipeline/pipeline.ts";
import { docsOf } from "../../pages/documents.ts";
import { RETRY_SECONDS } from "../../problems/problem.ts";
import { contentHandler } from "../../rest-gateway/conventions/conditional.ts";
import type { Base } from "../../service/part.ts";
import { LIST, listGroups, listOf } from "./contents.ts";
import { firstRequestsOf, readFirstRequests } from "./first-requests.ts";

/** Something that the service offers. `url` is complete, because clients copy it. */
type Offer = { readonly icon: IconName; readonly name: string; readonly url: string; readonly about: string };

function offersOf({ config, application, parts, pages, ...base }: Base): readonly Offer[] {
  const { hasGraphQL, hasAuth, openapi } = config;
  const isDescribed = openapi !== "off" && parts.some(({ descriptions }) => descriptions);
  const url = base.url();
  const tables = "tables and functions over REST, for supabase-js and clients of PostgREST";
  const sockets = `${url.replace(/^http/, "ws")}/graphql`;
  const offers: [icon: IconName, name: string, url: string, about: string, isServed?: boolean][] = [
    ["data", "Tables", `${url}/rest/v1/`, tables, isDescribed],
    ["graph", "GraphQL", `${url}/graphql`, "queries and mutations", hasGraphQL],
    ["changes", "Subscriptions", sockets, "changes over WebSocket", hasGraphQL],
    ["resources", "Resources", `${url}/openapi.json`, aboutResources(application, hasAuth), isDescribed],
    ...pages.map(({ icon = "data", name, path, about = "" }): [IconName, string, string, string] => [
      ...([icon, name, url + path, about] as const),
    ]),
    ["health", "Health", `${url}/health`, "whether the service responds, and with which schema"],
  ];
  return offers
    .filter(([, , , about, isServed = true]) => isServed && about !== "")
    .map(([icon, name, url, about]) => ({ icon, name, url, about }));
}

/** `users, posts and comments over REST`; "" if there is nothing. */
function aboutResources({ resources, routes }: Base["application"], hasAccounts: boolean): string {
  const names = new Intl.ListFormat("en-GB").format(resources.map(({ name }) => name));
  if (names !== "") return `${names} over REST`;
  return routes.length > 0 ? "the paths of the application" : hasAccounts ? "sign-in and tasks over REST" : "";
}

/** The version of the service. */
const VERSION: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;

/** `/`: what the service offers, for people and for programs; while the service starts or stops, with status 503. `/llms.txt` */
export function startPage(base: Base): Router {
  const router = Router({ strict: true, caseSensitive: true });
  const handler: RequestHandler = async (request, response, next) => {
    response.vary("Accept");
    const isBrowser = request.accepts(["application/json", "text/html"]) === "text/html";
    const headers = { "Cache-Control": "no-cache" };
    const content = isBrowser
      ? { type: "text/html; charset=utf-8", text: await pageOf(base), headers: { ...headers, ...PAGE_HEADERS } }
      : { type: "application/json; charset=utf-8", text: jsonOf(base), headers };
    if (base.state() === "ready") {
      await contentHandler(content)(request, response, next);
    } else {
      const unavailable = { ...content.headers, "Cache-Control": "no-store", "Retry-After": String(RETRY_SECONDS) };
      response.status(503).set(unavailable).type(content.type).send(content.text);
    }
  };
  router.all("/", byMethod({ GET: handler }));
  const list = {
    type: "text/plain; charset=utf-8",
    text: listOf(listGroups()),
    headers: { "Cache-Control": "no-cache" },
  };
  router.all(LIST, byMethod({ GET: contentHandler(list) }));
  return router;
}

const PAGE_HEADERS = { "Content-Security-Policy": PAGE_POLICY };

const jsonOf = (base: Base): string => {
  const interfaces = offersOf(base).map(({ name, url, about }) => ({ name, url, description: about }));
  const documentation = docsOf({ groups: listGroups() }).map(({ name, path }) => ({ name, path }));
  return `${JSON.stringify({ name: "Content Service", version: VERSION, state: base.state(), interfaces, documentation }, null, 2)}\n`;
};

/** Whether a browser shows something at a URL. The others are for clients, with a key or a query. */
const isPage = (url: string) => !url.startsWith("ws") && !/\/(graphql|rest\/v1\/)$/.test(url);

/** The pages to begin with, the first of them as the main one. */
const STARTS = ["/docs/readme", "/graphiql", "/docs"];

const STATES: Readonly<Record<ServiceState, string>> = {
  starting: "is starting",
  ready: "is running",
  draining: "is stopping",
};

const pageOf = async (base: Base): Promise<string> => {
  const { url, links, state } = base;
  const core = base.core();
  const first = core && (await readFirstRequests(core));
  const isReady = state() === "ready";
  const starts = STARTS.flatMap((path) => links.find((link) => link.path === path) ?? []);
  const main = html`
<div class="hero">
<h1>Content Service</h1>
<p class="lead">It turns a PostgreSQL database into an API: GraphQL, REST, realtime and sign-in.</p>
<p class="row">${badge(STATES[state()], isReady ? "good" : "warn")} <span class="muted">Version ${VERSION}</span></p>
${starts.length === 0 ? null : html`<p class="row">${starts.map(({ path, name }, i) => html`<a class="button${i > 0 ? " quiet" : ""}" href="${path}">${name}</a>`)}</p>`}
</div>
${first && html`<h2>First requests</h2>\n${firstRequestsOf(url(), first)}`}
<h2>Interfaces</h2>
<ul class="offers">
${offersOf(base).map(
  ({ icon: sign, name, url, about }) =>
    html`<li>${icon(sign)}<div><strong>${isPage(url) ? html`<a href="${url}">${name}</a>` : name}</strong><p>${about}</p><code>${url}</code></div></li>\n`,
)}</ul>
<h2>Documentation</h2>
<div class="documents">${listGroups().map(
    ({ name, docs }) => html`<section><h3>${name}</h3>
<ul>${docs.map((doc) => html`<li><a href="${doc.path}">${doc.name}</a></li>\n`)}</ul></section>\n`,
  )}</div>
`;
  return documentOf({ title: "Start", path: "/", main, script: "/assets/docs.js" }, links);
};

import { readFileSync } from "node:fs";
import { type RequestHandler, Router } from "express";
import type { Config } from "../../config/config.ts";
import type { ServiceState } from "../../http/operations/health.ts";
import { badge, CONSOLE, documentOf, html, type Link, PAGE_POLICY } from "../../http/pages/html.ts";
import { type IconName, icon } from "../../http/pages/icons.ts";
import { type LinkSettings, linksOf } from "../../http/pages/links.ts";
import { byMethod } from "../../http/pipeline/express.ts";
import type { AlwaysOnInterface } from "../../http/pipeline/pipeline.ts";
import { RETRY_SECONDS } from "../../http/pipeline/response.ts";
import { ASSETS, LIBRARY } from "../../pages/assets.ts";
import { docsOf, type Group, listGroups } from "../../pages/contents.ts";
import { docsPages, schemaIn } from "../../pages/docs.ts";
import { compressedHandler, contentHandler } from "../../rest-gateway/conventions/conditional.ts";
import { DOCUMENTATION } from "../../rest-gateway/conventions/problem.ts";
import { ExpressInterface, type ExpressInterfaceOptions } from "../../rest-gateway/express-interface.ts";
import { type FirstRequests, firstRequestsOf } from "./first-requests.ts";

type SiteSettings = LinkSettings & Pick<Config, "openapi">;

type SiteOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  readonly settings: SiteSettings;
  readonly application: {
    /** The absolute path of its folder; null if there is no application. */
    readonly folder: string | null;
    readonly resources: readonly { readonly name: string }[];
    readonly routes: readonly unknown[];
  };
  /** Whether the console is on the same port. */
  readonly hasConsole: boolean;
  /** The URL of the service. */
  url(): string;
  /** Null until the service is ready. */
  firstRequests(): Promise<FirstRequests | null>;
  state(): ServiceState;
};

/** The pages for people: `/`, `/docs/…`, and their style. They are served while the service starts and stops too. */
export function createSite(options: SiteOptions): AlwaysOnInterface {
  const { settings, application, hasConsole, url, state, firstRequests, onInternalError } = options;
  const links = linksOf(settings, hasConsole);
  const groups = listGroups()
    .map(({ name, docs }) => ({ name, docs: docs.filter(({ path }) => settings.docs || path === DOCUMENTATION) }))
    .filter(({ docs }) => docs.length > 0);
  const routers = [
    startPage({ url, offers: () => offersOf(options, url()), groups, links, state, firstRequests }),
    docsPages({ groups, schema: settings.docs ? schemaIn(application.folder) : null, links }),
    assets(),
  ];
  const pages = new ExpressInterface({ routers, onInternalError });
  return { isAlwaysOn: true, reject: pages.reject, handle: (destination) => pages.handle(destination) };
}

function offersOf({ settings, application, hasConsole }: SiteOptions, url: string): readonly Offer[] {
  const { docs, graphiql, graphqlMaxTables, hasAuth, openapi } = settings;
  const offers: [icon: IconName, name: string, url: string, about: string, isServed?: boolean][] = [
    [
      "data",
      "Tables",
      `${url}/rest/v1/`,
      "tables and functions over REST, for supabase-js and clients of PostgREST",
      openapi !== "off",
    ],
    ["graph", "GraphQL", `${url}/graphql`, "queries and mutations", graphqlMaxTables > 0],
    [
      "changes",
      "Subscriptions",
      `${url.replace(/^http/, "ws")}/graphql`,
      "changes over WebSocket",
      graphqlMaxTables > 0,
    ],
    ["console", "GraphiQL", `${url}/graphiql`, "an editor for GraphQL", graphqlMaxTables > 0 && graphiql],
    ["resources", "Resources", `${url}/openapi.json`, aboutResources(application, hasAuth), openapi !== "off"],
    ["api", "API reference", `${url}/docs`, "all REST endpoints, to read and to try", docs],
    ["changes", "Live changes", `${url}/docs/live`, "the changes of a table, as they happen", docs],
    [
      "access",
      "Console",
      `${url}${CONSOLE}`,
      "for operators: access, requests as any caller, hidden rows, live numbers",
      hasConsole,
    ],
    ["health", "Health", `${url}/health`, "whether the service responds, and with which schema"],
  ];
  return offers
    .filter(([, , , about, isServed = true]) => isServed && about !== "")
    .map(([icon, name, url, about]) => ({ icon, name, url, about }));
}

/** `users, posts and comments over REST`; "" if there is nothing. */
function aboutResources({ resources, routes }: SiteOptions["application"], hasAccounts: boolean): string {
  const names = new Intl.ListFormat("en-GB").format(resources.map(({ name }) => name));
  if (names !== "") return `${names} over REST`;
  return routes.length > 0 ? "the paths of the application" : hasAccounts ? "sign-in and tasks over REST" : "";
}

function assets(): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const { name, type, file } of ASSETS) {
    const headers = { "Cache-Control": "no-cache" };
    router.all(
      `/assets/${name}`,
      byMethod({ GET: contentHandler({ type, text: readFileSync(file, "utf8"), headers }) }),
    );
  }
  router.all("/assets/library.js", byMethod({ GET: compressedHandler(LIBRARY, "no-cache") }));
  return router;
}

/** The version of the service. */
const VERSION: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;

/** Something that the service offers. `url` is complete, because clients copy it. */
type Offer = { readonly icon: IconName; readonly name: string; readonly url: string; readonly about: string };

type StartOptions = Pick<SiteOptions, "url" | "firstRequests"> & {
  offers(): readonly Offer[];
  /** The documentation. */
  readonly groups: readonly Group[];
  readonly links: readonly Link[];
  state(): ServiceState;
};

/** `/`: what the service offers, for people and for programs; while the service starts or stops, with status 503. */
export function startPage(options: StartOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  const handler: RequestHandler = async (request, response, next) => {
    response.vary("Accept");
    const isBrowser = request.accepts(["application/json", "text/html"]) === "text/html";
    const headers = { "Cache-Control": "no-cache" };
    const content = isBrowser
      ? { type: "text/html; charset=utf-8", text: await pageOf(options), headers: { ...headers, ...PAGE_HEADERS } }
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

const jsonOf = ({ offers, groups, state }: StartOptions): string => {
  const interfaces = offers().map(({ name, url, about }) => ({ name, url, description: about }));
  const documentation = docsOf({ groups }).map(({ name, path }) => ({ name, path }));
  return `${JSON.stringify({ name: "Content Service", version: VERSION, state: state(), interfaces, documentation }, null, 2)}\n`;
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

const pageOf = async ({ url, offers, groups, links, state, firstRequests }: StartOptions): Promise<string> => {
  const first = await firstRequests();
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
${offers().map(
  ({ icon: sign, name, url, about }) =>
    html`<li>${icon(sign)}<div><strong>${isPage(url) ? html`<a href="${url}">${name}</a>` : name}</strong><p>${about}</p><code>${url}</code></div></li>\n`,
)}</ul>
<h2>Documentation</h2>
<div class="documents">${groups.map(
    ({ name, docs }) => html`<section><h3>${name}</h3>
<ul>${docs.map((doc) => html`<li><a href="${doc.path}">${doc.name}</a></li>\n`)}</ul></section>\n`,
  )}</div>
`;
  return documentOf({ title: "Start", path: "/", main, script: "/assets/docs.js" }, links);
};

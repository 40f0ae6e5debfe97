import { readFileSync } from "node:fs";
import { Router } from "express";
import type { Config } from "../config/config.ts";
import { byMethod } from "../http/express.ts";
import type { ServiceState } from "../http/health.ts";
import { contentHandler } from "../rest-gateway/conventions/conditional.ts";
import { DOCUMENTATION } from "../rest-gateway/conventions/problem.ts";
import { ExpressInterface, type ExpressInterfaceOptions } from "../rest-gateway/express-interface.ts";
import { CONSOLE } from "./console/console.ts";
import { docsPages, listDocs } from "./docs.ts";
import type { Link } from "./html.ts";
import { type Offer, startPage } from "./start.ts";

type SiteSettings = Pick<Config, "docs" | "graphiql" | "graphqlMaxTables" | "migrate" | "openapi">;

export type SiteOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  readonly settings: SiteSettings;
  /** Whether the console is on the same port. */
  readonly hasConsole: boolean;
  /** The URL of the service. */
  url(): string;
  state(): ServiceState;
};

/** The pages for people: `/`, `/docs/…`, and their style. They are served while the service starts and stops too. */
export function createSite({ settings, hasConsole, url, state, onInternalError }: SiteOptions): ExpressInterface {
  const links = linksOf(settings, hasConsole);
  const docs = listDocs().filter(({ path }) => settings.docs || path === DOCUMENTATION);
  const routers = [
    startPage({ offers: () => offersOf(settings, hasConsole, url()), docs, links, state }),
    docsPages({ docs, hasSchema: settings.docs, links }),
    assets(),
  ];
  return new ExpressInterface({ serves: (path) => SERVED.test(path), routers, onInternalError });
}

/** `/docs` is the reference, which does not belong to these pages, and neither does its bundle or the page of live changes. */
const SERVED = /^\/(?:$|\?|assets\/|docs\/(?!scalar-|live(?:$|\?)))/;

/** The links of the header. */
export function linksOf({ docs, graphiql, graphqlMaxTables }: SiteSettings, hasConsole: boolean): readonly Link[] {
  const explorer = graphiql && graphqlMaxTables > 0 ? [{ path: "/graphiql", name: "GraphiQL" }] : [];
  const reference = docs
    ? [
        { path: "/docs/readme", name: "Documentation" },
        { path: "/docs", name: "API reference" },
        { path: "/docs/live", name: "Live changes" },
      ]
    : [];
  const console = hasConsole ? [{ path: CONSOLE, name: "Console" }] : [];
  return [{ path: "/", name: "Start" }, ...reference, ...explorer, ...console];
}

function offersOf(
  { docs, graphiql, graphqlMaxTables, migrate, openapi }: SiteSettings,
  hasConsole: boolean,
  url: string,
): readonly Offer[] {
  const offers: [name: string, url: string, about: string, isServed?: boolean][] = [
    [
      "Tables",
      `${url}/rest/v1/`,
      "tables and functions over REST, for supabase-js and clients of PostgREST",
      openapi !== "off",
    ],
    ["GraphQL", `${url}/graphql`, "queries and mutations", graphqlMaxTables > 0],
    ["Subscriptions", `${url.replace(/^http/, "ws")}/graphql`, "changes over WebSocket", graphqlMaxTables > 0],
    ["GraphiQL", `${url}/graphiql`, "an editor for GraphQL", graphqlMaxTables > 0 && graphiql],
    ["Resources", `${url}/openapi.json`, "users, articles and comments over REST", migrate && openapi !== "off"],
    ["API reference", `${url}/docs`, "all REST endpoints, to read and to try", docs],
    ["Live changes", `${url}/docs/live`, "the changes of a table, as they happen", docs],
    [
      "Console",
      `${url}${CONSOLE}`,
      "for operators: access, requests as any caller, hidden rows, live numbers",
      hasConsole,
    ],
    ["Health", `${url}/health`, "whether the service responds, and with which schema"],
  ];
  return offers.filter(([, , , isServed = true]) => isServed).map(([name, url, about]) => ({ name, url, about }));
}

const ASSETS = {
  "style.css": "text/css; charset=utf-8",
  "console-live.js": "text/javascript; charset=utf-8",
} as const;

function assets(): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const [name, type] of Object.entries(ASSETS)) {
    const text = readFileSync(new URL(`./assets/${name}`, import.meta.url), "utf8");
    router.all(
      `/assets/${name}`,
      byMethod({ GET: contentHandler({ type, text, headers: { "Cache-Control": "no-cache" } }) }),
    );
  }
  return router;
}

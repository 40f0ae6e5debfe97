import type { Config } from "../../config/config.ts";
import { CONSOLE, type Link } from "./html.ts";

export type LinkSettings = Pick<Config, "docs" | "graphiql" | "graphqlMaxTables" | "hasAuth" | "authPages">;

/** The links of the header: the pages that are served. */
export function linksOf(settings: LinkSettings, hasConsole: boolean): readonly Link[] {
  const { docs, graphiql, graphqlMaxTables, hasAuth, authPages } = settings;
  const links: readonly [isServed: boolean, path: string, name: string][] = [
    [true, "/", "Start"],
    [docs, "/docs/readme", "Documentation"],
    [docs, "/docs", "API reference"],
    [docs, "/docs/live", "Live changes"],
    [graphiql && graphqlMaxTables > 0, "/graphiql", "GraphiQL"],
    [hasConsole, CONSOLE, "Console"],
    [hasAuth && authPages === "on", "/auth/account", "Account"],
  ];
  return links.filter(([isServed]) => isServed).map(([, path, name]) => ({ path, name }));
}

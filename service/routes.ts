import type { Application } from "../app/application.ts";
import { Routes } from "../http/pipeline/routes.ts";
import { CONSOLE } from "../pages/html.ts";
import { BUNDLE_PATH } from "../rest-gateway/openapi/reference/page.ts";

type InterfaceName =
  | ("tables" | "graphql" | "explorer" | "broadcasts" | "resources" | "auth")
  | ("health" | "operations" | "console" | "site" | "reference");

/** Path → interface. `/rest/v1/*` is `/rest/v1` and every path below it; the longest path decides. Every other path is 404. */
const HTTP: Readonly<Record<string, InterfaceName>> = {
  "/rest/v1/*": "tables",
  "/graphql": "graphql",
  "/graphiql/*": "explorer",
  "/realtime/v1/api/broadcast/*": "broadcasts",
  "/auth/*": "auth",
  "/api/auth/*": "auth",
  "/api/mfa/*": "auth",
  "/csrf-token": "auth",
  "/.well-known/jwks.json": "auth",
  // `/api/v2/users` is `/users` in version 2.
  "/api/*": "resources",
  "/openapi.json": "resources",
  "/tasks/*": "resources",
  "/live": "health",
  "/ready": "health",
  "/health": "health",
  "/metrics": "operations",
  "/config": "operations",
  "/schema_cache": "operations",
  [`${CONSOLE}/*`]: "console",
  "/": "site",
  "/assets/*": "site",
  "/docs/*": "site",
  "/docs": "reference",
  "/docs/live": "reference",
  [BUNDLE_PATH]: "reference",
};

type SocketName = "graphql" | "realtime";

/** Path → the WebSockets that are opened there. */
const SOCKETS: Readonly<Record<string, SocketName>> = {
  "/graphql": "graphql",
  "/realtime/v1/websocket": "realtime",
};

/**
 * The table with these interfaces. One that is absent or null has no rows; `rest` is for every other path. `resources` are those of the
 * application, such as `/users/*`.
 */
export function httpRoutes<T>(
  interfaces: Readonly<Partial<Record<InterfaceName, T | null>>>,
  rest: T,
  resources: Application["resources"] = [],
): Routes<T> {
  const own = Object.fromEntries(resources.map(({ name }) => [`/${name}/*`, "resources"] as const));
  return routesOf({ ...HTTP, ...own }, interfaces, rest);
}

/** The same for WebSockets. */
export const socketRoutes = <T>(sockets: Readonly<Record<SocketName, T | null>>): Routes<T | null> =>
  routesOf<SocketName, T, null>(SOCKETS, sockets, null);

function routesOf<Name extends string, T, Rest>(
  table: Readonly<Record<string, Name>>,
  interfaces: Readonly<Partial<Record<Name, T | null>>>,
  rest: Rest,
): Routes<T | Rest> {
  const rows = Object.entries(table).flatMap(([path, name]): [path: string, value: T][] => {
    const found = interfaces[name as Name];
    return found ? [[path, found]] : [];
  });
  return new Routes<T | Rest>(rows, rest);
}

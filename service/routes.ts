import type { Application } from "../app/application.ts";
import { placeOf } from "../app/origin.ts";
import { ConfigError } from "../config/config.ts";
import { Routes } from "../gate/pipeline/pipeline.ts";
import { GRAPHQL } from "../graphql/transport/envelope.ts";
import { isRouter } from "../rest-gateway/routes/route.ts";
import { TABLES } from "../rest-gateway/table/send.ts";
import type { Part } from "./part.ts";

type InterfaceName = ("tables" | "graphql" | "broadcasts" | "resources" | "auth") | ("health" | "operations" | "pages");

/** Path → interface. `/rest/v1/*` is `/rest/v1` and every path below it; the longest path decides. Every other path is 404. */
const HTTP: Readonly<Record<string, InterfaceName>> = {
  "/rest/v1/*": "tables",
  "/graphql": "graphql",
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
  "/assets/*": "pages",
  "/docs/*": "pages",
};

type SocketName = "graphql" | "realtime";

/** Path → the WebSockets that are opened there. */
const SOCKETS: Readonly<Record<string, SocketName>> = {
  "/graphql": "graphql",
  "/realtime/v1/websocket": "realtime",
};

/** Throws ConfigError for a path of the application that is taken: by the service, a part, a resource, or another path of the application. */
export function refuseClashes({ folder, resources, routes }: Application, parts: readonly Part[]): void {
  const ofParts = parts.flatMap(({ name, paths = [] }) =>
    paths.map((path) => [path, `the part ${name} serves ${path}`] as const),
  );
  const ofService = new Routes<string | null>(
    [...Object.keys(HTTP).map((path) => [path, `the service serves ${path}`] as const), ...ofParts],
    null,
  );
  const refuse = (
    what: string,
    value: object,
    reason: string | null | undefined,
    cure = "choose another path",
  ): void => {
    if (reason) throw new ConfigError(`${placeOf(value, folder)}: ${what} is taken, because ${reason}: ${cure}`);
  };
  for (const resource of resources)
    refuse(`the path /${resource.name} of a resource`, resource, ofService.find(`/${resource.name}`), RENAME);
  const own = new Map<string, string>();
  for (const route of routes) {
    for (const path of pathsOf(route)) {
      const resource = resources.find(({ name }) => path === `/${name}` || path.startsWith(`/${name}/`));
      const reason = resource && `the resource ${resource.name} serves it`;
      refuse(`the path ${path}`, route, ofService.find(path) ?? reason ?? own.get(path));
      own.set(path, `${placeOf(route, folder)} serves it`);
    }
  }
}

/**
 * The rows of an application, which serves something at or below their paths, and what serves all paths without a row: the application
 * too if it has a router, or a path that begins with a parameter.
 *
 *   applicationRoutes([{ path: "/reports/:id", … }, { path: "/status", … }], own, nothing)
 *   // { rows: { "/reports/*": own, "/status": own }, others: nothing }
 */
export function applicationRoutes<T>(
  routes: Application["routes"],
  own: T | null,
  nothing: T,
): { readonly rows: Readonly<Record<string, T>>; readonly others: T } {
  const paths = routes.map((route) => (isRouter(route) ? "/*" : rowOf(route.path)));
  if (own === null || paths.includes("/*")) return { rows: {}, others: own ?? nothing };
  return { rows: Object.fromEntries(paths.map((path) => [path, own])), others: nothing };
}

/** `/*` follows the segments before the first one that Express may read as a pattern. */
function rowOf(path: string): string {
  const pattern = path.search(/\/[^/]*[^\w.~/-]/);
  return pattern < 0 ? path : `${path.slice(0, pattern)}/*`;
}

const RENAME = "set another name, which is its path; the member table stays";

/** The paths of a route. Of a router, those that it names itself. */
const pathsOf = (route: Application["routes"][number]): readonly string[] =>
  isRouter(route)
    ? route.stack.flatMap(({ route: layer }) => (typeof layer?.path === "string" ? [layer.path] : []))
    : [route.path];

/**
 * The table with these interfaces. One that is absent or null has no rows; `rest` is for every other path. `resources` are those of the
 * application, such as `/users/*`, and `ofParts` has what parts serve.
 */
export function httpRoutes<T>(
  interfaces: Readonly<Partial<Record<InterfaceName, T | null>>>,
  rest: T,
  resources: Application["resources"] = [],
  ofParts: Readonly<Record<string, T>> = {},
): Routes<T> {
  const own = Object.fromEntries(resources.map(({ name }) => [`/${name}/*`, "resources"] as const));
  return routesOf({ ...HTTP, ...own }, interfaces, rest, ofParts);
}

/** The same for WebSockets. */
export const socketRoutes = <T>(sockets: Readonly<Record<SocketName, T | null>>): Routes<T | null> =>
  routesOf<SocketName, T, null>(SOCKETS, sockets, null);

function routesOf<Name extends string, T, Rest>(
  table: Readonly<Record<string, Name>>,
  interfaces: Readonly<Partial<Record<Name, T | null>>>,
  rest: Rest,
  more: Readonly<Record<string, T>> = {},
): Routes<T | Rest> {
  const rows = Object.entries(table).flatMap(([path, name]): [path: string, value: T][] => {
    const found = interfaces[name as Name];
    return found ? [[path, found]] : [];
  });
  return new Routes<T | Rest>([...rows, ...Object.entries(more)], rest);
}

/** The form of the errors of the interfaces that do not exist yet. */
export const OF_STARTING = { tables: TABLES, graphql: GRAPHQL, broadcasts: TABLES };

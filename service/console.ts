import type { Config } from "../config/config.ts";
import { callerRoles } from "../db/catalog/exposure.ts";
import { readPolicies } from "../db/policies.ts";
import type { HttpInterface } from "../http/pipeline.ts";
import { accessView } from "../pages/console/access.ts";
import { CONSOLE, consolePages } from "../pages/console/console.ts";
import { ConsoleSessions } from "../pages/console/session.ts";
import { linksOf } from "../pages/site.ts";
import { ExpressInterface, type ExpressInterfaceOptions } from "../rest-gateway/express-interface.ts";
import type { createApp } from "./app.ts";

export type ServiceConsoleOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  readonly config: Config;
  readonly app: Awaited<ReturnType<typeof createApp>>;
  readonly url: string;
};

/** `/console`, on the parts of a running service. */
export function createConsole({ config, app, url, onInternalError }: ServiceConsoleOptions): HttpInterface {
  const { callers, secret, opened, database, rest, advisor } = app;
  const { data, admin, service } = opened.logins;
  const logins = [data, admin, service].map((login) => decodeURIComponent(new URL(login).username));
  const catalog = () => rest.catalog.current;
  const access = accessView({
    catalog,
    roles: () => callerRoles(catalog().roles, logins),
    anonymousRole: config.dbAnonRole,
    advice: () => advisor?.advice ?? null,
    policies: () => readPolicies(database.catalog, [...catalog().schemas.keys()]),
  });
  const router = consolePages({
    sessions: new ConsoleSessions({ callers, secret, isSecure: url.startsWith("https:") }),
    views: [access],
    links: linksOf(config, true),
  });
  return new ExpressInterface({ serves: (path) => SERVED.test(path), routers: [router], onInternalError });
}

const SERVED = new RegExp(`^${CONSOLE}(?:$|[/?])`);

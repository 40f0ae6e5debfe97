import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { readActivity } from "../db/activity.ts";
import { callerRoles } from "../db/catalog/exposure.ts";
import { givingWay } from "../db/giving-way.ts";
import { readPolicies } from "../db/policies.ts";
import { RowAccessCheck } from "../db/row-access.ts";
import type { HttpInterface } from "../http/pipeline.ts";
import { accessView } from "../pages/console/access.ts";
import type { AsOptions } from "../pages/console/as.ts";
import { CONSOLE, consolePages } from "../pages/console/console.ts";
import { liveView } from "../pages/console/live.ts";
import { ConsoleSessions } from "../pages/console/session.ts";
import { tryView } from "../pages/console/try.ts";
import { whyView } from "../pages/console/why.ts";
import { linksOf } from "../pages/site.ts";
import type { AuthRepository } from "../rest-gateway/auth/repository.ts";
import { ExpressInterface, type ExpressInterfaceOptions } from "../rest-gateway/express-interface.ts";
import type { createApp } from "./app.ts";
import { trialSender } from "./trial.ts";

export type ServiceConsoleOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  readonly config: Config;
  readonly app: Awaited<ReturnType<typeof createApp>>;
  readonly url: string;
  /** The metrics of the service, as text. */
  metrics(): Promise<string>;
  readonly log: Logger;
};

/** `/console`, on the parts of a running service. */
export function createConsole({
  config,
  app,
  url,
  metrics,
  log,
  onInternalError,
}: ServiceConsoleOptions): HttpInterface {
  const { callers, secret, opened, database, rest, graphql, auth, advisor, tasks } = app;
  const { data, admin, service } = opened.logins;
  const logins = [data, admin, service].map((login) => decodeURIComponent(new URL(login).username));
  const catalog = () => rest.catalog.current;
  const roles = () => callerRoles(catalog(), logins);
  const policies = () => givingWay(() => readPolicies(database.catalog, [...catalog().schemas.keys()]));
  const access = accessView({
    catalog,
    roles,
    anonymousRole: config.dbAnonRole,
    advice: () => advisor?.advice ?? null,
    policies,
  });
  const as: AsOptions = {
    anonymousRole: config.dbAnonRole,
    roles,
    findAccount: auth && accountFinder(auth.repository),
  };
  const trial = tryView({
    ...as,
    hasGraphQL: graphql !== null,
    send: trialSender({ app, log, onInternalError }),
    onTried: (operator, caller, { method, path }, keepsChanges) =>
      log.info(
        { operator, caller, method, path: path.split("?", 1)[0], keepsChanges },
        "the console has tried a request",
      ),
  });
  const check = new RowAccessCheck({ database, catalog, appSettings: config.appSettings });
  const why = whyView({ ...as, catalog, check, policies });
  const live = liveView({
    metrics,
    activity: () => readActivity(database.catalog),
    slow: () => database.slow.all,
    waitingTasks: async () => tasks?.countWaiting() ?? null,
  });
  const router = consolePages({
    sessions: new ConsoleSessions({ callers, secret, isSecure: url.startsWith("https:") }),
    views: [access, trial, why, live],
    links: linksOf(config, true),
  });
  return new ExpressInterface({ serves: (path) => SERVED.test(path), routers: [router], onInternalError });
}

const SERVED = new RegExp(`^${CONSOLE}(?:$|[/?])`);

/** Finds an account by username, e-mail or id. */
const accountFinder = (repository: AuthRepository) => async (login: string) =>
  (await repository.findAccount(login)) ?? (/^[1-9]\d{0,17}$/.test(login) ? repository.accountOf(login) : null);

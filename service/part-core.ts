import { type HttpEnvelope, type HttpInterface, Pipeline } from "../gate/pipeline/pipeline.ts";
import { ExpressInterface, REST } from "../rest-gateway/express-interface.ts";
import type { App } from "./app.ts";
import type { Core } from "./part.ts";
import { baseOf, type PortBase } from "./parts.ts";
import { httpRoutes } from "./routes.ts";

type Given = Pick<PortBase, "config" | "application" | "parts" | "onInternalError"> &
  Pick<Core, "url" | "log" | "metrics" | "readMetrics">;

/** What the parts of a service may use. */
export function coreOf(app: App, given: Given): Core {
  const { settings, secret, opened, database, catalog, rights, changes, callers, tasks, graphql, findings } = app;
  const { auth, anonKey, versions } = app.rest;
  return {
    ...baseOf(given, given.config.adminPort === 0),
    ...{ url: given.url, log: given.log, metrics: given.metrics, readMetrics: given.readMetrics },
    ...{ settings, secret, opened, database, catalog, rights, changes, callers, auth, tasks, graphql, findings },
    ...{ anonKey, versions },
    pipeline: pipelines(app, given),
  };
}

/** Pipelines that neither limit nor measure: their requests come from a part. */
function pipelines({ application, rest, graphql, pages }: App, { log, onInternalError }: Given): Core["pipeline"] {
  const nothing = new ExpressInterface({ routers: [], onInternalError });
  const { tables, resources } = rest;
  const data = { tables, graphql: graphql?.http, resources };
  const routes = {
    data: httpRoutes<HttpInterface>(data, nothing, application.resources),
    auth: httpRoutes<HttpInterface>({ auth: pages.auth }, nothing),
  };
  const starting = httpRoutes<HttpEnvelope>({}, REST);
  const unlimited = { log, starting, corsOrigins: [], limits: null, metrics: null };
  return (served, callers, phases) => {
    const pipeline = new Pipeline({ ...unlimited, tracer: phases ?? null });
    pipeline.open(routes[served], { callers });
    return pipeline;
  };
}

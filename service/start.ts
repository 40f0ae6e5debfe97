import { flushCompileCache } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { type Application, applicationOf } from "../app/application.ts";
import { NO_APPLICATION } from "../app/load.ts";
import { cacheMemory } from "../cache/cache.ts";
import type { Config } from "../config/config.ts";
import { maskedSettings } from "../config/masked.ts";
import { registerFeedMetrics } from "../db/changes/feed-metrics.ts";
import { lossOf, type OpenedDatabase } from "../db/cluster/open.ts";
import { mistakeIn } from "../db/errors.ts";
import { adminInterface } from "../gate/operations/admin.ts";
import { metricsText } from "../gate/operations/metrics.ts";
import { operatorAccess } from "../gate/operations/operator.ts";
import type { AlwaysOnInterface, HttpEnvelope, HttpInterface } from "../gate/pipeline/pipeline.ts";
import { KEEP_ALIVE } from "../gate/process/server.ts";
import type { Running } from "../gate/process/workers.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { HashPassword } from "../rest-gateway/auth/passwords.ts";
import { ExpressInterface, REST } from "../rest-gateway/express-interface.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { addProcess } from "../telemetry/process.ts";
import type { Tracer } from "../telemetry/span.ts";
import { AdminServer } from "./admin.ts";
import { type App, createApp } from "./app.ts";
import { Gate } from "./gate.ts";
import { serviceHealth } from "./health.ts";
import { freeMemoryOfStart, HeapGuard } from "./heap-guard.ts";
import { type Limits, withLimits } from "./limits.ts";
import { openConfigured } from "./open.ts";
import type { Core, Part } from "./part.ts";
import { coreOf } from "./part-core.ts";
import { type OpenParts, openEarly, openParts } from "./parts.ts";
import { reloadSettings } from "./reload-settings.ts";
import { applicationRoutes, httpRoutes, OF_STARTING, refuseClashes } from "./routes.ts";

/** The service, in this process or in worker processes. */
export type Started = Running & { readonly tokens: Tokens };

export type Service = Started & {
  /** Round trips to the database so far. */
  databaseWaits(): number;
  /** Bytes that clients make the service hold. */
  clientMemory(): number;
  /** Checks whether clients read streamed results slowly, as a timer does. */
  checkStreams(): void;
  /** Ends all streams of events, as a stop of the service does: their clients connect again. */
  endStreams(): void;
  /** Open WebSockets, their IP addresses, and subscriptions. */
  open(): { readonly sockets: number; readonly addresses: number; readonly subscriptions: number };
};

export type StartOptions = {
  /** Without it, the service has tables, GraphQL and realtime. */
  readonly application?: Application;
  /** What is served beside the core, in this order. */
  readonly parts?: readonly Part[];
  /** Opens a database other than the one in the settings. */
  readonly open?: () => Promise<OpenedDatabase>;
  /** Whether to listen only when the service is ready, because other processes already serve the port. */
  readonly listensLast?: boolean;
  /** Whether it then listens without GraphQL, which takes as long as the rest: an author waits for the change of a file. */
  readonly isDev?: boolean;
  /** Whether nothing else runs in the process: its metrics are those of the service, and the memory of the start is freed. */
  readonly ownsProcess?: boolean;
  /** Reads the settings again for a reload; may throw ConfigError. Without it a reload changes nothing. */
  readonly reread?: () => Config;
  /** Returns milliseconds since 1970, for sessions, tokens and attempts. Tests replace it. */
  readonly clock?: () => number;
  /** Whether the GraphQL schema is built at the first GraphQL request, instead of as soon as everything else is served. For tests. */
  readonly defersGraphQL?: boolean;
  /** For tests: other limits, a cheaper hash of new passwords, and a tracer in place of that of the settings. */
  readonly limits?: Limits;
  readonly hashPassword?: HashPassword;
  readonly tracer?: Tracer;
};

/** Starts the service: HTTP server, database, identity, interfaces. Rejects, with nothing left running, if that fails. */
export async function startService(config: Config, log: Logger, options: StartOptions = {}): Promise<Service> {
  const { application = applicationOf(NO_APPLICATION, config), clock = Date.now, hashPassword, parts = [] } = options;
  const { limits, open = () => openConfigured({ config, application }, log, { parts, limits }) } = options;
  let limited = withLimits(config, limits);
  refuseClashes(application, parts);
  const listensLast = config.takeover !== "" || options.listensLast === true;
  let app: App | null = null;
  const onInternalError = (err: unknown, requestId: string) => {
    const mistake = mistakeIn(err);
    log.error({ requestId, ...(mistake === null && { err }) }, mistake ?? "unhandled error");
  };
  const access = operatorAccess(config);
  const health = serviceHealth({ state: () => gate.pipeline.state, access, app: () => app! });
  const metrics = new Metrics();
  const readMetrics = metricsText(metrics);
  if (options.ownsProcess) addProcess(metrics);
  const tracer = options.tracer ?? (config.tracing ? await createTracer(log) : null);
  const admin = config.adminPort === 0 ? null : new AdminServer({ config, log, health });
  let core: Core | null = null;
  let opened: OpenParts | undefined;
  const base = { config, application, parts, state: () => gate.pipeline.state, core: () => core, onInternalError };
  const early = openEarly({ ...base, url: () => gate.url }, admin === null);
  const gate = new Gate({
    ...{ config, limits: () => limited, log, metrics, tracer },
    starting: httpRoutes<HttpEnvelope | AlwaysOnInterface>(
      { ...OF_STARTING, health: admin ? null : health, pages: early.pages },
      REST,
      application.resources,
      { ...early.errors, ...early.ofParts },
    ),
  });
  const { addressOf, onLimit, server } = gate;
  if (!listensLast) await gate.listen();
  const { url } = gate;

  try {
    if (!listensLast) await admin?.listen();
    app = await createApp({
      ...{ config, limits, application, log, metrics, tracer, onLimit, open, url, addressOf, clock, hashPassword },
      ...{ parts, onInternalError },
    });
    gate.measure(app);
    core = coreOf(app, { ...base, url, log, metrics, readMetrics });
    opened = await openParts(core);
    if (listensLast) {
      // Other processes already serve the port, so the schema is loaded first: the first requests should not wait for it.
      if (!options.defersGraphQL && !options.isDev) await app.graphql?.loadInBackground();
      await gate.listen();
      await admin?.listen();
    }
  } catch (error) {
    await opened?.close();
    await app?.close();
    admin?.close();
    server.close();
    throw error;
  }
  const { database, catalog, changes, notifications, tokens, auth, tasks, callers } = app;
  const { graphql, realtime, rest, pages, settings } = app;
  const operations = adminInterface({
    metrics: admin || config.metrics ? readMetrics : null,
    settings: () => maskedSettings(settings.current),
    catalog: () => catalog.current,
    access,
    reject: REST.reject,
  });
  const nothing = new ExpressInterface({ routers: [], onInternalError });
  const ofOperators = { health, operations };
  if (admin) {
    const { pages, ofParts } = openEarly({ ...base, url: () => url }, true);
    const served = { ...ofParts, ...opened.operatorRoutes };
    admin.open(httpRoutes<HttpInterface>({ ...ofOperators, pages }, nothing, [], served), callers);
  }
  const { tables, resources } = rest;
  const data = { tables, graphql: graphql?.http, broadcasts: realtime.broadcasts, resources };
  const served = { ...data, auth: pages.auth, pages: early.pages, ...(!admin && ofOperators) };
  const ofParts = { ...early.ofParts, ...opened.routes, ...(!admin && opened.operatorRoutes) };
  const { rows, others } = applicationRoutes(application.routes, pages.application, nothing);
  const routes = httpRoutes<HttpInterface>(served, others, application.resources, { ...rows, ...ofParts });
  const sockets = gate.open(routes, app);
  cacheMemory.limitTo(limited.cacheMemory);
  settings.follow((changed) => {
    if (changed.logLevel !== limited.logLevel) log.level = changed.logLevel;
    limited = withLimits(changed, limits);
    gate.follow(changed);
  });
  registerFeedMetrics(metrics, changes);
  cacheMemory.registerMetrics(metrics);
  const loaded = options.defersGraphQL ? null : graphql?.loadInBackground();
  const checked = Promise.all([loaded, changes.published]).then(() => opened.settled());
  if (options.ownsProcess) void Promise.resolve(loaded).then(() => setTimeout(settle, SETTLE_MILLISECONDS).unref());
  const heapGuard = options.ownsProcess ? new HeapGuard({ budget: database.budget, log, onLimit }) : null;

  const sendAway = (spread: number) => Promise.all([sockets.close(spread), app?.streams.close(spread)]);
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    const { drainDelay, drainTimeout, drainSpread } = limited;
    gate.pipeline.state = "draining";
    if (!isHandedOver) await sleep(drainDelay);
    void sendAway(Math.min(drainSpread, drainTimeout));
    await Promise.all([server.drain(drainTimeout), tasks?.close()]);
    await sockets.terminate();
    heapGuard?.close();
    await opened.close();
    await app?.close();
    await tracer?.close();
    admin?.close();
  };
  let isHandedOver = false;
  const handOver = async () => {
    isHandedOver = true;
    void opened.close();
    gate.pipeline.state = "draining";
    admin?.close();
    const isEmpty = server.handOver();
    void app?.instances.leave();
    await sendAway(limited.drainSpread);
    // Frees the replication slot, if there is one, for the next process.
    void changes.close();
    await Promise.race([isEmpty, sleep(KEEP_ALIVE, null, { ref: false })]);
  };
  return {
    ...{ url, tokens, checked },
    databaseWaits: () => database.waits,
    clientMemory: () => database.budget.total,
    checkStreams: () => app?.slowStreams.check(),
    endStreams: () => app?.streams.endAll(),
    open: () => ({ ...sockets.open, subscriptions: graphql?.subscriptions ?? 0 }),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    handOver,
    reloadSchema: () => notifications.reloadSchema(),
    reloadSettings: async () => {
      if (!(await reloadSettings(settings, options.reread ?? (() => config), log))) return;
      await auth?.federated?.load().catch((err) => log.error({ err }, "the identity providers cannot be read"));
    },
    databaseLost: lossOf(app.opened, () => stopped !== undefined),
  };
}

/** The time after the start until the last of its work has ended. */
const SETTLE_MILLISECONDS = 1000;

function settle(): void {
  freeMemoryOfStart();
  // Node writes what it has compiled at the end of a process, unless that is killed. It takes 0.1 s, once for each version.
  flushCompileCache();
}

/** Loaded only where requests are traced. */
async function createTracer(log: Logger): Promise<Tracer> {
  const { createTracer } = await import("../telemetry/opentelemetry.ts");
  return createTracer((reason) => log.warn({ reason }, "traces cannot be sent"));
}

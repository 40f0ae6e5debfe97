import type { RequestHandler } from "express";
import type { Logger } from "pino";
import type { Application } from "../app/application.ts";
import type { Config } from "../config/config.ts";
import { budgetLimits } from "../db/admission/byte-budget.ts";
import type { Caller } from "../db/caller.ts";
import { changesPool, createFeed } from "../db/changes/changes-config.ts";
import type { OpenedDatabase } from "../db/cluster/open.ts";
import { Findings } from "../db/findings/findings.ts";
import { Instances } from "../db/follow/instances.ts";
import { LiveSettings } from "../db/follow/live-settings.ts";
import { Notifications, SchemaAnnouncement } from "../db/follow/notifications.ts";
import { SlowStreams } from "../gate/limits/slow-streams.ts";
import { EventStreams } from "../gate/pipeline/event-stream.ts";
import type { addressReader } from "../gate/pipeline/exchange.ts";
import { settingsLog } from "../gate/pipeline/log.ts";
import type { Redis } from "../gate/process/redis.ts";
import { DeferredGraphQL } from "../graphql/deferred.ts";
import { OperationMetrics } from "../graphql/execute/operation-metrics.ts";
import { CallerResolver } from "../identity/caller-resolver.ts";
import { secretOf } from "../identity/keys.ts";
import { createVerifier } from "../identity/token-verifier.ts";
import { createTokens, keysOf, type Tokens } from "../identity/tokens.ts";
import { createRealtime } from "../realtime/index.ts";
import { createAuth } from "../rest-gateway/auth/auth.ts";
import type { HashPassword } from "../rest-gateway/auth/passwords.ts";
import { routerOf, runRoute } from "../rest-gateway/auth/route.ts";
import { deriveKey } from "../rest-gateway/auth/secret-box.ts";
import { ExpressInterface } from "../rest-gateway/express-interface.ts";
import { createRest } from "../rest-gateway/index.ts";
import { tableErrors } from "../rest-gateway/table/send.ts";
import { TASKS_NOT_RUN } from "../rest-gateway/tasks/own-task.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Tracer } from "../telemetry/span.ts";
import { followSettings, openCore } from "./core.ts";
import { type LimitedConfig, type Limits, withLimits } from "./limits.ts";
import { editorsOf } from "./open.ts";
import type { Part } from "./part.ts";
import { authPartsOf, authRoutesOf, descriptionsOf, loadPlugins } from "./parts.ts";
import { openRedis, peersOf, sharedLogOf, shareWrites } from "./redis.ts";

export type AppOptions = {
  readonly config: Config;
  readonly limits: Limits | undefined;
  readonly application: Application;
  /** Every part that is open. */
  readonly parts: readonly Part[];
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Null when nothing is traced. */
  readonly tracer: Tracer | null;
  /** Called with the name of the setting whose limit has rejected something. */
  onLimit(setting: string): void;
  open(): Promise<OpenedDatabase>;
  readonly url: string;
  readonly addressOf: ReturnType<typeof addressReader>;
  readonly clock: () => number;
  readonly hashPassword: HashPassword | undefined;
  onInternalError(error: unknown, requestId: string): void;
};

export type App = Awaited<ReturnType<typeof createApp>>;

/** Opens the database and creates the interfaces on it. Rejects, with nothing left running, if that fails. */
export async function createApp(options: AppOptions) {
  const { application, log, url, metrics, tracer, limits, onInternalError } = options;
  const secret = await secretOf(options.config);
  const opened = await options.open();
  const tokens = createTokens(options.config, secret, opened.userId);
  let close = async () => opened.cluster?.stop();
  try {
    const settings = new LiveSettings({ config: options.config, url: opened.logins.data, log: settingsLog(log) });
    const config = withLimits(await settings.start(), limits);
    const redis = await openRedis({ ...options, config, url: opened.listenUrl });
    close = async () => {
      redis?.close();
      await opened.cluster?.stop();
    };
    const context = await createContext(opened, { ...options, config, secret, tokens, redis });
    const { database, notifications, auth, tasks } = context;
    close = context.close;
    shareWrites(redis, database, { config, log });
    await notifications.start();
    await auth?.start();
    const core = await openCore(config, "rights", { database, log });
    const { catalog, rights } = core;
    const authRoutes = authRoutesOf(options.parts);
    const shared = { ...context, settings: config, catalog, rights, log, onInternalError };
    const descriptions = descriptionsOf(options.parts);
    const rest = createRest({ ...shared, application, authRoutes, descriptions, baseUrl: url });
    auth?.startHousekeeping();
    catalog.registerMetrics(metrics);
    notifications.onSchemaChange(() => catalog.soon());
    const announcement = new SchemaAnnouncement(database.catalog, { log, isReported: opened.isReported });
    await announcement.check();
    notifications.onSchemaChange(() => {
      announcement.check().catch((err) => log.debug({ err }, "the event triggers cannot be read"));
    });
    notifications.onSettingsChange(() => settings.soon());
    notifications.onSchemaChange(() => context.changes.followSchema());
    context.changes.onSchemaChange(() => catalog.refreshed());
    await tasks?.start();
    const findings = new Findings([
      { isLogged: false, read: () => graphql?.findings ?? [] },
      { isLogged: true, read: () => auth?.hookFailures.findings ?? [] },
    ]);
    const onSchemaBuilt = () => findings.changed();
    const onIdentityChange = notifications.onIdentityChange.bind(notifications);
    const realtime = createRealtime({
      ...{ ...shared, onIdentityChange },
      peers: peersOf(redis, config, metrics),
      errors: tableErrors(catalog),
    });
    const operations = new OperationMetrics(metrics, config.metricsMaxOperations);
    const { internalStatus } = application;
    const plugins = () => loadPlugins(options.parts, application, config);
    const graphql = config.hasGraphQL
      ? new DeferredGraphQL({ ...shared, plugins, internalStatus, metrics: operations, tracer, onSchemaBuilt })
      : null;
    const pagesOf = (routers: readonly RequestHandler[]) =>
      routers.length === 0 ? null : new ExpressInterface({ routers, onInternalError });
    if (auth) auth.hookFailures.onFinding = () => findings.changed();
    context.onPublicationChange(() => findings.changed());
    // A grant to auth_owner on a table that is not served does not change the catalog.
    notifications.onSchemaChange(() => {
      if (auth?.hookFailures.forget()) findings.changed();
    });
    settings.onChange((read) => {
      const changed = withLimits(read, limits);
      context.follow(changed);
      followSettings(core, changed);
      rest.follow(changed);
      graphql?.follow(changed).catch((err) => log.error({ err }, "GraphQL cannot be loaded with the changed settings"));
    });
    close = async () => {
      await Promise.all([settings.close(), graphql?.close(), core.close(), realtime.close()]);
      await context.close();
    };
    return {
      ...context,
      ...{ opened, catalog, rights },
      application,
      settings,
      graphql,
      realtime,
      rest,
      findings,
      announcement,
      redis,
      secret,
      pages: {
        auth: pagesOf(rest.auth ? [routerOf(rest.auth, authRoutes, runRoute)] : []),
        application: pagesOf(rest.application),
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type ContextOptions = AppOptions & {
  readonly config: LimitedConfig;
  readonly secret: string;
  readonly tokens: Tokens;
  readonly redis: Redis | null;
};

/** Database, identity and tasks. Nothing is started yet. */
async function createContext(opened: OpenedDatabase, options: ContextOptions) {
  const { config, application, parts, log, url, metrics, onLimit } = options;
  const { secret, tokens, redis, addressOf, clock, hashPassword } = options;
  const { dbAnonRole: anonymousRole, dbRequestCredentials: showsCredentials } = config;
  let isClosing = false;
  const onConnectionError = (error: Error & { client?: unknown }) => {
    // pg-pool adds the client to the error, with the secret that cancels its queries.
    delete error.client;
    // While the service stops, either side may close its connections first.
    log[isClosing ? "debug" : "warn"]({ err: error }, "a connection to the database was lost");
  };
  const editors = editorsOf(application).map(({ role }) => role);
  const { logins, listenUrl } = opened;
  const { database } = await openCore(config, "database", {
    ...{ logins, listenUrl, metrics, onLimit, onConnectionError, log },
    anonymousRoles: [anonymousRole, ...editors],
  });
  const { instance: number, logsAdvice: logs, tasksUrl } = opened;
  const instances = new Instances({
    ...{ number, logs, log },
    replacesAnother: config.takeover !== "",
    shares: config.redisUrl !== "",
  });
  const notifications = new Notifications({
    pool: database.catalog,
    onError: onConnectionError,
    onCheck: (client) => instances.look(client),
  });
  const publicationListeners: (() => void)[] = [];
  const onPublicationChange = () => {
    for (const listener of publicationListeners) listener();
  };
  const pool = changesPool(opened.changes, onConnectionError);
  const sharedLog = sharedLogOf(redis, config);
  const changes = createFeed(opened, { ...config, pool, log, sharedLog, onConnectionError, onPublicationChange });
  const streams = new EventStreams(config.sseHeartbeat * 1000, database.budget);
  const slowStreams = new SlowStreams({ log, onLimit });
  const verifier = createVerifier({ config, tokens, clock, log });
  const ofParts = authPartsOf(parts, config);
  const forAuth = { ...ofParts, settings: config, database: database.auth, tokens, verifier, secret, notifications };
  const serviceDatabase = database.forRole("service_role");
  const forMail = { url, mailFolder: application.mailFolder, hasTasks: tasksUrl !== null };
  const auth = config.hasAuth
    ? createAuth({ ...forAuth, ...forMail, serviceDatabase, addressOf, clock, hashPassword, onLimit, log })
    : null;
  const callers =
    auth?.callers ?? new CallerResolver({ tokens: verifier, anonymousRole, store: null, showsCredentials, addressOf });
  const isStillCaller = (caller: Caller) => callers.isCurrent(caller);
  const addressKey = deriveKey(secret, "addresses of tasks");
  const shared = { database, addressOf, isStillCaller, log, onConnectionError };
  const forTasks = {
    settings: config,
    own: application.tasks,
    ofService: auth?.mails?.tasks ?? {},
    addressKey,
    ...shared,
  };
  const createTasks = parts.find((part) => part.tasks)?.tasks;
  const tasks = (tasksUrl !== null && createTasks?.({ ...forTasks, url: tasksUrl })) || null;
  if (tasks === null && application.tasks.length > 0) log.warn(TASKS_NOT_RUN);
  if (!opened.hasServiceKey) callers.refuseServiceKey();
  callers.registerMetrics(metrics);
  auth?.hookFailures.registerMetrics(metrics);
  tasks?.registerMetrics(metrics);
  const follow = (changed: LimitedConfig) => {
    auth?.follow(changed);
    database.statementTimeouts.limitTo({
      everyone: changed.dbStatementTimeout,
      anonymous: changed.dbAnonStatementTimeout,
    });
    database.budget.limitTo(budgetLimits(changed));
    tokens.useKeys(keysOf(changed, changed.jwtSecret || changed.jwtPrivateKey || secret));
    callers.follow({
      tokens: createVerifier({ config: changed, tokens, clock, log }),
      anonymousRole: changed.dbAnonRole,
    });
    database.statementTimeouts.followAnonymous([changed.dbAnonRole, ...editors]);
  };
  const close = async () => {
    await tasks?.close();
    await auth?.close();
    isClosing = true;
    await Promise.all([changes.close(), notifications.close()]);
    redis?.close();
    await Promise.all([pool.end(), database.close()]);
    await opened.cluster?.stop();
  };
  return {
    database,
    changes,
    changesPool: pool,
    onPublicationChange: (listener: () => void) => publicationListeners.push(listener),
    streams,
    slowStreams,
    notifications,
    instances,
    tokens,
    auth,
    callers,
    tasks,
    addressOf,
    onConnectionError,
    follow,
    close,
  };
}

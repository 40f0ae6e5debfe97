import type { RequestHandler, Router } from "express";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { LiveCatalog } from "../db/catalog/live.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import type { Notifications } from "../db/follow/notifications.ts";
import type { DatabaseLimits } from "../db/limits.ts";
import type { Rights } from "../db/rights/rights.ts";
import type { SlowStreams } from "../gate/limits/slow-streams.ts";
import type { HttpLimits } from "../gate/limits.ts";
import type { EventStreams } from "../gate/pipeline/event-stream.ts";
import type { AddressReader } from "../gate/pipeline/exchange.ts";
import type { HttpInterface } from "../gate/pipeline/pipeline.ts";
import { shownKey } from "../identity/keys.ts";
import { SocketCallers } from "../identity/socket-caller.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Auth } from "./auth/auth.ts";
import { PasswordRules } from "./auth/passwords.ts";
import type { Routes as AuthRoutes, RoutedAuth } from "./auth/route.ts";
import type { Endpoint } from "./conventions/endpoint.ts";
import { Lifecycle } from "./conventions/version.ts";
import { type Descriptions, descriptionEndpoint, documentAt } from "./descriptions.ts";
import type { RestLimits } from "./limits.ts";
import { errorDialect } from "./resources/answer/answer.ts";
import { CurrentResources } from "./resources/current.ts";
import type { Description, Dialect } from "./resources/description.ts";
import { ResourceInterface } from "./resources/index.ts";
import { PreferenceParser } from "./resources/parse/headers.ts";
import { signUpOf } from "./resources/sign-up.ts";
import { ResourceTaskHandler } from "./resources/task.ts";
import { applicationRouters, type Route, routesOf } from "./routes/route.ts";
import { TableInterface, type TableOptions } from "./table/index.ts";
import { TableStreams } from "./table/stream/stream.ts";
import { FunctionTaskHandler } from "./table/task.ts";
import type { Tasks } from "./tasks/tasks.ts";

type RestSettings = Config & DatabaseLimits & RestLimits & HttpLimits;

type RestOptions = {
  readonly settings: RestSettings;
  readonly application: {
    readonly resources: readonly Description[];
    /** The usual response formats of the resources. */
    readonly dialects: readonly Dialect[];
    readonly routes: readonly (Route | Router)[];
  };
  readonly database: Database;
  readonly catalog: LiveCatalog;
  readonly rights: Rights;
  readonly tokens: Tokens;
  /** Null when the service has no accounts. */
  readonly auth: Auth | null;
  /** The routes of authentication, those of parts included. */
  readonly authRoutes: AuthRoutes;
  /** Null without the part for them. */
  readonly descriptions: Descriptions | null;
  readonly addressOf: AddressReader;
  /** Null where there are none. */
  readonly tasks: Tasks | null;
  readonly changes: ChangeFeed;
  readonly notifications: Pick<Notifications, "onIdentityChange">;
  readonly streams: EventStreams;
  readonly slowStreams: SlowStreams;
  /** The URL of the service. */
  readonly baseUrl: string;
  onInternalError(error: unknown, requestId: string): void;
  readonly log: Logger;
};

type RestInterface = {
  /** The key for anonymous requests, which pages may show; null if none is needed. */
  readonly anonKey: string | null;
  readonly tables: HttpInterface;
  /** Null if there is nothing to serve: neither accounts, nor tasks, nor resources or routes of an application. */
  readonly resources: HttpInterface | null;
  /** The supported versions of the resources; none where they are not served. */
  readonly versions: readonly number[];
  /** What the routes at `/auth/…` use. Null without accounts. */
  readonly auth: RoutedAuth | null;
  /** The paths of the application, if it has any. */
  readonly application: readonly RequestHandler[];
  /** Applies changed settings to the table interface. */
  follow(settings: RestSettings): void;
};

/** Puts the REST interfaces together. */
export function createRest(options: RestOptions): RestInterface {
  const { settings, tokens, auth } = options;
  const { apiKeyRequired } = settings;
  const streams = tableStreams(options);
  const tables = new TableInterface(tableOptions(options, streams));
  const lifecycle = new Lifecycle(settings.apiV1Status);
  // If another issuer signs the tokens, it issues the keys too.
  const anonKey = apiKeyRequired && auth !== null ? shownKey(tokens, "anon") : null;
  const { application, tasks } = options;
  const hasResources =
    auth !== null || tasks !== null || application.resources.length + routesOf(application).length > 0;
  const ofResources = hasResources ? createResources(options, lifecycle) : null;
  return {
    anonKey,
    tables,
    follow: (changed) => tables.follow(tableOptions({ ...options, settings: changed }, streams)),
    resources: ofResources?.resources ?? null,
    versions: ofResources ? lifecycle.supported : [],
    auth: auth && ofResources?.signUp ? { ...auth, signUp: ofResources.signUp } : null,
    application: applicationRouters(options),
  };
}

function tableStreams(options: RestOptions): TableStreams {
  const { changes: feed, rights, notifications, streams, onInternalError } = options;
  const callers = new SocketCallers((listener) => notifications.onIdentityChange(listener));
  return new TableStreams({ feed, rights, streams, callers, onInternalError });
}

function tableOptions(options: RestOptions, streams: TableStreams): TableOptions {
  const { settings, database, catalog, tasks, changes: feed, baseUrl, slowStreams, onInternalError } = options;
  const { dbAnonRole: anonymousRole, openapi: mode } = settings;
  const described = { descriptions: options.descriptions, mode, baseUrl, hasReplicas: database.replicas !== null };
  const shared = {
    catalog,
    anonymousRole,
    planning: {
      ...settings,
      maxRows: settings.dbMaxRows || null,
      maxStreamedRows: settings.streamConnections > 0 ? settings.streamMaxRows || null : undefined,
      maxBytes: settings.dbMaxResultBytes || null,
    },
    limits: settings,
  };
  tasks?.register("function", new FunctionTaskHandler(shared));
  return {
    ...shared,
    database,
    tasks,
    maxBodySize: settings.restBodyLimit,
    streamTimeout: settings.streamTimeout,
    slowStreams,
    callerRules: { needsKey: settings.apiKeyRequired },
    feed,
    streams,
    document: (path, request, caller, current) => documentAt(path, request, caller, current, described),
    onInternalError,
  };
}

type CreatedResources = {
  readonly resources: ResourceInterface;
  /** Null without accounts. */
  readonly signUp: RoutedAuth["signUp"] | null;
};

/** The interface of the resources. Also registers the handler of their tasks. */
function createResources(options: RestOptions, lifecycle: Lifecycle): CreatedResources {
  const { settings, application, database, catalog, auth, authRoutes, tasks, baseUrl, log, onInternalError } = options;
  const onInvalidDescription = (reason: string) =>
    log.error({ reason }, "a resource is not served: its description does not fit the database");
  const { dbAnonRole: anonymousRole } = settings;
  const passwords = new PasswordRules(settings);
  const shared = {
    resources: new CurrentResources({
      descriptions: application.resources.map((each) => ({ ...each, hasAccount: each.hasAccount && auth !== null })),
      catalog,
      onInvalidDescription,
    }),
    preferences: new PreferenceParser(application.dialects),
    lifecycle,
    limits: { ...settings, passwords },
    catalog,
    anonymousRole,
  };
  tasks?.register("resource", new ResourceTaskHandler(shared));
  const descriptions = settings.openapi === "off" ? null : options.descriptions;
  const described = descriptions?.ofResources({
    ...shared,
    baseUrl,
    routes: routesOf(application),
    hasTasks: tasks !== null,
    hasReplicas: database.replicas !== null,
    errorDialect: errorDialect(shared.preferences.parse(undefined)),
    authRoutes,
    passwords: auth && passwords,
    maxRecords: settings.apiMaxRecords,
  });
  const resources = new ResourceInterface({
    ...shared,
    database,
    endpoints: new Map<string, Endpoint>([
      ["openapi.json", descriptionEndpoint(described ?? null)],
      ...(tasks ? ([["tasks", tasks.endpoint]] as const) : []),
    ]),
    auth,
    tasks,
    feed: options.changes,
    onInternalError,
  });
  const signUp = auth && signUpOf({ ...shared, database, auth });
  return { resources, signUp };
}

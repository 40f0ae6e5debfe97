import type { DatabaseLimits } from "../db/limits.ts";
import type { HttpLimits } from "../gate/limits.ts";
import type { GraphQLLimits } from "./limits.ts";
// Before the first import of PostGraphile.
import "../plugins/transliteration.ts";
import type { Logger } from "pino";
import type { GraphQLSchema } from "postgraphile/graphql";
import type { Config } from "../config/config.ts";
import { messagesFor } from "../db/catalog/exposure.ts";
import type { LiveCatalog } from "../db/catalog/live.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import { sentenceOf } from "../db/findings/finding.ts";
import type { Notifications } from "../db/follow/notifications.ts";
import type { Rights } from "../db/rights/rights.ts";
import type { SocketRoute } from "../gate/limits/upgrade-gate.ts";
import type { EventStreams } from "../gate/pipeline/event-stream.ts";
import type { HttpInterface } from "../gate/pipeline/pipeline.ts";
import { SocketCallers } from "../identity/socket-caller.ts";
import type { Tracer } from "../telemetry/span.ts";
import { Subscriptions } from "./execute/change-events.ts";
import { DocumentStore } from "./execute/document.ts";
import { Engine } from "./execute/engine.ts";
import type { OperationMetrics } from "./execute/operation-metrics.ts";
import { SubscriptionMemory } from "./execute/subscription-memory.ts";
import { SchemaFault, schemaSettings } from "./schema/schema.ts";
import { type ReloadLog, SchemaReload } from "./schema/schema-reload.ts";
import { graphqlInterface } from "./transport/http.ts";
import { graphqlSocket } from "./transport/socket.ts";

type GraphQLSettings = Config & DatabaseLimits & HttpLimits & GraphQLLimits;

export type GraphQLOptions = {
  readonly database: Database;
  readonly changes: ChangeFeed;
  readonly rights: Rights;
  readonly streams: EventStreams;
  readonly notifications: Notifications;
  readonly settings: GraphQLSettings;
  /** Loads the plugins of the parts and of the application. */
  plugins(): Promise<readonly GraphileConfig.Plugin[]>;
  /** HTTP status of a response with an internal error. */
  readonly internalStatus: number;
  readonly catalog: Pick<LiveCatalog, "current" | "refreshIfStale" | "refreshed">;
  readonly metrics: OperationMetrics;
  /** Null when operations are not traced. */
  readonly tracer: Tracer | null;
  onInternalError(error: unknown, requestId: string): void;
  /** Called after each build of the schema, and after each failure. */
  onSchemaBuilt(): void;
  readonly log: Logger;
};

export { extrasOfAllTables } from "../plugins/shape/TableExtrasPlugin.ts";

/** GraphQL over HTTP and WebSocket, and the reload of its schema. */
export type GraphQLInterface = {
  readonly http: HttpInterface;
  readonly socket: SocketRoute;
  readonly reload: SchemaReload;
  /** Throws Problem while there is none. */
  schema(): GraphQLSchema;
  /** Applies changed limits of documents. */
  follow(settings: GraphQLSettings): void;
  /** The number of active subscriptions. */
  countSubscriptions(): number;
};

export async function createGraphQL(options: GraphQLOptions): Promise<GraphQLInterface> {
  const { settings, database, changes, rights, streams, notifications, catalog, log } = options;
  const { dbAnonRole: anonymousRole, jsonMaxDepth } = settings;
  const subscriptions = new Subscriptions(changes, rights);
  const engine = new Engine({
    memory: new SubscriptionMemory(database.budget),
    database,
    subscriptions,
    changes,
    anonymousRole,
    schema: {
      ...schemaSettings(settings),
      plugins: await options.plugins(),
      relations: () => catalog.current,
      readRelations: () => catalog.refreshed(),
    },
    limits: settings,
    documents: new DocumentStore(settings.graphqlDocuments),
    introspection: settings.graphqlIntrospection,
    readDatabase: () => catalog.refreshIfStale(),
    untilBuilt: () => reload.untilBuilt(),
    catalog,
    metrics: options.metrics,
    countTables: () => [...catalog.current.schemas.values()].reduce((sum, { tables }) => sum + tables.size, 0),
  });
  const reload = new SchemaReload(engine, reloadLog(log, options.onSchemaBuilt));
  // Before the first build: a change during it must not be missed.
  notifications.onSchemaChange(() => reload.soon());
  await reload.start();

  const shared = {
    engine,
    anonymousRole,
    messagesFor: (role: string) => messagesFor(catalog.current, role),
    onInternalError: options.onInternalError,
  };
  const http = graphqlInterface({
    ...shared,
    limits: settings,
    internalStatus: options.internalStatus,
    streams,
    callers: new SocketCallers((listener) => notifications.onIdentityChange(listener)),
  });
  const socket = graphqlSocket({
    ...shared,
    onIdentityChange: (listener) => notifications.onIdentityChange(listener),
    maxSubscriptions: settings.wsMaxSubscriptions,
    maxBufferedBytes: settings.wsMaxBufferedBytes,
    budget: database.budget,
    tracer: options.tracer,
    maxDepth: jsonMaxDepth,
  });
  return {
    http,
    socket,
    reload,
    schema: () => engine.schema,
    follow: (changed) => engine.limitTo(changed),
    countSubscriptions: () => subscriptions.size,
  };
}

const reloadLog = (log: Logger, onBuilt: () => void): ReloadLog => ({
  onRebuilt: (milliseconds) => log.info({ milliseconds }, "the schema has changed and the new one is served"),
  onFailed: (error, isServing) =>
    error instanceof SchemaFault && error.finding.level === "note" && !isServing
      ? log.info(`${error.message}: GraphQL is served when there is one`)
      : log.error(
          { err: error },
          isServing
            ? "the changed schema cannot be served: the previous one stays"
            : "the schema cannot be built: GraphQL is not served until it is fixed",
        ),
  onBuilt,
  onOmission: (omission) => log.warn({ omission: sentenceOf(omission) }, "GraphQL leaves out a part of the database"),
});

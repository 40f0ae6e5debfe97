import type { Logger } from "pino";
import type { LiveCatalog } from "../db/catalog/live.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import type { HttpInterface } from "../http/pipeline.ts";
import type { SocketRoute } from "../http/upgrade-gate.ts";
import { Engine, type EngineOptions } from "./engine.ts";
import { graphqlInterface } from "./http.ts";
import { type ReloadLog, SchemaReload } from "./schema-reload.ts";
import { graphqlSocket } from "./socket.ts";

/** The names are those of the service's settings. */
export type GraphQLSettings = EngineOptions["schema"] & {
  readonly anonymousRole: string;
  readonly embedded: boolean;
  readonly maxDepth: number;
  readonly maxComplexity: number;
  readonly maxTokens: number;
  readonly maxRows: number;
  readonly maxTables: number;
  readonly bodyLimit: number;
  readonly jsonDepth: number;
  readonly internalStatus: number;
  readonly wsMaxSubscriptions: number;
  readonly wsMaxBufferedBytes: number;
};

export type GraphQLOptions = {
  readonly database: Database;
  readonly changes: ChangeFeed;
  readonly settings: GraphQLSettings;
  readonly catalog: Pick<LiveCatalog, "current">;
  onInternalError(error: unknown, requestId: string): void;
  readonly log: Logger;
};

/** GraphQL over HTTP and WebSocket, and the reload of its schema. */
export type GraphQLInterface = {
  readonly http: HttpInterface;
  readonly socket: SocketRoute;
  readonly reload: SchemaReload;
};

export async function createGraphQL(options: GraphQLOptions): Promise<GraphQLInterface> {
  const { settings, database, changes, catalog, log } = options;
  const { anonymousRole, jsonDepth } = settings;
  const engine = new Engine({
    database,
    changes,
    anonymousRole,
    schema: settings,
    limits: {
      depth: settings.maxDepth,
      complexity: settings.maxComplexity,
      tokens: settings.maxTokens,
      brackets: jsonDepth,
      suggestions: settings.embedded,
    },
    maxRows: settings.maxRows,
    maxTables: settings.maxTables,
    countTables: () => [...catalog.current.schemas.values()].reduce((sum, { tables }) => sum + tables.size, 0),
  });
  const reload = new SchemaReload(engine, reloadLog(log));
  await reload.start();
  changes.onSchemaChange(() => reload.soon());

  const shared = {
    engine,
    anonymousRole,
    constraintMessages: () => catalog.current.constraintMessages,
    onInternalError: options.onInternalError,
  };
  const http = graphqlInterface({
    ...shared,
    limits: { size: settings.bodyLimit, depth: jsonDepth },
    internalStatus: settings.internalStatus,
  });
  const socket = graphqlSocket({
    ...shared,
    onIdentityChange: (listener) => changes.onIdentityChange(listener),
    maxSubscriptions: settings.wsMaxSubscriptions,
    maxBufferedBytes: settings.wsMaxBufferedBytes,
    maxDepth: jsonDepth,
  });
  return { http, socket, reload };
}

const reloadLog = (log: Logger): ReloadLog => ({
  onRebuilt: (milliseconds) => log.info({ milliseconds }, "the schema has changed and the new one is served"),
  onFailed: (error, isServing) =>
    log.error(
      { err: error },
      isServing
        ? "the changed schema cannot be served: the previous one stays"
        : "the schema cannot be built: GraphQL is not served until it is fixed",
    ),
  onOmission: (omission) => log.warn({ omission }, "a part of the schema is left out because of its name"),
});

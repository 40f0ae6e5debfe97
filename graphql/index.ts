import type { IncomingMessage, ServerResponse } from "node:http";
import type { Caller } from "../db/caller.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import type { ConstraintMessages } from "../db/errors.ts";
import type { SocketRoute } from "../http/upgrade-gate.ts";
import { Engine, type EngineOptions } from "./engine.ts";
import { graphqlHandler } from "./http.ts";
import { type ReloadLog, SchemaReload } from "./schema-reload.ts";
import { type GraphQLSocketOptions, graphqlSocket } from "./socket.ts";

export type GraphQLOptions = {
  readonly database: Database;
  readonly changes: ChangeFeed;
  readonly anonymousRole: string;
  readonly schema: EngineOptions["schema"];
  readonly documents: EngineOptions["limits"];
  readonly maxRows: number;
  readonly maxTables: number;
  countTables(): number;
  constraintMessages(): ConstraintMessages;
  readonly bodySize: number;
  readonly jsonDepth: number;
  readonly internalStatus: number;
  readonly maxSubscriptions: number;
  readonly maxBufferedBytes: number;
  callerOf(request: IncomingMessage): Caller | Promise<Caller>;
  /** Who opens a WebSocket, and what he says in `connection_init`. */
  callerOfSocket: GraphQLSocketOptions["callerOf"];
  requestIdOf(request: IncomingMessage): string;
  onInternalError(error: unknown, requestId: string): void;
  readonly reloadLog: ReloadLog;
};

/** The GraphQL interface: its handler for HTTP, its route for WebSockets, and the reload of its schema. */
export type GraphQLInterface = {
  readonly handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly socket: SocketRoute;
  readonly reload: SchemaReload;
};

export async function createGraphQL(options: GraphQLOptions): Promise<GraphQLInterface> {
  const { database, changes, anonymousRole, callerOf } = options;
  const engine = new Engine({
    database,
    changes,
    anonymousRole,
    schema: options.schema,
    limits: options.documents,
    maxRows: options.maxRows,
    maxTables: options.maxTables,
    countTables: options.countTables,
  });
  const reload = new SchemaReload(engine, options.reloadLog);
  await reload.start();
  changes.onSchemaChange(() => reload.soon());

  const shared = {
    engine,
    anonymousRole,
    constraintMessages: options.constraintMessages,
    requestIdOf: options.requestIdOf,
    onInternalError: options.onInternalError,
  };
  const handler = graphqlHandler({
    ...shared,
    limits: { size: options.bodySize, depth: options.jsonDepth },
    internalStatus: options.internalStatus,
    callerOf,
  });
  const socket = graphqlSocket({
    ...shared,
    callerOf: options.callerOfSocket,
    onIdentityChange: (listener) => changes.onIdentityChange(listener),
    maxSubscriptions: options.maxSubscriptions,
    maxBufferedBytes: options.maxBufferedBytes,
    maxDepth: options.jsonDepth,
  });
  return { handler, socket, reload };
}

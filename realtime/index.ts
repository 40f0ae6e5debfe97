import type { Pool } from "pg";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import { Delivery } from "../db/delivery/delivery.ts";
import type { IdentityChange, Notifications } from "../db/follow/notifications.ts";
import { every } from "../db/repeat.ts";
import type { Rights } from "../db/rights/rights.ts";
import type { SocketRoute, UpgradeRequest } from "../gate/limits/upgrade-gate.ts";
import type { HttpLimits } from "../gate/limits.ts";
import type { HttpInterface } from "../gate/pipeline/pipeline.ts";
import type { Peers } from "../gate/process/peers.ts";
import { SocketCallers } from "../identity/socket-caller.ts";
import { isRefusal, type Problem } from "../problems/problem.ts";
import { Bindings } from "./bindings.ts";
import { BroadcastEndpoint, type ErrorForm } from "./broadcast-endpoint.ts";
import { ChannelAccess } from "./channel-access.ts";
import { Channels } from "./channels.ts";
import type { RealtimeLimits } from "./limits.ts";
import { LostChannels, Resumption } from "./resumption.ts";
import { ChangeMessages } from "./serializer.ts";
import { ChannelSocket, type ChannelSocketOptions } from "./socket.ts";
import { SqlBroadcasts } from "./sql-broadcasts.ts";
import { Topics } from "./topics.ts";

/** Between two deletions of stored broadcasts. */
const HOUR = 3_600_000;

type RealtimeOptions = {
  readonly settings: Config & HttpLimits & RealtimeLimits;
  readonly database: Pick<Database, "budget" | "forRole">;
  readonly errors: ErrorForm;
  readonly changes: ChangeFeed;
  readonly rights: Rights;
  /** The other processes of the service; null without any. */
  readonly peers: Peers | null;
  /** Calls back when the rights of a user, session or key have changed. */
  onIdentityChange(listener: (change: IdentityChange) => void): void;
  /** Of broadcasts from SQL. */
  readonly notifications: Pick<Notifications, "onBroadcast" | "whenListening">;
  /** The connections of the login that may read changes. */
  readonly changesPool: Pool;
  readonly log: Pick<Logger, "warn">;
  onInternalError(error: unknown, requestId: string): void;
  onConnectionError(error: Error): void;
};

export type Realtime = {
  readonly socket: SocketRoute;
  /** Broadcasts over HTTP. */
  readonly broadcasts: HttpInterface;
  /** To be called when all sockets are closed. */
  close(): Promise<void>;
};

/** Channels, as `@supabase/realtime-js` uses them: changes of tables, broadcasts and presence. */
export function createRealtime(options: RealtimeOptions): Realtime {
  const { settings, changes: feed, rights, database, onInternalError } = options;
  const needsKey = settings.apiKeyRequired;
  const bindings = new Bindings({ feed, rights });
  const { peers } = options;
  const topics = new Topics({ peers, budget: database.budget, limits: settings });
  const fromSql = new SqlBroadcasts({ topics, jsonMaxDepth: settings.jsonMaxDepth });
  options.notifications.onBroadcast((part) => fromSql.receive(part));
  const { checker } = rights;
  const access = new ChannelAccess({ database, checker, onInternalError, hasModule: settings.hasChannels });
  const lostChannels = settings.hasFeed
    ? new LostChannels({ pool: options.changesPool, onError: options.onConnectionError })
    : null;
  const channels = new Channels({
    feed,
    delivery: new Delivery(feed, rights, (change) => new ChangeMessages(change, settings.realtimeMaxChangeBytes)),
    bindings,
    resumption: new Resumption({
      budget: database.budget,
      textOf: (position) => feed.textOf(position),
      startOf: (text) => feed.startOf(text),
      shared: lostChannels,
    }),
    topics,
    access,
    notifications: settings.hasChannels ? options.notifications : null,
    callers: new SocketCallers(options.onIdentityChange),
    anonymousRole: settings.dbAnonRole,
  });
  const purges = every(
    HOUR,
    () => access.purge(),
    (err) => options.log.warn({ err }, "stored broadcasts could not be deleted: the service tries again in an hour"),
  );
  purges.now();
  const socketOptions: ChannelSocketOptions = {
    limits: settings,
    budget: database.budget,
    needsKey,
    join: (socket, message) => channels.join(socket, message),
    onInternalError,
  };
  return {
    close: async () => {
      await Promise.all([lostChannels?.close(), peers?.close(), purges.stop()]);
    },
    broadcasts: new BroadcastEndpoint({
      topics,
      errors: options.errors,
      needsKey,
      limits: settings,
      access,
      onInternalError,
    }),
    socket: {
      protocol: null,
      refuse: (upgrade) => refusalOf(upgrade, needsKey),
      accept: (websocket, exchange) => void new ChannelSocket(websocket, exchange, socketOptions),
    },
  };
}

/** Refuses an upgrade without a key, or with one that is not valid. */
async function refusalOf({ identity }: UpgradeRequest, needsKey: boolean): Promise<Problem | null> {
  try {
    await identity.caller({ needsKey });
    return null;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error;
  }
}

import type { Config } from "../config/config.ts";

export type RealtimeLimits = Readonly<ReturnType<typeof realtimeLimits>>;

/** Numbers of channels that no operator has a reason to change. */
export const realtimeLimits = ({ maxConnections }: Pick<Config, "maxConnections">) => ({
  /** Channels on a WebSocket. */
  realtimeMaxChannels: 100,
  /** Joins of channels per second on a WebSocket. */
  realtimeJoinRate: 100,
  /** Channels on all WebSockets from one IP address. A channel counts once for each of its different bindings. */
  realtimeMaxChannelsPerAddress: Math.ceil(maxConnections / 2),
  /** Joins of channels per second on all WebSockets from one IP address. */
  realtimeJoinRatePerAddress: Math.ceil(maxConnections / 50),
  /** Bytes of a change in a message. Of a larger row, only the primary key is sent, with an error. */
  realtimeMaxChangeBytes: 1_048_576,
});

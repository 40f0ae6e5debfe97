import { getHeapStatistics } from "node:v8";
import type { Config } from "../config/config.ts";

export type HttpLimits = Readonly<ReturnType<typeof httpLimits>>;

/** Numbers of connections, messages and processes that no operator has a reason to change. */
export const httpLimits = ({ maxConnections, bodyLimit }: Pick<Config, "maxConnections" | "bodyLimit">) => ({
  /** Nesting of brackets in JSON bodies and GraphQL documents. */
  jsonMaxDepth: 64,
  /** Open connections per IP address and process. Proxies named in TRUST_PROXY are exempt. */
  maxConnectionsPerAddress: Math.ceil(maxConnections / 10),
  /** Milliseconds after which a connection is closed if its client reads nothing of what is sent. */
  sendTimeout: 30_000,
  /** Milliseconds that requests may wait for the process to handle them, after the first second of a burst. */
  maxQueueTime: 200,
  /** Open WebSockets per IP address. */
  wsMaxConnectionsPerAddress: Math.ceil(maxConnections / 100),
  /** Bytes of a WebSocket message. */
  wsMaxMessageBytes: Math.ceil(bodyLimit / 16),
  /** Messages per second on a WebSocket. */
  wsMessageRate: 100,
  /** Messages per second on all WebSockets from one IP address. */
  wsMessageRatePerAddress: Math.ceil(maxConnections / 5),
  /** Bytes buffered for a slow WebSocket client before the socket is closed, or on realtime channels changes wait. */
  wsMaxBufferedBytes: 1_048_576,
  /** Seconds between heartbeats on streams of events, so that proxies keep them open. */
  sseHeartbeat: 15,
  /** Milliseconds over which a stopping service asks the clients of WebSockets and event streams to connect again. */
  drainSpread: 5000,
  /** GraphQL operation names that are measured by name. Further ones count as other. */
  metricsMaxOperations: 100,
  /** Bytes of all caches of a process together: at least 64 MiB. */
  cacheMemory: Math.max(67_108_864, Math.floor(getHeapStatistics().heap_size_limit / 32)),
});

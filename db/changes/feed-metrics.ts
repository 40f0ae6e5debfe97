import type { Metrics } from "../../telemetry/metrics.ts";
import type { ChangeFeed } from "./feed.ts";
import type { SourceHealth } from "./source.ts";

const readsLog = (source: SourceHealth | null): boolean => source?.shared?.isReader ?? source?.state === "streaming";

/** What operators watch of a feed. */
export function registerFeedMetrics(metrics: Metrics, feed: ChangeFeed): void {
  metrics.gauge({
    name: "changes_subscriptions",
    about: "Subscriptions to changes of tables: streams, bindings of channels, and GraphQL subscriptions.",
    read: () => feed.subscriptions,
  });
  metrics.gauge({
    name: "changes_lag_bytes",
    about: "Write-ahead log that has been written and whose changes have not been read, while there are subscriptions.",
    aggregation: "max",
    read: () => feed.source?.lag.bytes ?? 0,
  });
  metrics.gauge({
    name: "changes_lag_seconds",
    about: "Age of the transaction whose changes are being read; 0 if all have been read.",
    aggregation: "max",
    read: () => feed.source?.lag.seconds ?? 0,
  });
  metrics.gauge({
    name: "changes_log_readers",
    about: "Processes that read the write-ahead log now: each one with subscriptions, or with REDIS_URL one for all.",
    read: () => (readsLog(feed.source) ? 1 : 0),
  });
  metrics.gauge({
    name: "changes_shared_lag_bytes",
    about:
      "Write-ahead log whose changes are in REDIS_URL and have not been read by the process that is furthest behind.",
    aggregation: "max",
    read: () => feed.source?.shared?.behind ?? 0,
  });
  metrics.counter({
    name: "changes_received_total",
    about: "Changes of rows, and truncations of tables, that were read, by operation.",
    labels: ["operation"],
    read: () => Object.entries(feed.counts.received).map(([operation, value]) => ({ labels: { operation }, value })),
  });
  metrics.counter({
    name: "changes_gaps_total",
    about: "How often changes were missed, so that subscribers had to load their data again.",
    read: () => feed.counts.gaps,
  });
}

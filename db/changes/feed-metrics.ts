import type { Metrics } from "../../telemetry/metrics.ts";
import type { ChangeFeed } from "./feed.ts";

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
    read: () => feed.lag.bytes,
  });
  metrics.gauge({
    name: "changes_lag_seconds",
    about: "Age of the transaction whose changes are being read; 0 if all have been read.",
    aggregation: "max",
    read: () => feed.lag.seconds,
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

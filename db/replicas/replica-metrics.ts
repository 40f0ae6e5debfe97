import type { Metrics } from "../../telemetry/metrics.ts";
import { type FallbackReason, REASONS } from "./fallback.ts";
import type { Replica } from "./replica.ts";

/** Registers which replicas are used, how far behind they are, and who has answered reads. */
export function registerReplicas(
  metrics: Metrics,
  replicas: readonly Replica[],
  fallbacks: Readonly<Record<FallbackReason, number>>,
): void {
  const perReplica = (read: (replica: Replica) => number) => ({
    labels: ["replica"],
    read: () => replicas.map((each) => ({ labels: { replica: each.name }, value: read(each) })),
  });
  metrics.gauge({
    name: "db_replica_used",
    about: "1 if reads go to the replica, 0 if it is dead or behind by more than two seconds.",
    aggregation: "max",
    ...perReplica(({ fault }) => Number(fault === null)),
  });
  metrics.gauge({
    name: "db_replica_lag_seconds",
    about: "For how long the replica has been behind the primary.",
    aggregation: "max",
    ...perReplica(({ lag }) => lag / 1000),
  });
  metrics.counter({
    name: "db_replica_reads_total",
    about: "Reads that the replica has answered.",
    ...perReplica(({ answered }) => answered),
  });
  metrics.counter({
    name: "db_replica_fallbacks_total",
    about: "Reads that the primary has answered in place of a replica, by reason.",
    labels: ["reason"],
    read: () => REASONS.map((reason) => ({ labels: { reason }, value: fallbacks[reason] })),
  });
}

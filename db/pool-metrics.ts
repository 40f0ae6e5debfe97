import { REQUEST_SECONDS } from "../telemetry/histogram.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type ByteBudget, KINDS } from "./admission/byte-budget.ts";
import type { TransactionOptions, Transactions } from "./transaction/transaction.ts";

/** Registers what the pools count, by name, and the memory of clients. */
export function registerPools(
  metrics: Metrics,
  pools: Readonly<Record<string, Transactions>>,
  budget: Pick<ByteBudget, "kinds">,
): void {
  const perPool = (read: (pool: Transactions) => number) => ({
    labels: ["pool"],
    read: () => Object.entries(pools).map(([pool, each]) => ({ labels: { pool }, value: read(each) })),
  });
  const of = (name: keyof Transactions["use"]) => perPool(({ use }) => use[name]);
  const [max, available, waiting] = [
    "Maximum connections.",
    "Open connections that are not in use.",
    "Transactions that wait.",
  ];
  metrics.gauge({ name: "db_pool_max", about: max, ...of("max") });
  metrics.gauge({ name: "db_pool_available", about: available, ...of("available") });
  metrics.gauge({ name: "db_pool_waiting", about: waiting, ...of("waiting") });
  const timeouts = "Transactions that did not get a connection within ten seconds.";
  metrics.counter({ name: "db_pool_timeouts_total", about: timeouts, ...of("timeouts") });
  const trips = "Round trips to the database, one per transaction. Each read that shares a round trip counts as one.";
  metrics.counter({ name: "db_round_trips_total", about: trips, ...perPool(({ syncs }) => syncs) });
  const shared = "Reads that were sent on one connection together with others.";
  metrics.counter({ name: "db_shared_reads_total", about: shared, ...perPool((each) => each.sharedReads) });
  const cancelled = "Statements that exceeded their statement timeout.";
  metrics.counter({ name: "db_statement_timeouts_total", about: cancelled, ...perPool((each) => each.cancelled) });
  metrics.gauge({
    name: "client_memory_bytes",
    about: "Bytes that clients make the service hold, by kind.",
    labels: ["kind"],
    read: () => KINDS.map((kind) => ({ labels: { kind }, value: budget.kinds[kind] })),
  });
}

/** Observes the transactions of each pool. */
export function transactionTimes(metrics: Metrics): (pool: string) => NonNullable<TransactionOptions["times"]> {
  const shared = { labels: ["pool"], buckets: REQUEST_SECONDS };
  const waitAbout = "Time that transactions wait for a connection.";
  const wait = metrics.histogram({ name: "db_connection_wait_seconds", about: waitAbout, ...shared });
  const runAbout = "Time from sending a transaction until its results are complete.";
  const run = metrics.histogram({ name: "db_transaction_duration_seconds", about: runAbout, ...shared });
  return (pool) => ({ wait: wait.of(pool), run: run.of(pool) });
}

import { type Histogram, REQUEST_SECONDS } from "../../telemetry/histogram.ts";
import { type Metrics, OTHER, Tally } from "../../telemetry/metrics.ts";
import type { Operation } from "./operation.ts";

const ANONYMOUS = "anonymous";
const MAX_LENGTH = 64;
const MAX_REASONS = 20;

/** Times of operations by their name. Clients choose the names: from `maxNames` different ones on, further ones count as "other". */
export class OperationMetrics {
  readonly #histogram: Histogram;
  readonly #maxNames: number;
  readonly #names = new Set<string>();
  readonly #reasons = new Tally("reason", MAX_REASONS);

  constructor(metrics: Metrics, maxNames: number) {
    this.#maxNames = maxNames;
    this.#histogram = metrics.histogram({
      name: "graphql_operation_duration_seconds",
      about:
        "Time of GraphQL operations by name, over HTTP and WebSocket. For subscriptions, the time until they have started.",
      labels: ["kind", "operation"],
      buckets: REQUEST_SECONDS,
    });
    metrics.counter({
      name: "graphql_uncompiled_queries_total",
      about:
        "Queries that were not compiled to one SQL statement, by reason: field, type, interface, edges, alias, fragment, " +
        "directive, page, arguments, value, rows or error.",
      labels: ["reason"],
      read: () => this.#reasons.samples,
    });
  }

  /** Counts a query that Grafast executes. */
  readonly onLeft = (reason: string): void => this.#reasons.add(reason);

  /** Measures the operation until the promise is settled. */
  async measure<Result>({ kind, name }: Operation, run: () => Promise<Result>): Promise<Result> {
    const start = performance.now();
    try {
      return await run();
    } finally {
      this.#histogram.of(kind, this.#labelOf(name)).observe((performance.now() - start) / 1000);
    }
  }

  #labelOf(name: string | null): string {
    if (name === null) return ANONYMOUS;
    if (this.#names.has(name)) return name;
    if (name.length > MAX_LENGTH || this.#names.size >= this.#maxNames) return OTHER;
    this.#names.add(name);
    return name;
  }
}

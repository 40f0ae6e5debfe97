import type { Logger } from "pino";
import { type Metrics, Tally } from "../../telemetry/metrics.ts";
import type { Client } from "./clients.ts";

/** Reports that a limit has rejected something, by the name of its setting or, in lower case, of what is limited, and who has reached it. */
export type LimitReport = (limit: string, client?: Client) => void;

/** Milliseconds between two log lines about one limit. */
const LOG_INTERVAL = 60_000;

/** The limits that have rejected something: a metric counts them, and the log names the client, once a minute for each limit. */
export class LimitLog {
  readonly #log: Logger;
  readonly #counts = new Tally("limit", 50);
  /** Since the last line of each limit. */
  readonly #rejected = new Map<string, { count: number; loggedAt: number }>();

  constructor(log: Logger) {
    this.#log = log;
  }

  readonly report: LimitReport = (setting, client) => {
    this.#counts.add(setting);
    if (client) this.#logOnce(setting, client);
  };

  registerMetrics(metrics: Metrics): void {
    metrics.counter({
      name: "limits_hit_total",
      about:
        "Requests, connections and messages that a limit has rejected, by the limit, in capitals if it is a setting; HEAP if V8's heap was nearly full, PRESENCE if presences were too large or too many.",
      labels: ["limit"],
      read: () => this.#counts.samples,
    });
  }

  #logOnce(limit: string, { name, held }: Client): void {
    const known = this.#rejected.get(limit) ?? { count: 0, loggedAt: Number.NEGATIVE_INFINITY };
    this.#rejected.set(limit, known);
    known.count++;
    const now = performance.now();
    if (now - known.loggedAt < LOG_INTERVAL) return;
    this.#log.warn({ limit, client: name, ...held, rejected: known.count }, `the limit ${limit} was reached`);
    known.loggedAt = now;
    known.count = 0;
  }
}

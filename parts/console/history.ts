import { PREFIX, parseMetrics, type Sample } from "../../telemetry/metrics.ts";

/** All samples at one time, in milliseconds. */
export type Reading = { readonly at: number; readonly samples: ReturnType<typeof parseMetrics> };

/** The sum of the samples with these labels. */
export const sumOf = ({ samples }: Reading, name: string, labels: Sample["labels"] = {}): number =>
  (samples.get(name) ?? []).reduce((sum, sample) => (hasLabels(sample, labels) ? sum + sample.value : sum), 0);

export const hasLabels = (sample: Sample, labels: Sample["labels"]): boolean =>
  Object.entries(labels).every(([name, value]) => sample.labels[name] === value);

/** What a chart shows at one time. Null if it is not known, such as the latency when there was no request. */
export type Point = {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly requests: number;
  /** Percent of the requests. */
  readonly errors: number | null;
  /** Seconds in which 99 % of the requests were answered. */
  readonly latency: number | null;
  /** Transactions that wait for a connection. */
  readonly waiting: number;
  /** Connections to the database, at most. */
  readonly connections: number;
  /** Seconds. */
  readonly lag: number;
};

/** Milliseconds between two points, and how many are kept: an hour. */
const STEP = 15_000;
const MAX_POINTS = 240;

/** The numbers of the last hour, which are read from `/metrics` and kept in memory. */
export class History {
  readonly #metrics: () => Promise<string>;
  readonly #timer: NodeJS.Timeout;
  #points: readonly Point[] = [];
  #last: Reading | null = null;

  constructor(metrics: () => Promise<string>) {
    this.#metrics = metrics;
    // A process that stops may have no metrics: the next point comes later, or never.
    this.#timer = setInterval(() => this.read().catch(() => {}), STEP).unref();
  }

  /** The oldest first. */
  get points(): readonly Point[] {
    return this.#points;
  }

  /** Adds a point for the time since the last one. The first reading is only a beginning. */
  async read(): Promise<void> {
    const now = { at: Date.now(), samples: parseMetrics(await this.#metrics()) };
    const last = this.#last;
    this.#last = now;
    if (last !== null) this.#points = [...this.#points, pointOf(last, now)].slice(-MAX_POINTS);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

const REQUESTS = `${PREFIX}http_requests_total`;
const BUCKETS = `${PREFIX}http_request_duration_seconds_bucket`;
const FAILURES = ["500", "502", "504"];

/** What happened between two readings. */
export function pointOf(before: Reading, now: Reading): Point {
  const grown = (name: string, labels = {}) => Math.max(0, sumOf(now, name, labels) - sumOf(before, name, labels));
  const total = grown(REQUESTS);
  const failed = FAILURES.reduce((sum, status) => sum + grown(REQUESTS, { status }), 0);
  return {
    at: now.at,
    requests: total / Math.max(0.001, (now.at - before.at) / 1000),
    errors: total === 0 ? null : (failed / total) * 100,
    latency: quantile(0.99, bucketsOf(now), (le) => grown(BUCKETS, { le })),
    waiting: sumOf(now, `${PREFIX}db_pool_waiting`),
    connections: sumOf(now, `${PREFIX}db_pool_max`),
    lag: sumOf(now, `${PREFIX}changes_lag_seconds`),
  };
}

/** The upper bounds of the buckets as the metric writes them, the least first. */
const bucketsOf = ({ samples }: Reading): readonly string[] =>
  [...new Set((samples.get(BUCKETS) ?? []).flatMap(({ labels }) => labels.le ?? []))].sort(
    (a, b) => boundOf(a) - boundOf(b),
  );

const boundOf = (le: string): number => (le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le));

/** As Prometheus' histogram_quantile: linear within a bucket; the last finite bound for what is above it. */
function quantile(part: number, bounds: readonly string[], countOf: (le: string) => number): number | null {
  const counts = bounds.map(countOf);
  const total = counts.at(-1) ?? 0;
  if (total === 0) return null;
  const wanted = part * total;
  const i = counts.findIndex((count) => count >= wanted);
  const [lower, below] = i > 0 ? [boundOf(bounds[i - 1]!), counts[i - 1]!] : [0, 0];
  const upper = boundOf(bounds[i]!);
  return upper === Number.POSITIVE_INFINITY
    ? lower
    : lower + ((wanted - below) / (counts[i]! - below)) * (upper - lower);
}

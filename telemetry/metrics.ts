import { Counter, Gauge, Registry } from "prom-client";
import { Histogram } from "./histogram.ts";

/** The prefix of all metrics, except those whose names are common to many programs. */
export const PREFIX = "content_service_";

/** One series of a metric. */
export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

/** Reads a number, or one for each combination of labels. */
type Read = () => number | readonly Sample[];

/** How the values of several processes become one. */
type Aggregation = "sum" | "max" | "first";

type Described = {
  readonly name: string;
  readonly about: string;
  readonly labels?: readonly string[];
  /** The name is common to many programs, and has no prefix. */
  readonly isCommon?: boolean;
};

type CounterOptions = Described & { readonly read: Read };
type GaugeOptions = CounterOptions & { readonly aggregation?: Aggregation };
type HistogramOptions = Described & { readonly buckets: readonly number[] };

/** What `json` returns: it can be sent to another process. */
export type MetricsJson = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * The numbers of one service. Modules count in plain fields, which costs a request nothing, and register here how they are read.
 *
 *   metrics.counter({ name: "db_round_trips_total", about: "Round trips to the database.", read: () => database.waits });
 */
export class Metrics {
  readonly #registry = new Registry();

  /** A number that only grows. */
  counter({ read, ...options }: CounterOptions): void {
    const counter: Counter = new Counter({
      ...described(options),
      registers: [this.#registry],
      collect() {
        counter.reset();
        for (const sample of samplesOf(read())) counter.inc(sample.labels, sample.value);
      },
    });
  }

  gauge({ read, aggregation = "sum", ...options }: GaugeOptions): void {
    const gauge: Gauge = new Gauge({
      ...described(options),
      aggregator: aggregation,
      registers: [this.#registry],
      collect() {
        gauge.reset();
        for (const sample of samplesOf(read())) gauge.set(sample.labels, sample.value);
      },
    });
  }

  histogram({ buckets, ...options }: HistogramOptions): Histogram {
    const histogram = new Histogram({ ...described(options), buckets });
    this.#registry.registerMetric(histogram as never);
    return histogram;
  }

  json(): Promise<MetricsJson> {
    return this.#registry.getMetricsAsJSON();
  }

  /** Prometheus' text format. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

const described = ({ name, about, labels = [], isCommon = false }: Described) => ({
  name: isCommon ? name : PREFIX + name,
  help: about,
  labelNames: [...labels],
});

const samplesOf = (read: ReturnType<Read>): readonly Sample[] =>
  typeof read === "number" ? [{ labels: {}, value: read }] : read;

/** Counts by a text that may come from clients: from `max` different texts on, further ones count as "other". */
export class Tally {
  readonly #label: string;
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(label: string, max: number) {
    this.#label = label;
    this.#max = max;
  }

  add(text: string): void {
    const counted = this.#counts.has(text) || this.#counts.size < this.#max ? text : OTHER;
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1);
  }

  get samples(): readonly Sample[] {
    return [...this.#counts].map(([text, value]) => ({ labels: { [this.#label]: text }, value }));
  }
}

/** The label for texts that are not counted separately. */
export const OTHER = "other";

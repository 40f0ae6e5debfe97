export type HistogramConfig = {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
};

type Value = { readonly labels: Record<string, string | number>; readonly value: number; readonly metricName: string };

/**
 * A histogram of prom-client's registry. prom-client's own one looks a series up by its labels with each observation, which costs
 * more than everything else that is measured in a request: here, the series is looked up once and kept.
 */
export class Histogram {
  readonly name: string;
  readonly help: string;
  readonly type = "histogram";
  readonly aggregator = "sum";
  readonly #labelNames: readonly string[];
  readonly #buckets: readonly number[];
  readonly #series = new Map<string, { readonly labels: Record<string, string>; readonly times: Times }>();

  constructor({ name, help, labelNames, buckets }: HistogramConfig) {
    this.name = name;
    this.help = help;
    this.#labelNames = labelNames;
    this.#buckets = buckets;
  }

  /** The series with these labels, in the order of their names. The number of series must be bounded. */
  of(...labels: readonly string[]): Times {
    const key = labels.join("\0");
    const known = this.#series.get(key);
    if (known) return known.times;
    const times = new Times(this.#buckets);
    this.#series.set(key, { labels: Object.fromEntries(this.#labelNames.map((name, i) => [name, labels[i]!])), times });
    return times;
  }

  /** Called by the registry. */
  get() {
    const { name, help, type, aggregator } = this;
    const values = [...this.#series.values()].flatMap(({ labels, times }) => this.#valuesOf(labels, times));
    return { name, help, type, aggregator, values };
  }

  #valuesOf(labels: Record<string, string>, { counts, sum }: Times): Value[] {
    let total = 0;
    const buckets = [...this.#buckets, "+Inf"].map((le, i) => {
      total += counts[i]!;
      return { labels: { le, ...labels }, value: total, metricName: `${this.name}_bucket` };
    });
    return [
      ...buckets,
      { labels, value: sum, metricName: `${this.name}_sum` },
      { labels, value: total, metricName: `${this.name}_count` },
    ];
  }
}

/** One series of a histogram. */
export class Times {
  /** Observations per bucket; the last one is above all bounds. */
  readonly counts: Float64Array;
  sum = 0;
  readonly #buckets: readonly number[];

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets;
    this.counts = new Float64Array(buckets.length + 1);
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }

  observe(value: number): void {
    let i = 0;
    while (i < this.#buckets.length && value > this.#buckets[i]!) i++;
    this.counts[i]!++;
    this.sum += value;
  }
}

/** Buckets for times of requests, in seconds. */
export const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

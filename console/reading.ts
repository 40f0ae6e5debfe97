import type { parseMetrics, Sample } from "../telemetry/metrics.ts";

/** All samples at one time, in milliseconds. */
export type Reading = { readonly at: number; readonly samples: ReturnType<typeof parseMetrics> };

/** The sum of the samples with these labels. */
export const sumOf = ({ samples }: Reading, name: string, labels: Sample["labels"] = {}): number =>
  (samples.get(name) ?? []).reduce((sum, sample) => (hasLabels(sample, labels) ? sum + sample.value : sum), 0);

export const hasLabels = (sample: Sample, labels: Sample["labels"]): boolean =>
  Object.entries(labels).every(([name, value]) => sample.labels[name] === value);

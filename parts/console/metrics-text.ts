import type { Sample } from "../../telemetry/metrics.ts";

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of Prometheus' text format, by the names of their metrics. */
export function parseMetrics(text: string): ReadonlyMap<string, readonly Sample[]> {
  const metrics = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = SAMPLE.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(LABEL)].map(([, label, quoted]) => [label!, unescaped(quoted!)] as const);
    const samples = metrics.get(name) ?? [];
    samples.push({ labels: Object.fromEntries(pairs), value: Number(value) });
    metrics.set(name, samples);
  }
  return metrics;
}

const unescaped = (text: string) => text.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character));

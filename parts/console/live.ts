import { type Html, html } from "../../gate/pages/html.ts";
import { records, table } from "../../gate/pages/table.ts";
import { PREFIX, type Sample } from "../../telemetry/metrics.ts";
import type { View } from "./console.ts";
import { parseMetrics } from "./metrics-text.ts";
import { CONSOLE } from "./path.ts";
import type { Activity, RunningStatement } from "./statements.ts";

export type LiveOptions = {
  /** Prometheus' text format. */
  metrics(): Promise<string>;
  activity(): Promise<Activity>;
  /** Null if the service has no tasks. */
  waitingTasks(): Promise<number | null>;
};

/** All samples at one time; `at` is in milliseconds. */
type Reading = { readonly at: number; readonly samples: ReturnType<typeof parseMetrics> };

/** The sum of the samples with these labels. */
const sumOf = ({ samples }: Reading, name: string, labels: Sample["labels"] = {}): number =>
  (samples.get(name) ?? []).reduce((sum, sample) => (hasLabels(sample, labels) ? sum + sample.value : sum), 0);

const hasLabels = (sample: Sample, labels: Sample["labels"]): boolean =>
  Object.entries(labels).every(([name, value]) => sample.labels[name] === value);

/** Milliseconds over which rates are computed. */
const WINDOW = 15_000;
const MAX_READINGS = 20;
const MAX_ROWS = 20;
const MAX_TEXT = 500;

/** `/console/live`: what the service does now. */
export function liveView({ metrics, activity, waitingTasks }: LiveOptions): View {
  let readings: readonly Reading[] = [];
  return {
    path: `${CONSOLE}/live`,
    name: "Live",
    icon: "live",
    script: "/assets/console-live.js",
    async render() {
      const [text, now, waiting] = await Promise.all([metrics(), activity(), waitingTasks()]);
      const reading = { at: performance.now(), samples: parseMetrics(text) };
      const recent = readings.filter(({ at }) => reading.at - at < WINDOW);
      readings = [...recent, reading].slice(-MAX_READINGS);
      const numbers = new Numbers(reading, recent[0] ?? null);
      return html`
<div class="row heading"><h1>Live</h1><button id="pause" type="button" class="quiet" hidden>Pause</button></div>
<div id="live">
${overview(numbers, waiting)}
${requests(numbers)}
${tallies(numbers)}
${pools(numbers)}
${statements(now.running)}
</div>`;
    },
  };
}

/** The numbers of a reading, and how they have grown since an earlier one; null for the first. */
class Numbers {
  readonly #now: Reading;
  readonly #before: Reading | null;

  constructor(now: Reading, before: Reading | null) {
    this.#now = now;
    this.#before = before;
  }

  all(name: string): readonly Sample[] {
    return this.#now.samples.get(name) ?? [];
  }

  /** The sum of the samples with these labels. */
  sum(name: string, labels: Sample["labels"] = {}): number {
    return sumOf(this.#now, name, labels);
  }

  /** Per second; null without an earlier reading. */
  rate(name: string, labels: Sample["labels"] = {}): number | null {
    if (this.#before === null) return null;
    const seconds = (this.#now.at - this.#before.at) / 1000;
    return Math.max(0, sumOf(this.#now, name, labels) - sumOf(this.#before, name, labels)) / seconds;
  }
}

const count = (value: number) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const perSecond = (rate: number | null) => (rate === null ? "…" : count(rate));
const megabytes = (bytes: number) => `${count(bytes / 1_048_576)} MiB`;

function overview(numbers: Numbers, waitingTasks: number | null): Html {
  const of = (name: string) => numbers.sum(PREFIX + name);
  const rows: readonly (readonly [string, string])[] = [
    ["Requests per second", perSecond(numbers.rate(`${PREFIX}http_requests_total`))],
    ["Open connections", count(of("connections_open"))],
    ["Open WebSockets", count(of("websockets_open"))],
    ["Subscriptions to changes", count(of("changes_subscriptions"))],
    ["Lag of changes", `${count(of("changes_lag_seconds"))} s, ${megabytes(of("changes_lag_bytes"))}`],
    ["Changes missed", count(of("changes_gaps_total"))],
    ["Tasks that run", count(of("tasks_running"))],
    ["Tasks that wait, in all processes", waitingTasks === null ? "–" : count(waitingTasks)],
    ["Held for clients", megabytes(of("client_memory_bytes"))],
  ];
  // Absent where other services share the process.
  const ofProcess: typeof rows = [
    ["Resident memory", megabytes(numbers.sum("process_resident_memory_bytes"))],
    ["CPU", percent(numbers.rate("process_cpu_seconds_total"))],
    ["Event loop delay, 99th percentile", `${count(numbers.sum("nodejs_eventloop_delay_p99_seconds") * 1000)} ms`],
  ];
  const shown = numbers.all("process_resident_memory_bytes").length > 0 ? [...rows, ...ofProcess] : rows;
  return html`<h2>Now</h2>
<dl class="stats">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const percent = (rate: number | null) => (rate === null ? "…" : `${count(rate * 100)} % of a core`);

function requests(numbers: Numbers): Html {
  const [total, times] = [`${PREFIX}http_requests_total`, `${PREFIX}http_request_duration_seconds`];
  const routes = numbers
    .all(`${times}_count`)
    .map(({ labels, value }) => ({ labels, value, rate: numbers.rate(`${times}_count`, labels) }))
    .sort((a, b) => (b.rate ?? 0) - (a.rate ?? 0) || b.value - a.value)
    .slice(0, MAX_ROWS);
  const failed = (labels: Sample["labels"]) =>
    numbers
      .all(total)
      .reduce(
        (sum, sample) => (hasLabels(sample, labels) && Number(sample.labels.status) >= 400 ? sum + sample.value : sum),
        0,
      );
  const row = ({ labels, value, rate }: (typeof routes)[number]) => [
    html`<code>${labels.method ?? ""} ${labels.route ?? ""}</code>`,
    perSecond(rate),
    count(value),
    count((numbers.sum(`${times}_sum`, labels) / value) * 1000),
    count(failed(labels)),
  ];
  return html`<h2>Requests</h2>${records(["Route", "Per second", "Since the start", "Mean (ms)", "Errors"], routes.map(row))}`;
}

function tallies(numbers: Numbers): Html {
  return html`
${tally(numbers, "Errors", { name: "errors_total", label: "code", head: "Code" })}
${tally(numbers, "Limits that rejected something", { name: "limits_hit_total", label: "limit", head: "Limit" })}
${tally(numbers, "Attempts at tasks", { name: "task_attempts_total", label: "outcome", head: "Outcome" })}`;
}

type Counted = { readonly name: string; readonly label: string; readonly head: string };

function tally(numbers: Numbers, title: string, { name, label, head }: Counted): Html {
  const most = numbers.all(PREFIX + name).toSorted((a, b) => b.value - a.value);
  const row = ({ labels, value }: Sample) =>
    html`<tr><th scope="row"><code>${labels[label] ?? ""}</code></th><td>${perSecond(numbers.rate(PREFIX + name, labels))}</td><td>${count(value)}</td></tr>`;
  const rows = most
    .filter(({ value }) => value > 0)
    .slice(0, MAX_ROWS)
    .map(row);
  return html`<h2>${title}</h2>${rows.length > 0 ? table([head, "Per second", "Since the start"], rows) : html`<p class="muted">None since the start.</p>`}`;
}

function pools(numbers: Numbers): Html {
  const row = ({ labels, value: max }: Sample) => {
    const of = (name: string) => count(numbers.sum(PREFIX + name, labels));
    return [
      labels.pool ?? "",
      count(max),
      of("db_pool_available"),
      of("db_pool_waiting"),
      of("db_pool_timeouts_total"),
      of("db_statement_timeouts_total"),
      perSecond(numbers.rate(`${PREFIX}db_round_trips_total`, labels)),
    ];
  };
  const heads = [
    "Pool",
    "Connections, at most",
    "Open and free",
    "Waiting",
    "Not connected in time",
    "Statements cancelled",
    "Round trips per second",
  ];
  return html`<h2>Database connections</h2>${records(heads, numbers.all(`${PREFIX}db_pool_max`).map(row))}`;
}

function statements(running: readonly RunningStatement[]): Html {
  return html`<h2>Statements that run</h2>
${running.length > 0 ? table(["Login", "Seconds", "Waits for", "SQL"], running.map(runningRow)) : html`<p class="muted">None.</p>`}`;
}

const runningRow = ({ login, seconds, waitsFor, text }: RunningStatement): Html =>
  html`<tr><td>${login}</td><td>${count(seconds)}</td><td>${waitsFor ?? "–"}</td><td><code>${text.slice(0, MAX_TEXT)}</code></td></tr>`;

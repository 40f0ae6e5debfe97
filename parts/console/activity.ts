import { type Advice, LEVELS } from "../../db/findings/finding.ts";
import { SLOW } from "../../db/transaction/execution.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { records, stampOf } from "../../gate/pages/table.ts";
import type { FailedTask } from "../../rest-gateway/tasks/tasks.ts";
import { PREFIX } from "../../telemetry/metrics.ts";
import { LOOKS } from "./access.ts";
import { AdminApi, Refused, type SendRequest } from "./admin-api.ts";
import type { View, ViewInput } from "./console.ts";
import { EVENTS, latestEvents } from "./events.ts";
import { parseMetrics } from "./metrics-text.ts";
import { countText } from "./numbers.ts";
import { CONSOLE } from "./path.ts";
import type { Activity, SlowTransaction, StatementStatistics } from "./statements.ts";

export type ActivityOptions = {
  /** Null where the advisor is off, or has not run yet. */
  advice(): Advice | null;
  activity(): Promise<Activity>;
  slow(): readonly SlowTransaction[];
  /** Prometheus' text format. */
  metrics(): Promise<string>;
  /** Null if the service has no tasks. */
  waitingTasks(): Promise<number | null>;
  /** The newest tasks whose last attempt has failed. */
  failedTasks(limit: number): Promise<readonly FailedTask[]>;
  /** What the pages of parts show here. */
  readonly ofParts: readonly (() => Promise<Html>)[];
  /** Null if users do not sign in at the service. */
  readonly send: SendRequest | null;
};

const ACTIVITY = `${CONSOLE}/activity`;
const MAX_STATEMENTS = 20;
const MAX_LATEST = 8;
const MAX_TEXT = 1000;
const MAX_ERROR = 300;

/** `/console/activity`: what was slow, what the advisor finds, and the newest security events, tasks and what parts add. */
export const activityView = (options: ActivityOptions): View => ({
  path: ACTIVITY,
  name: "Activity",
  icon: "activity",
  async render(input) {
    const [{ statistics }, text, waiting, failed, events, ofParts] = await Promise.all([
      options.activity(),
      options.metrics(),
      options.waitingTasks(),
      options.failedTasks(MAX_LATEST),
      options.send && eventsPart(options.send, input),
      Promise.all(options.ofParts.map((newest) => newest())),
    ]);
    return html`
<h1>Activity</h1>
${findingsPart(options.advice())}
<h2>Slow statements</h2>
${slowPart(options.slow())}
${statistics === null ? html`<p class="muted">With the extension <code>pg_stat_statements</code>, the statements that take the most time of the database are here too.</p>` : html`<h3>Most time in the database</h3>${statisticsPart(statistics)}`}
${events}
${waiting === null ? null : tasksPart(waiting, failed, parseMetrics(text))}
${ofParts}`;
  },
});

function findingsPart(advice: Advice | null): Html {
  const link = html`<a href="${CONSOLE}/access">Access</a>`;
  if (advice === null) return html`<h2>Findings</h2><p>The advisor is off, or has not finished its first run.</p>`;
  const { findings } = advice;
  if (findings.length === 0) return html`<h2>Findings</h2><p class="good">The advisor finds nothing wrong.</p>`;
  const counts = LEVELS.map((level) => ({ level, count: findings.filter((each) => each.level === level).length }));
  return html`<h2>Findings</h2>
<p>${counts.filter(({ count }) => count > 0).map(({ level, count }) => html`<strong class="${LOOKS[level]}">${count} ${level}${count === 1 ? "" : "s"}</strong> `)}– the page ${link} has all, with the SQL that fixes each.</p>
${records(
  ["Object", "Level", "Reason"],
  findings
    .slice(0, MAX_LATEST)
    .map(({ object, level, reason }) => [
      html`<code>${object}</code>`,
      html`<span class="${LOOKS[level]}">${level}</span>`,
      reason,
    ]),
)}`;
}

/** SQL that opens, because most of it is long. */
const sqlPart = (text: string): Html => {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= 90) return html`<code>${line}</code>`;
  return html`<details class="sql"><summary><code>${line.slice(0, 80)}…</code></summary><pre tabindex="0"><code>${text.slice(0, MAX_TEXT)}</code></pre></details>`;
};

const milliseconds = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 });

function slowPart(slow: readonly SlowTransaction[]): Html {
  if (slow.length === 0)
    return html`<p>No transaction has taken longer than ${SLOW} ms since the start of this process.</p>`;
  return html`<p class="muted">Transactions that took longer than ${SLOW} ms, since the start of this process.</p>
${records(
  ["SQL", "Last (UTC)", "Times", "Total (ms)", "Longest (ms)"],
  slow
    .slice(0, MAX_STATEMENTS)
    .map(({ text, last, count, total, max }) => [
      sqlPart(text),
      stampOf(new Date(last).toISOString()),
      countText(count),
      milliseconds(total),
      milliseconds(max),
    ]),
)}`;
}

const statisticsPart = (statistics: readonly StatementStatistics[]): Html =>
  records(
    ["SQL", "Calls", "Total (ms)", "Mean (ms)"],
    statistics.map(({ text, calls, total, mean }) => [
      sqlPart(text),
      countText(calls),
      milliseconds(total),
      milliseconds(mean),
    ]),
  );

async function eventsPart(send: SendRequest, input: ViewInput): Promise<Html> {
  const link = html`<p><a href="${EVENTS}">All security events</a></p>`;
  try {
    return html`<h2>Security events</h2>${await latestEvents(new AdminApi(send, input, ACTIVITY), MAX_LATEST)}${link}`;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return html`<h2>Security events</h2><p class="alert" role="alert">${error.message}</p>${link}`;
  }
}

function tasksPart(waiting: number, failed: readonly FailedTask[], samples: ReturnType<typeof parseMetrics>): Html {
  const of = (name: string) => samples.get(PREFIX + name) ?? [];
  const running = of("tasks_running").reduce((sum, { value }) => sum + value, 0);
  const outcomes = of("task_attempts_total").filter(({ value }) => value > 0);
  return html`<h2>Tasks</h2>
<p>${countText(running)} run, ${countText(waiting)} wait.</p>
${
  outcomes.length === 0
    ? html`<p>No task has run since the start.</p>`
    : records(
        ["Outcome", "Attempts since the start"],
        outcomes.map(({ labels, value }) => [labels.outcome ?? "", countText(value)]),
      )
}
${failed.length === 0 ? html`<p class="good">No task has failed.</p>` : html`<h3>Failed</h3>${failedTable(failed)}`}`;
}

const failedTable = (failed: readonly FailedTask[]): Html =>
  records(
    ["Task", "Failed (UTC)", "Of", "Attempts", "Next (UTC)", "Error"],
    failed.map(({ name, owner, at, attempts, next, error }) => [
      html`<code>${name.replace(/^app:/, "")}</code>`,
      stampOf(at.toISOString()),
      owner,
      countText(attempts),
      next && stampOf(next.toISOString()),
      withoutSecrets(error).slice(0, MAX_ERROR),
    ]),
  );

/** Passwords in URLs, and what may be a token or a key: `https://bob:secret@a.example` → `https://…@a.example`. */
const withoutSecrets = (text: string): string =>
  text.replace(/:\/\/[^\s/@]*@/g, "://…@").replace(/[\w-]{24,}(?:\.[\w-]+)*/g, "…");

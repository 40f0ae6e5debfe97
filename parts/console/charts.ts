import { type Html, html } from "../../http/pages/html.ts";
import type { Point } from "./history.ts";

type Chart = {
  readonly title: string;
  readonly read: (point: Point) => number | null;
  readonly text: (value: number) => string;
  /** From this value on, something is wrong. Null if there is none. */
  readonly threshold: ((now: Point) => number) | null;
};

const number = (value: number, digits = 1) => value.toLocaleString("en", { maximumFractionDigits: digits });

/** Seconds of lag that need attention. */
const LAG = 10;

/** For errors and latency, the thresholds are those of the alerts in docs/runbook.md. */
const CHARTS: readonly Chart[] = [
  { title: "Requests per second", read: ({ requests }) => requests, text: number, threshold: null },
  {
    title: "Responses 500, 502 and 504",
    read: ({ errors }) => errors,
    text: (value) => `${number(value, 2)} %`,
    threshold: () => 1,
  },
  {
    title: "Latency, 99th percentile",
    read: ({ latency }) => latency,
    text: (value) => `${number(value * 1000)} ms`,
    threshold: () => 1,
  },
  {
    title: "Waiting for a connection",
    read: ({ waiting }) => waiting,
    text: number,
    threshold: ({ connections }) => connections,
  },
  { title: "Lag of changes", read: ({ lag }) => lag, text: (value) => `${number(value)} s`, threshold: () => LAG },
];

const WIDTH = 480;
const HEIGHT = 96;
/** Milliseconds from left to right: those since the first point, within these limits. */
const LEAST_SPAN = 600_000;
const HOUR = 3_600_000;
/** A gap between points that is longer than this is not drawn over: the process was busy or stopped. */
const MAX_GAP = 60_000;

/** The last hour as charts. */
export const chartsOf = (points: readonly Point[]): Html =>
  points.length < 2
    ? html`<h2>Last hour</h2><p>The charts begin half a minute after the start of the service.</p>`
    : html`<h2>Last hour</h2><div class="charts">${CHARTS.map((chart) => drawn(chart, points))}</div>`;

function drawn({ title, read, text, threshold: thresholdAt }: Chart, points: readonly Point[]): Html {
  const threshold = thresholdAt?.(points.at(-1)!) ?? null;
  const known = points.flatMap((point) => read(point) ?? []);
  const now = read(points.at(-1)!);
  const most = Math.max(0, ...known);
  const isOver = threshold !== null && now !== null && now >= threshold;
  const wasOver = threshold !== null && most >= threshold;
  // A threshold far above all values would make the line flat.
  const isShown = threshold !== null && most >= threshold / 4;
  const top = Math.max(most, isShown ? threshold : 0) * 1.08 || 1;
  const label = `${title} in the last hour: now ${now === null ? "no value" : text(now)}, at most ${text(most)}`;
  return html`<figure>
<figcaption>${title} <strong class="${isOver ? "bad" : "value"}">${now === null ? "–" : text(now)}</strong></figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">
<path class="line" d="${pathOf(points, read, top)}"/>
${isShown ? html`<path class="threshold" d="M0 ${yOf(threshold, top)}H${WIDTH}"/>` : null}
</svg>
<p class="muted">At most ${text(most)}${threshold === null ? "" : html`; threshold ${text(threshold)}`}${wasOver && !isOver ? html`, <span class="warn">exceeded in this hour</span>` : null}${isOver ? html`, <span class="bad">exceeded</span>` : null}</p>
</figure>`;
}

const yOf = (value: number, top: number): string => (HEIGHT - (value / top) * HEIGHT).toFixed(1);

/** The last point is at the right. */
function pathOf(points: readonly Point[], read: Chart["read"], top: number): string {
  const last = points.at(-1)!.at;
  const span = Math.min(HOUR, Math.max(LEAST_SPAN, last - points[0]!.at));
  let before: number | null = null;
  const parts = points.flatMap((point) => {
    const value = read(point);
    const age = last - point.at;
    if (value === null || age > HOUR) {
      before = null;
      return [];
    }
    const isNew = before === null || point.at - before > MAX_GAP;
    before = point.at;
    // A point alone is a dot.
    return [
      `${isNew ? "M" : "L"}${(WIDTH - (age / span) * WIDTH).toFixed(1)} ${yOf(value, top)}${isNew ? "h0.5" : ""}`,
    ];
  });
  return parts.join("");
}

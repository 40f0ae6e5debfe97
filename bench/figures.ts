import { table } from "./report.ts";
import type { Sample, Series } from "./rounds.ts";
import type { Waits } from "./waits.ts";

export type Figure = keyof Sample;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** The median, the least and the most: `spread([3, 1, 2], 1)` → `2.0 (1.0–3.0)`; `–` for none. */
export function spread(values: readonly number[], digits: number): string {
  if (values.length === 0) return "–";
  const text = median(values).toFixed(digits);
  if (values.length === 1) return text;
  return `${text} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`;
}

/** The figure in each round; none where it is not known. */
export const valuesOf = ({ samples }: Series, figure: Figure): number[] =>
  samples.map((sample) => sample[figure]).filter((value) => value !== null);

/** Round by round, the figure of one series to that of a rival in the same case; none where there is no rival. */
export function ratiosTo(rival: string, mine: Series, all: readonly Series[], figure: Figure): number[] {
  const isPeer = (each: Series) => each.case === mine.case && each.connections === mine.connections;
  const theirs = all.find((each) => each.contestant === rival && isPeer(each));
  if (!theirs) return [];
  const [own, other] = [valuesOf(mine, figure), valuesOf(theirs, figure)];
  return other.map((value, i) => own[i]! / value);
}

export type Ratio = readonly [head: string, rival: string, figure: Figure];

/** One contestant to its rivals, case by case. */
export function ratioTable(name: string, columns: readonly Ratio[], series: readonly Series[]): string {
  const rows = series
    .filter(({ contestant }) => contestant === name)
    .map((mine) => [
      mine.case,
      String(mine.connections),
      ...columns.map(([, rival, figure]) => spread(ratiosTo(rival, mine, series, figure), 2)),
    ]);
  return table(["case", "connections", ...columns.map(([head]) => head)], rows);
}

const COLUMNS: readonly (readonly [figure: Figure, head: string, digits: number])[] = [
  ["requestsPerSecond", "requests/s", 0],
  ["p50", "p50 ms", 2],
  ["p99", "p99 ms", 1],
  ["serverCpu", "server CPU", 0],
  ["databaseCpu", "Postgres CPU", 0],
  ["memory", "memory MB", 0],
];

export const NUMBERS =
  "Medians (least–most). CPU in microseconds for each request: of the server's processes, and of Postgres for it. Memory: " +
  "the most that was resident during the load.";

/** Everything that was measured. */
export function numbersTable(series: readonly Series[]): string {
  const rows = series.map((each) => [
    each.case,
    String(each.connections),
    each.contestant,
    ...COLUMNS.map(([figure, , digits]) => spread(valuesOf(each, figure), digits)),
  ]);
  return table(["case", "connections", "contestant", ...COLUMNS.map(([, head]) => head)], rows);
}

export const WAITS =
  "Waits: groups of messages to Postgres that end in Sync or are a simple Query, for one request; some run side by side.";

/** Waits by case and server, and what else is known of each server. */
export function waitsTable(waits: readonly Waits[], more: readonly (readonly string[])[]): string {
  const servers = [...new Set(waits.map(({ server }) => server))];
  const rows = [...Map.groupBy(waits, (each) => each.case)].map(([name, own]) => [
    `waits, ${name}`,
    ...servers.map((server) => String(own.find((each) => each.server === server)!.waits)),
  ]);
  return table(["", ...servers], [...rows, ...more]);
}

/** What is wanted of a figure: the least that it should be, or the most. */
export type Aim = { readonly isAtLeast: boolean; readonly wanted: number; readonly digits: number };

export const atLeast = (wanted: number): Aim => ({ isAtLeast: true, wanted, digits: 2 });
export const atMost = (wanted: number, digits = 0): Aim => ({ isAtLeast: false, wanted, digits });

/** `values` were measured, one in each round; none where the goal does not apply. */
export type Goal = { readonly name: string; readonly aim: Aim; readonly values: readonly number[] };

/** What is measured of one of our series, round by round. */
export type Measure = (mine: Series) => number[];

export const ratios =
  (rival: string, figure: Figure, all: readonly Series[]): Measure =>
  (mine) =>
    ratiosTo(rival, mine, all, figure);

/** A goal is reached by the median of the rounds. */
export function goalsTable(goals: readonly Goal[]): string {
  const rows = goals
    .filter(({ values }) => values.length > 0)
    .map((goal) => {
      const { name, aim, values } = goal;
      const wanted = `${aim.isAtLeast ? "≥" : "≤"} ${aim.wanted}`;
      return [name, wanted, spread(values, aim.digits), isReached(goal) ? "reached" : "**missed**"];
    });
  return table(["goal", "wanted", "measured", ""], rows);
}

const isReached = ({ aim: { isAtLeast, wanted }, values }: Goal) =>
  isAtLeast ? median(values) >= wanted : median(values) <= wanted;

export const goalIn = (mine: Series, name: string, aim: Aim, measure: Measure): Goal => ({
  name: `${name}, ${mine.case} at ${mine.connections}`,
  aim,
  values: measure(mine),
});

/** A goal that holds everywhere, where it is missed most. */
export function worstOf(ours: readonly Series[], name: string, aim: Aim, measure: Measure): Goal {
  const sign = aim.isAtLeast ? 1 : -1;
  const [worst] = ours
    .map((mine) => goalIn(mine, `${name}, worst`, aim, measure))
    .filter(({ values }) => values.length > 0)
    .sort((a, b) => sign * (median(a.values) - median(b.values)));
  return worst ?? { name, aim, values: [] };
}

import { table } from "./report.ts";
import type { Sample, Series } from "./rounds.ts";
import type { Waits } from "./waits.ts";

export type Figure = keyof Sample;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** The median, minimum and maximum: `spread([3, 1, 2], 1)` → `2.0 (1.0–3.0)`; `–` without values. */
export function spread(values: readonly number[], digits: number): string {
  if (values.length === 0) return "–";
  const text = median(values).toFixed(digits);
  if (values.length === 1) return text;
  return `${text} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`;
}

/** The figure of each turn, without the turns where it is unknown. */
export const valuesOf = ({ samples }: Series, figure: Figure): number[] =>
  samples.map((sample) => sample[figure]).filter((value) => value !== null);

/** For each turn, the ratio of a figure to that of a rival in the same case; empty without the rival. */
export function ratiosTo(rival: string, mine: Series, all: readonly Series[], figure: Figure): number[] {
  const isPeer = (each: Series) => each.case === mine.case && each.connections === mine.connections;
  const theirs = all.find((each) => each.contestant === rival && isPeer(each));
  if (!theirs) return [];
  const [own, other] = [valuesOf(mine, figure), valuesOf(theirs, figure)];
  return other.map((value, i) => own[i]! / value);
}

export type Ratio = readonly [head: string, rival: string, figure: Figure];

/** The ratios of one contestant to its rivals, by case. */
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
  ["loadCpu", "load tool CPU", 0],
  ["foreignCores", "foreign cores", 2],
  ["memory", "memory MB", 0],
];

export const NUMBERS =
  "Medians (minimum–maximum). CPU in microseconds per request, of the server, of Postgres and of the load tool. Foreign " +
  "cores: CPU that other work of the machine used meanwhile. Memory: the peak of resident memory under load.";

/** All measurements. */
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
  "Waits: number of times that a request sends statements to Postgres and awaits their results; some run in parallel.";

/** Waits by case and server, followed by further rows with a value for each server. */
export function waitsTable(waits: readonly Waits[], more: readonly (readonly string[])[]): string {
  const servers = [...new Set(waits.map(({ server }) => server))];
  const rows = [...Map.groupBy(waits, (each) => each.case)].map(([name, own]) => [
    `waits, ${name}`,
    ...servers.map((server) => String(own.find((each) => each.server === server)!.waits)),
  ]);
  return table(["", ...servers], [...rows, ...more]);
}

/** The minimum or maximum that a figure should reach. */
export type Aim = { readonly isAtLeast: boolean; readonly wanted: number; readonly digits: number };

export const atLeast = (wanted: number): Aim => ({ isAtLeast: true, wanted, digits: 2 });
export const atMost = (wanted: number, digits = 0): Aim => ({ isAtLeast: false, wanted, digits });

/** `values` has one value for each measurement; it is empty if the goal does not apply. */
export type Goal = { readonly name: string; readonly aim: Aim; readonly values: readonly number[] };

/** Returns the values of one series of the service, one for each measurement. */
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

/** A goal for all series, applied to the series with the worst value. */
export function worstOf(ours: readonly Series[], name: string, aim: Aim, measure: Measure): Goal {
  const sign = aim.isAtLeast ? 1 : -1;
  const [worst] = ours
    .map((mine) => goalIn(mine, `${name}, worst`, aim, measure))
    .filter(({ values }) => values.length > 0)
    .sort((a, b) => sign * (median(a.values) - median(b.values)));
  return worst ?? { name, aim, values: [] };
}

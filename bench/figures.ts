import { table } from "./markdown.ts";
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

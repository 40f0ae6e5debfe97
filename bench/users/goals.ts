import { atLeast, type Goal, ratios, worstOf } from "../goals.ts";
import type { Measurements } from "./bench.ts";
import { EXPRESS, OURS, TABLES } from "./programs.ts";

/** Requests per second to those of each rival: what the conventions may cost. */
const SPEEDS: readonly (readonly [rival: string, least: number])[] = [
  [TABLES.name, 0.8],
  [EXPRESS.name, 0.7],
];

export function goalsOf({ cases, series }: Measurements): Goal[] {
  const ours = series.filter(({ contestant }) => contestant === OURS.name);
  return SPEEDS.flatMap(([rival, least]) =>
    cases.map(({ name }) => {
      const own = ours.filter((mine) => mine.case === name);
      return worstOf(own, `requests/s to ${rival}`, atLeast(least), ratios(rival, "requestsPerSecond", series));
    }),
  );
}

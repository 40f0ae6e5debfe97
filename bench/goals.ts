import { type Figure, median, ratiosTo, spread } from "./figures.ts";
import { table } from "./markdown.ts";
import type { Series } from "./rounds.ts";

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

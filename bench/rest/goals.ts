import { type Figure, median, ratiosTo, spread, valuesOf } from "../figures.ts";
import { table } from "../markdown.ts";
import type { Series } from "../rounds.ts";
import type { Measurements } from "./bench.ts";
import { FOUR_TRIPS, PIPELINE } from "./pgbench.ts";
import { OURS, POSTGREST } from "./programs.ts";

/** From so many connections on a server is busy all the time. */
export const BUSY_CONNECTIONS = 16;

/** Requests per second to PostgREST's, when busy. */
const SPEEDS: Readonly<Record<string, number>> = { row: 4, list: 4, embed: 4, rpc: 4, insert: 3, bulk: 1.2, many: 1 };
/** Microseconds for a row by its key. */
const ROW_CPU = 75;
/** MB. */
const IDLE_MEMORY = 120;
const LOADED_MEMORY = 300;

/** What is wanted of a figure: the least that it should be, or the most. */
type Aim = { readonly isAtLeast: boolean; readonly wanted: number; readonly digits: number };

const atLeast = (wanted: number): Aim => ({ isAtLeast: true, wanted, digits: 2 });
const atMost = (wanted: number, digits = 0): Aim => ({ isAtLeast: false, wanted, digits });

/** `values` were measured, one in each round; none where the goal does not apply. */
type Goal = { readonly name: string; readonly aim: Aim; readonly values: readonly number[] };

/** A goal is reached by the median of the rounds. */
export function goalsTable(measured: Measurements): string {
  const rows = goalsOf(measured)
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

function goalsOf({ series, idleMemory }: Measurements): Goal[] {
  const ours = series.filter(({ contestant }) => contestant === OURS.name);
  const busy = ours.filter(({ connections }) => connections >= BUSY_CONNECTIONS);
  const ratios = (rival: string, figure: Figure) => (mine: Series) => ratiosTo(rival, mine, series, figure);
  const speedTo = (rival: string) => ratios(rival, "requestsPerSecond");
  const peakIn = (mine: Series) => [Math.max(...valuesOf(mine, "memory"))];
  return [
    ...busy
      .filter((mine) => mine.case in SPEEDS)
      .map((mine) => goalIn(mine, "requests/s to PostgREST", atLeast(SPEEDS[mine.case]!), speedTo(POSTGREST.name))),
    worstOf(ours, "p99 to PostgREST", atMost(1, 2), ratios(POSTGREST.name, "p99")),
    worstOf(ours, `requests/s to ${FOUR_TRIPS.name}`, atLeast(0.9), speedTo(FOUR_TRIPS.name)),
    worstOf(ours, `requests/s to ${PIPELINE.name}`, atLeast(0.5), speedTo(PIPELINE.name)),
    ...busy
      .filter((mine) => mine.case === "row")
      .map((mine) => goalIn(mine, "µs of the server's CPU", atMost(ROW_CPU), (row) => valuesOf(row, "serverCpu"))),
    { name: "MB when idle", aim: atMost(IDLE_MEMORY), values: [idleMemory.get(OURS.name)!] },
    worstOf(ours, "MB under load", atMost(LOADED_MEMORY), peakIn),
  ];
}

const goalIn = (mine: Series, name: string, aim: Aim, measure: (mine: Series) => number[]): Goal => ({
  name: `${name}, ${mine.case} at ${mine.connections}`,
  aim,
  values: measure(mine),
});

/** A goal that holds everywhere, where it is missed most. */
function worstOf(ours: readonly Series[], name: string, aim: Aim, measure: (mine: Series) => number[]): Goal {
  const sign = aim.isAtLeast ? 1 : -1;
  const [worst] = ours
    .map((mine) => goalIn(mine, `${name}, worst`, aim, measure))
    .filter(({ values }) => values.length > 0)
    .sort((a, b) => sign * (median(a.values) - median(b.values)));
  return worst ?? { name, aim, values: [] };
}

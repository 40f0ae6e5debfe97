import { valuesOf } from "../figures.ts";
import { atLeast, atMost, type Goal, goalIn, ratios, worstOf } from "../goals.ts";
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

export function goalsOf({ series, idleMemory }: Measurements): Goal[] {
  const ours = series.filter(({ contestant }) => contestant === OURS.name);
  const busy = ours.filter(({ connections }) => connections >= BUSY_CONNECTIONS);
  const speedTo = (rival: string) => ratios(rival, "requestsPerSecond", series);
  const peakIn = (mine: Series) => [Math.max(...valuesOf(mine, "memory"))];
  return [
    ...busy
      .filter((mine) => mine.case in SPEEDS)
      .map((mine) => goalIn(mine, "requests/s to PostgREST", atLeast(SPEEDS[mine.case]!), speedTo(POSTGREST.name))),
    worstOf(ours, "p99 to PostgREST", atMost(1, 2), ratios(POSTGREST.name, "p99", series)),
    worstOf(ours, `requests/s to ${FOUR_TRIPS.name}`, atLeast(0.9), speedTo(FOUR_TRIPS.name)),
    worstOf(ours, `requests/s to ${PIPELINE.name}`, atLeast(0.5), speedTo(PIPELINE.name)),
    ...busy
      .filter((mine) => mine.case === "row")
      .map((mine) => goalIn(mine, "µs of the server's CPU", atMost(ROW_CPU), (row) => valuesOf(row, "serverCpu"))),
    { name: "MB when idle", aim: atMost(IDLE_MEMORY), values: [idleMemory.get(OURS.name)!] },
    worstOf(ours, "MB under load", atMost(LOADED_MEMORY), peakIn),
  ];
}

import {
  atLeast,
  atMost,
  type Goal,
  goalIn,
  goalsTable,
  NUMBERS,
  numbersTable,
  type Ratio,
  ratios,
  ratioTable,
  valuesOf,
  WAITS,
  waitsTable,
  worstOf,
} from "../figures.ts";
import { caveats, heading, list } from "../report.ts";
import type { BenchOptions, Series } from "../rounds.ts";
import type { Measurements } from "./bench.ts";
import { FOUR_TRIPS, MODES, PIPELINE } from "./pgbench.ts";
import { OURS, OURS_TWICE, POSTGREST } from "./programs.ts";

/** Formats the measurements as Markdown. */
export function reportRest(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, series, workers, waits, idleMemory, hasPgbench, databaseVersion } = measured;
  const idle = [OURS, POSTGREST].map(({ name }) => idleMemory.get(name)!.toFixed(0));
  return [
    heading("Table interface", command, databaseVersion),
    list([OURS, POSTGREST, ...(hasPgbench ? MODES : [])]),
    list(cases),
    `${caveats(options)} ${OWN_CAVEATS}${hasPgbench ? "" : " pgbench was not installed."}`,
    "### Goals",
    "For one process of ours. A goal is reached if the median of the rounds reaches it.",
    goalsTable(goalsOf(measured)),
    "### Ratios of ours to the others",
    "Medians of the ratios of the rounds (minimum–maximum). Requests per second: above 1, ours is faster. p99 and CPU of the server's " +
      "processes for each request: below 1, ours is better.",
    ratioTable(OURS.name, RATIOS, series),
    ...(workers.length > 0 ? [`### ${OURS_TWICE.name}, relative to one process`, workersTable(workers)] : []),
    "### Waits and idle memory",
    `${WAITS} Memory: resident MB after the start.`,
    waitsTable(waits, [["idle memory, MB", ...idle]]),
    "### All numbers",
    NUMBERS,
    numbersTable([...series, ...workers.filter(({ contestant }) => contestant === OURS_TWICE.name)]),
  ].join("\n\n");
}

const OWN_CAVEATS =
  "All contestants receive the same requests, with the anon key and, unless the case differs, the token of one user. " +
  "Before the first round their responses were compared: equal JSON, except for ids and times of written rows. All connect " +
  "to Postgres over TCP. pgbench has one connection to Postgres per connection of the load, no HTTP and no token.";

const RATIOS: readonly Ratio[] = [
  ["requests/s to PostgREST", POSTGREST.name, "requestsPerSecond"],
  ["p50 to PostgREST", POSTGREST.name, "p50"],
  ["p99 to PostgREST", POSTGREST.name, "p99"],
  ["CPU to PostgREST", POSTGREST.name, "serverCpu"],
  ...MODES.map(({ name }): Ratio => [`requests/s to ${name}`, name, "requestsPerSecond"]),
];

const workersTable = (series: readonly Series[]) =>
  ratioTable(
    OURS_TWICE.name,
    [
      ["requests/s", OURS.name, "requestsPerSecond"],
      ["p99", OURS.name, "p99"],
      ["memory", OURS.name, "memory"],
    ],
    series,
  );

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

import {
  atLeast,
  atMost,
  type Goal,
  goalIn,
  goalsTable,
  type Measure,
  median,
  NUMBERS,
  numbersTable,
  type Ratio,
  ratios,
  ratiosTo,
  ratioTable,
  spread,
  valuesOf,
  WAITS,
  waitsTable,
  worstOf,
} from "../figures.ts";
import { caveats, heading, list, table } from "../report.ts";
import type { BenchOptions, Series } from "../rounds.ts";
import type { Measurements } from "./bench.ts";
import { FOUR_TRIPS, MODES, PIPELINE } from "./pgbench.ts";
import { BEFORE, OURS, OURS_AGAIN, OURS_TWICE, POSTGREST, throughSocket } from "./programs.ts";

/** Formats the measurements as Markdown. */
export function reportRest(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, programs, series, workers, sockets, waits, idleMemory, hasPgbench, databaseVersion } = measured;
  const idle = [OURS, POSTGREST].map(({ name }) => idleMemory.get(name)!.toFixed(0));
  return [
    heading("Table interface", command, databaseVersion),
    list([...programs, ...(hasPgbench ? MODES : [])]),
    list(cases),
    `${caveats(options)} ${OWN_CAVEATS}${hasPgbench ? "" : " pgbench was not installed."}`,
    "### Ours against the others",
    FIRST,
    firstTable(series),
    "### Goals",
    "For one process of ours. A goal is reached if the median of the turns reaches it.",
    goalsTable(goalsOf(measured)),
    "### Ratios of ours to the others",
    "Medians of the ratios of the turns (minimum–maximum). Requests per second: above 1, ours is faster. p99 and CPU of the server's " +
      "processes for each request: below 1, ours is better.",
    ratioTable(OURS.name, RATIOS, series),
    ...(workers.length > 0 ? [`### ${OURS_TWICE.name}, relative to one process`, workersTable(workers)] : []),
    ...(sockets.length > 0 ? ["### Through the Unix socket", SOCKETS, socketsTable(sockets)] : []),
    "### Waits and idle memory",
    `${WAITS} Memory: resident MB three seconds after it is ready.`,
    waitsTable(waits, [["idle memory, MB", ...idle]]),
    "### All numbers",
    NUMBERS,
    numbersTable([
      ...series,
      ...workers.filter(({ contestant }) => contestant === OURS_TWICE.name),
      ...sockets.filter(({ contestant }) => throughSockets.includes(contestant)),
    ]),
  ].join("\n\n");
}

const FIRST =
  "CPU: that of the server and Postgres for each request, of the other divided by ours: above 1, ours uses less. Requests per " +
  "second: ours divided by the other's. pgbench with a pipeline sends the same statements without HTTP: the limit. A " +
  `difference to the same build once more is noise. Medians (minimum–maximum). Goals are for ${"`"}CPU of PostgREST${"`"} from ` +
  "16 connections on.";

/** What the other uses, divided by what ours uses. */
const usedBy =
  (rival: string, all: readonly Series[]): Measure =>
  (mine) =>
    ratiosTo(rival, mine, all, "cpu").map((ratio) => 1 / ratio);

function firstTable(series: readonly Series[]): string {
  const of = (rival: string) => series.some(({ contestant }) => contestant === rival);
  const cpu = [POSTGREST.name, OURS_AGAIN.name, BEFORE].filter(of);
  const speed = [POSTGREST.name, OURS_AGAIN.name, BEFORE, PIPELINE.name].filter(of);
  const rows = series
    .filter(({ contestant }) => contestant === OURS.name)
    .map((mine) => {
      const goal = mine.connections >= BUSY_CONNECTIONS ? CPU_GOALS[mine.case] : undefined;
      const toPostgrest = usedBy(POSTGREST.name, series)(mine);
      return [
        mine.case,
        String(mine.connections),
        goal === undefined ? "" : `${goal}: ${median(toPostgrest) >= goal ? "reached" : "**missed**"}`,
        ...cpu.map((rival) => spread(usedBy(rival, series)(mine), 2)),
        ...speed.map((rival) => spread(ratiosTo(rival, mine, series, "requestsPerSecond"), 2)),
      ];
    });
  const heads = [...cpu.map((name) => `CPU of ${name}`), ...speed.map((name) => `requests/s to ${name}`)];
  return table(["case", "connections", "goal", ...heads], rows);
}

const OWN_CAVEATS =
  "All contestants receive the same requests, with the anon key and, unless the case differs, the token of one user. " +
  "Before the first round their responses were compared: equal JSON, except for ids and times of written rows. All connect " +
  "to Postgres over TCP. pgbench has one connection to Postgres per connection of the load, no HTTP and no token. Ours moves its " +
  "replication slot every 15 s, mostly between its turns: in bulk, that would add a fortieth to the CPU of Postgres.";

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

const throughSockets = [OURS, POSTGREST].map((program) => throughSocket(program).name);

const SOCKETS =
  "CPU of the server and Postgres for each request: what the other uses, divided by what ours through the socket uses. Requests per " +
  "second: ours through the socket, divided by the other's.";

function socketsTable(series: readonly Series[]): string {
  const [mine, theirs] = throughSockets as [string, string];
  const rivals = [OURS.name, POSTGREST.name, theirs];
  const rows = series
    .filter(({ contestant }) => contestant === mine)
    .map((own) => [
      own.case,
      String(own.connections),
      ...rivals.map((rival) => spread(usedBy(rival, series)(own), 2)),
      ...rivals.map((rival) => spread(ratiosTo(rival, own, series, "requestsPerSecond"), 2)),
    ]);
  const heads = [...rivals.map((name) => `CPU of ${name}`), ...rivals.map((name) => `requests/s to ${name}`)];
  return table(["case", "connections", ...heads], rows);
}

/** From so many connections on a server is busy all the time. */
export const BUSY_CONNECTIONS = 16;

/** CPU of PostgREST and its Postgres for each request, divided by that of ours, when busy. */
const CPU_GOALS: Readonly<Record<string, number>> = {
  row: 6,
  list: 7,
  embed: 5.5,
  rpc: 5.5,
  "row-callers": 5.5,
  "list-callers": 5,
  "rpc-callers": 4,
  insert: 2.6,
  bulk: 1,
  many: 1,
};
/** Microseconds for a row by its key. */
const ROW_CPU = 75;
/** MB. */
const IDLE_MEMORY = 130;
const LOADED_MEMORY = 300;

export function goalsOf({ series, idleMemory }: Measurements): Goal[] {
  const ours = series.filter(({ contestant }) => contestant === OURS.name);
  const busy = ours.filter(({ connections }) => connections >= BUSY_CONNECTIONS);
  const speedTo = (rival: string) => ratios(rival, "requestsPerSecond", series);
  const peakIn = (mine: Series) => [Math.max(...valuesOf(mine, "memory"))];
  return [
    ...busy
      .filter((mine) => mine.case in CPU_GOALS)
      .map((mine) => goalIn(mine, "CPU of PostgREST", atLeast(CPU_GOALS[mine.case]!), usedBy(POSTGREST.name, series))),
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

import {
  atLeast,
  type Goal,
  goalsTable,
  NUMBERS,
  numbersTable,
  type Ratio,
  ratios,
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
import { ENTRIES, EXPRESS, EXPRESS_ALONE, OURS, PROGRAMS, TABLES, UNCOUNTED } from "./contestants.ts";

/** Formats the measurements as Markdown. */
export function reportUsers(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, series, waits, idleMemory, databaseVersion } = measured;
  const repeats = repeatTable(measured);
  return [
    heading("User resource", command, databaseVersion),
    list(ENTRIES),
    list(cases),
    `${caveats(options)} ${OWN_CAVEATS}`,
    "### Goals",
    "A goal is reached if the median of the turns reaches it.",
    goalsTable(goalsOf(measured)),
    "### Ratios of ours to the others",
    "Medians of the ratios of the turns (minimum–maximum). Requests per second: above 1, ours is faster. p99 and CPU of the server's " +
      "process for each request: below 1, ours is better.",
    ratioTable(OURS.name, RATIOS, series),
    ...(repeats === null ? [] : ["### Ratios of 304 responses to 200 responses", "Requests per second.", repeats]),
    "### Waits and idle memory",
    `${WAITS} Memory: resident MB three seconds after it is ready.`,
    waitsTable(waits, [["idle memory, MB", ...PROGRAMS.map(({ name }) => idleMemory.get(name)!.toFixed(0))]]),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const OWN_CAVEATS =
  "Every request has the anon key and the token of a user. Before the first round the responses were compared: equal JSON, " +
  "except for ids and times of written rows. Ours caches verified tokens; Express verifies each one with jsonwebtoken.";

const RATIOS: readonly Ratio[] = [
  ["requests/s to tables", TABLES.name, "requestsPerSecond"],
  ["to uncounted", UNCOUNTED.name, "requestsPerSecond"],
  ["to Express", EXPRESS.name, "requestsPerSecond"],
  ["to Express, no RLS", EXPRESS_ALONE.name, "requestsPerSecond"],
  ["CPU to tables", TABLES.name, "serverCpu"],
  ["CPU to Express", EXPRESS.name, "serverCpu"],
  ["p99 to tables", TABLES.name, "p99"],
  ["p99 to Express", EXPRESS.name, "p99"],
];

/** The gain of a 304 response for each contestant; null if one of the two cases was not measured. */
function repeatTable({ cases, series }: Measurements): string | null {
  const rows = cases.flatMap(({ name, repeats }) =>
    series.flatMap((mine) => {
      const whole = series.find((each) => each.case === repeats && isPeer(each, mine));
      if (mine.case !== name || !whole) return [];
      const rates = valuesOf(whole, "requestsPerSecond");
      const values = valuesOf(mine, "requestsPerSecond").map((value, i) => value / rates[i]!);
      return [[name, String(mine.connections), mine.contestant, spread(values, 2)]];
    }),
  );
  return rows.length === 0 ? null : table(["case", "connections", "contestant", "304 to 200"], rows);
}

const isPeer = (each: Series, mine: Series) =>
  each.contestant === mine.contestant && each.connections === mine.connections;

/** Minimum ratio of requests per second to each rival: the cost that the conventions may have. */
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

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

/** What the run says, as Markdown that is readable as it is. */
export function reportUsers(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, series, waits, idleMemory, databaseVersion } = measured;
  const repeats = repeatTable(measured);
  return [
    heading("User resource", command, databaseVersion),
    list(ENTRIES),
    list(cases),
    `${caveats(options)} ${OWN_CAVEATS}`,
    "### Goals",
    "A goal is reached by the median of the rounds.",
    goalsTable(goalsOf(measured)),
    "### Ours to theirs",
    "Medians of the rounds' ratios (least–most). Requests per second: above 1 ours is faster. p99 and CPU of the server's " +
      "process for each request: below 1 ours is quicker and lighter.",
    ratioTable(OURS.name, RATIOS, series),
    ...(repeats === null ? [] : ["### Answers of 304 to those of 200", "Requests per second.", repeats]),
    "### Waits and idle memory",
    `${WAITS} Memory: resident MB when the server was ready.`,
    waitsTable(waits, [["idle memory, MB", ...PROGRAMS.map(({ name }) => idleMemory.get(name)!.toFixed(0))]]),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const OWN_CAVEATS =
  "Every request comes with the anon key and a user's token; before the first round the answers were equal JSON, but for ids " +
  "and times of what is written. Ours remembers the tokens that it has checked; Express checks each, as jsonwebtoken does.";

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

/** Contestant by contestant, what an answer without content gains; null where one of the two was not measured. */
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

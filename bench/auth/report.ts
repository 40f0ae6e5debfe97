import { NUMBERS, numbersTable, type Ratio, ratiosTo, spread } from "../figures.ts";
import { goalsTable } from "../goals.ts";
import { list, table } from "../markdown.ts";
import type { BenchOptions } from "../rounds.ts";
import { caveats, heading } from "../section.ts";
import type { Measurements } from "./bench.ts";
import { ANONYMOUS, CASES, WAYS } from "./cases.ts";
import { goalsOf } from "./goals.ts";

/** What the run says, as Markdown that is readable as it is. */
export function reportAuth({ databaseVersion, series }: Measurements, options: BenchOptions, command: string): string {
  const others = series.filter(({ contestant }) => contestant !== ANONYMOUS.name);
  const rows = others.map((mine) => [
    mine.case,
    String(mine.connections),
    mine.contestant,
    ...RATIOS.map(([, rival, figure]) => spread(ratiosTo(rival, mine, series, figure), 2)),
  ]);
  return [
    heading("Credentials", command, databaseVersion),
    list(WAYS),
    list(CASES),
    `${caveats(options)} All ask the same process.`,
    "### Goals",
    "A goal is reached by the median of the rounds.",
    goalsTable(goalsOf(series)),
    `### To the ${ANONYMOUS.name} alone`,
    "Medians of the rounds' ratios (least–most). Requests per second: above 1 is faster. CPU of the server's process for " +
      "each request, and p99: below 1 is lighter and quicker.",
    table(["case", "connections", "credential", ...RATIOS.map(([head]) => head)], rows),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const RATIOS: readonly Ratio[] = [
  ["requests/s", ANONYMOUS.name, "requestsPerSecond"],
  ["CPU", ANONYMOUS.name, "serverCpu"],
  ["p99", ANONYMOUS.name, "p99"],
];

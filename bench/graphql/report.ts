import { NUMBERS, numbersTable, ratiosTo, spread, WAITS, waitsTable } from "../figures.ts";
import { list, table } from "../markdown.ts";
import type { BenchOptions, Series } from "../rounds.ts";
import { caveats, heading } from "../section.ts";
import type { Measurements } from "./bench.ts";
import { PROGRAMS } from "./programs.ts";

/** What the run says, as Markdown that is readable as it is. */
export function reportGraphql(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, series, waits, memory, databaseVersion } = measured;
  const memories = PROGRAMS.map(({ name }) => memory.get(name)!.toFixed(0));
  return [
    heading("GraphQL", command, databaseVersion),
    list(PROGRAMS),
    list(cases),
    `${caveats(options)} Every request comes with a user's token and with variables.`,
    "### Ours to theirs",
    "Medians of the rounds' ratios (least–most). Requests per second: above 1 ours is faster. CPU of the server's process " +
      "for each request: below 1 ours is lighter.",
    ratioTable(series),
    "### Waits and memory",
    `${WAITS} Memory: resident MB after the last round.`,
    waitsTable(waits, [["memory, MB", ...memories]]),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const RATIOS = [
  ["requests/s to stock", "stock", "requestsPerSecond"],
  ["requests/s to hand-written", "hand-written", "requestsPerSecond"],
  ["CPU to stock", "stock", "serverCpu"],
  ["CPU to hand-written", "hand-written", "serverCpu"],
] as const;

function ratioTable(series: readonly Series[]): string {
  const rows = series
    .filter(({ contestant }) => contestant === "ours")
    .map((ours) => [
      ours.case,
      String(ours.connections),
      ...RATIOS.map(([, rival, figure]) => spread(ratiosTo(rival, ours, series, figure), 2)),
    ]);
  return table(["case", "connections", ...RATIOS.map(([head]) => head)], rows);
}

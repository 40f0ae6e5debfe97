import { NUMBERS, numbersTable, type Ratio, ratioTable, WAITS, waitsTable } from "../figures.ts";
import { list } from "../markdown.ts";
import type { BenchOptions } from "../rounds.ts";
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
    ratioTable("ours", RATIOS, series),
    "### Waits and memory",
    `${WAITS} Memory: resident MB after the last round.`,
    waitsTable(waits, [["memory, MB", ...memories]]),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const RATIOS: readonly Ratio[] = [
  ["requests/s to stock", "stock", "requestsPerSecond"],
  ["requests/s to hand-written", "hand-written", "requestsPerSecond"],
  ["CPU to stock", "stock", "serverCpu"],
  ["CPU to hand-written", "hand-written", "serverCpu"],
];

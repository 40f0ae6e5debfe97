import { assertAgreement } from "../agreement.ts";
import type { Case } from "../case.ts";
import { checkOut } from "../checkout.ts";
import { createDatabase } from "../database.ts";
import { NUMBERS, numbersTable, type Ratio, ratioTable, WAITS, waitsTable } from "../figures.ts";
import { memoryOf } from "../process-usage.ts";
import { caveats, heading, list } from "../report.ts";
import { type Bench, type BenchOptions, contestantOf, runRounds, type Series, selectCases } from "../rounds.ts";
import { ourCommand, type Program, peer, type RunningServer, startServer } from "../servers.ts";
import { countWaits, type Waits } from "../waits.ts";
import { CASES } from "./cases.ts";

const OURS: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it",
  base: "",
  command: ourCommand,
};

/** The service and its peers. */
export const PROGRAMS: readonly Program[] = [
  OURS,
  peer(
    "stock",
    "PostGraphile 5 with its own adaptor and server on Express, and the plugins of the service",
    "graphql/servers/stock-postgraphile.ts",
  ),
  peer(
    "hand-written",
    "node:http, graphql-js and node-pg, one statement for each operation",
    "graphql/servers/hand-written.ts",
  ),
];

/** The name of the service at the commit of --against. */
const BEFORE = "ours before";

/** The service in another folder. */
const oursAt = (root: string, commit: string): Program => ({
  ...OURS,
  name: BEFORE,
  about: `the service at commit ${commit.slice(0, 12)}`,
  command: (database, port) => ourCommand(database, port, {}, root),
});

export type Measurements = {
  readonly cases: readonly Case[];
  readonly programs: readonly Program[];
  readonly databaseVersion: string;
  readonly series: readonly Series[];
  readonly waits: readonly Waits[];
  /** MB by server, after the last round. */
  readonly memory: ReadonlyMap<string, number>;
};

export const GRAPHQL: Bench = {
  name: "graphql",
  about: "Measures the service, stock PostGraphile and a hand-written server in turn on one throw-away database.",
  cases: CASES.map(({ name }) => name),
  comparesCommits: true,
  run: async (options, command) => reportGraphql(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = selectCases(CASES, options);
  options.progress("creating the database");
  await using database = await createDatabase();
  const waits = await countWaits(PROGRAMS, database, cases, options);

  await using stack = new AsyncDisposableStack();
  const programs = [...PROGRAMS];
  if (options.against) programs.push(oursAt(stack.use(checkOut(options.against)).root, options.against));
  const servers: RunningServer[] = [];
  for (const program of programs) servers.push(stack.use(await startServer(program, database)));
  for (const each of cases) await assertAgreement(servers, each);
  const { connections } = options;
  const series = await runRounds({ contestants: servers.map(contestantOf), cases, connections, database }, options);
  const memory = new Map(servers.map(({ name, pid }) => [name, memoryOf(pid)]));
  return { cases, programs, databaseVersion: database.version, series, waits, memory };
}

/** Formats the measurements as Markdown. */
export function reportGraphql(measured: Measurements, options: BenchOptions, command: string): string {
  const { cases, programs, series, waits, memory, databaseVersion } = measured;
  const rivals = RATIOS.filter(([, rival]) => programs.some(({ name }) => name === rival));
  const memories = PROGRAMS.map(({ name }) => memory.get(name)!.toFixed(0));
  return [
    heading("GraphQL", command, databaseVersion),
    list(programs),
    list(cases),
    `${caveats(options)} Every request has the token of a user and variables.`,
    "### Ratios of ours to the others",
    "Medians of the ratios of the turns (minimum–maximum). Requests per second: above 1, ours is faster. CPU of the server's process " +
      "for each request: below 1, ours uses less.",
    ratioTable("ours", rivals, series),
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
  ["requests/s to ours before", BEFORE, "requestsPerSecond"],
  ["CPU to ours before", BEFORE, "serverCpu"],
];

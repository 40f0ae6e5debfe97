import { assertAgreement } from "../agreement.ts";
import { type Bench, chosenOf } from "../bench.ts";
import type { Case } from "../case.ts";
import { createDatabase } from "../database.ts";
import { memoryOf } from "../process-usage.ts";
import { type BenchOptions, contestantOf, runRounds, type Series } from "../rounds.ts";
import { type RunningServer, startServer } from "../servers.ts";
import { countWaits, type Waits } from "../waits.ts";
import { CASES } from "./operations.ts";
import { PROGRAMS } from "./programs.ts";
import { reportGraphql } from "./report.ts";

export type Measurements = {
  readonly cases: readonly Case[];
  readonly databaseVersion: string;
  readonly series: readonly Series[];
  readonly waits: readonly Waits[];
  /** MB by server, after the last round. */
  readonly memory: ReadonlyMap<string, number>;
};

export const GRAPHQL: Bench = {
  name: "graphql",
  about: "Measures our server, stock PostGraphile and a hand-written server on one throw-away database, in turn.",
  cases: CASES.map(({ name }) => name),
  run: async (options, command) => reportGraphql(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = chosenOf(CASES, options);
  options.progress("making the database");
  await using database = await createDatabase();
  const waits = await countWaits(PROGRAMS, database, cases, options);

  await using stack = new AsyncDisposableStack();
  const servers: RunningServer[] = [];
  for (const program of PROGRAMS) servers.push(stack.use(await startServer(program, database)));
  for (const each of cases) await assertAgreement(servers, each);
  const { connections } = options;
  const series = await runRounds({ contestants: servers.map(contestantOf), cases, connections, database }, options);
  const memory = new Map(servers.map(({ name, pid }) => [name, memoryOf(pid)]));
  return { cases, databaseVersion: database.version, series, waits, memory };
}

import { assertSameAnswers } from "../agreement.ts";
import { type BenchDatabase, createDatabase } from "../database.ts";
import { type Bench, type BenchOptions, runRounds, type Series, selectCases } from "../rounds.ts";
import { type RunningServer, startServer } from "../servers.ts";
import { countWaits, type Waits } from "../waits.ts";
import { CASES, type UserCase } from "./cases.ts";
import { ENTRIES, type Entry, PROGRAMS, serverCasesOf, userContestantOf } from "./contestants.ts";
import { reportUsers } from "./report.ts";

export type Measurements = {
  readonly cases: readonly UserCase[];
  readonly databaseVersion: string;
  readonly series: readonly Series[];
  readonly waits: readonly Waits[];
  /** MB by server, when it was idle after its start. */
  readonly idleMemory: ReadonlyMap<string, number>;
};

export const USERS: Bench = {
  name: "users",
  about:
    "Measures the user resource beside the same requests to the table interface and beside hand-written handlers on Express,\n" +
    "  in turn on one throw-away database.",
  cases: CASES.map(({ name }) => name),
  run: async (options, command) => reportUsers(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = selectCases(CASES, options);
  const { connections } = options;
  options.progress("creating the database");
  await using database = await createDatabase();
  const waits = await countAllWaits(database, cases, options);

  await using stack = new AsyncDisposableStack();
  const servers: RunningServer[] = [];
  for (const program of PROGRAMS) servers.push(stack.use(await startServer(program, database)));
  const serverOf = ({ program }: Entry) => servers[PROGRAMS.indexOf(program)]!;
  const contestants = await Promise.all(ENTRIES.map((entry) => userContestantOf(entry, serverOf(entry), cases)));
  for (const each of cases) {
    await assertSameAnswers(serverCasesOf(contestants, each));
    // The tag of a counted list has the total in it.
    if (each.writes) await database.removeWritten();
  }
  const series = await runRounds({ contestants: contestants, cases, connections, database }, options);
  return {
    cases,
    databaseVersion: database.version,
    series,
    waits,
    idleMemory: new Map(servers.map(({ name, idleMemory }) => [name, idleMemory])),
  };
}

/** Counts only the cases without If-None-Match: with it, the statements are the same. */
async function countAllWaits(
  database: BenchDatabase,
  cases: readonly UserCase[],
  options: BenchOptions,
): Promise<Waits[]> {
  const plain = cases.filter(({ repeats }) => repeats === null);
  const waits: Waits[] = [];
  for (const { name, program, requests } of ENTRIES) {
    if (name !== program.name) continue;
    const all = requests();
    const own = plain.map((each) => ({ ...each, requests: () => [...all[each.name]!] }));
    waits.push(...(await countWaits([program], database, own, options)));
  }
  return waits;
}

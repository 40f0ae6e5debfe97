import { assertAgreement } from "../agreement.ts";
import { checkOut } from "../checkout.ts";
import { type BenchDatabase, createDatabase } from "../database.ts";
import {
  type Bench,
  type BenchOptions,
  type Contestant,
  contestantOf,
  runRounds,
  type Series,
  selectCases,
} from "../rounds.ts";
import { type Program, type RunningServer, startServer } from "../servers.ts";
import { countWaits, type Waits } from "../waits.ts";
import { CASES, FUNCTIONS, type RestCase } from "./cases.ts";
import { exportStatements } from "./exported.ts";
import { CREATE_LOGIN, findPgbench, MODES, pgbenchContestant } from "./pgbench.ts";
import { OURS, OURS_AGAIN, OURS_TWICE, oursAt, POSTGREST, throughSocket } from "./programs.ts";
import { BUSY_CONNECTIONS, reportRest } from "./report.ts";

export type Measurements = {
  readonly cases: readonly RestCase[];
  readonly programs: readonly Program[];
  readonly databaseVersion: string;
  readonly series: readonly Series[];
  /** The service in one process and in two. */
  readonly workers: readonly Series[];
  /** The service and PostgREST, over TCP and through the Unix socket. */
  readonly sockets: readonly Series[];
  readonly waits: readonly Waits[];
  /** MB by server, when it was idle after its start. */
  readonly idleMemory: ReadonlyMap<string, number>;
  /** Whether pgbench took part. */
  readonly hasPgbench: boolean;
};

export const REST: Bench = {
  name: "rest",
  about:
    "Measures the table interface beside PostgREST 12.0.2, and beside pgbench with the statements of the service, in turn on one\n" +
    "  throw-away database. pgbench is measured only if it is installed.",
  cases: CASES.map(({ name }) => name),
  comparesCommits: true,
  run: async (options, command) => reportRest(await measureAll(options), options, command),
};

/** Where the server's own work is most of it: more processes may help. */
const SMALL = new Set(["row", "list", "embed", "rpc"]);

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = selectCases(CASES, options);
  const { connections } = options;
  options.progress("creating the database");
  await using database = await createDatabase(FUNCTIONS + CREATE_LOGIN);
  // The responses to refused requests say the same in other words, and not all of them ask the database.
  const answered = cases.filter(({ status }) => status === undefined);
  const waits = await countWaits([OURS, POSTGREST], database, answered, options);
  const tools = await pgbenchContestants(database, cases, options);

  await using stack = new AsyncDisposableStack();
  const programs = [OURS, POSTGREST, OURS_AGAIN];
  if (options.against) programs.push(oursAt(stack.use(checkOut(options.against)).root, options.against));
  const servers: RunningServer[] = [];
  for (const program of programs) servers.push(stack.use(await startServer(program, database)));
  const [ours, postgrest] = servers as [RunningServer, RunningServer];
  for (const each of answered) await assertAgreement([ours, postgrest], each);
  const contestants = [...servers.map(contestantOf), ...tools];
  const series = await runRounds({ contestants, cases, connections, database }, options);

  return {
    cases,
    programs,
    databaseVersion: database.version,
    series,
    workers: await compareWorkers(ours, database, cases, options),
    sockets: await compareSockets([ours, postgrest], database, cases, options),
    waits,
    idleMemory: new Map([ours, postgrest].map((server) => [server.name, server.idleMemory])),
    hasPgbench: tools.length > 0,
  };
}

/** Where the way to the database is much of the work. */
const THROUGH_SOCKET = new Set(["row", "list", "insert", "rpc"]);

/** Measured last: Postgres has too few connections for all servers at once. */
async function compareWorkers(
  ours: RunningServer,
  database: BenchDatabase,
  all: readonly RestCase[],
  options: BenchOptions,
) {
  const busy = busyPart(all, SMALL, options);
  if (busy === null) return [];
  await using twice = await startServer(OURS_TWICE, database);
  return await runRounds({ contestants: [ours, twice].map(contestantOf), ...busy, database }, options);
}

async function compareSockets(
  overTcp: readonly RunningServer[],
  database: BenchDatabase,
  all: readonly RestCase[],
  options: BenchOptions,
) {
  const busy = busyPart(all, THROUGH_SOCKET, options);
  if (busy === null) return [];
  await using ours = await startServer(throughSocket(OURS), database.socket);
  await using postgrest = await startServer(throughSocket(POSTGREST), database.socket);
  return await runRounds({ contestants: [...overTcp, ours, postgrest].map(contestantOf), ...busy, database }, options);
}

/** The cases with these names, and the numbers of connections that keep a server busy; null if there are none. */
function busyPart(all: readonly RestCase[], names: ReadonlySet<string>, options: BenchOptions) {
  const cases = all.filter(({ name }) => names.has(name));
  const connections = options.connections.filter((count) => count >= BUSY_CONNECTIONS);
  return cases.length === 0 || connections.length === 0 ? null : { cases, connections };
}

/** None where there is no pgbench. */
async function pgbenchContestants(
  database: BenchDatabase,
  cases: readonly RestCase[],
  { signal, progress }: BenchOptions,
): Promise<Contestant[]> {
  signal.throwIfAborted();
  const file = findPgbench();
  if (file === null) {
    progress("pgbench is not installed and is not measured (Debian package postgresql-contrib)");
    return [];
  }
  progress("recording the statements that the service sends to Postgres");
  const oneStatement = cases.filter(({ isOneStatement }) => isOneStatement);
  const exported = await exportStatements(OURS, database, oneStatement);
  return MODES.map((mode) => pgbenchContestant(file, mode, database, exported));
}

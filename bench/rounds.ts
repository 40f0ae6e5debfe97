import type { Case } from "./case.ts";
import type { BenchDatabase } from "./database.ts";
import { applyLoad, type LoadResult } from "./load.ts";
import { cpuOf, forgetPeak, machineCpu, ownCpuOf, peakOf } from "./process-usage.ts";
import type { RunningServer } from "./servers.ts";

/** One of the benches that `npm run bench -- <name>` runs. */
export type Bench = {
  readonly name: string;
  readonly about: string;
  /** The names of its cases. */
  readonly cases: readonly string[];
  /** The values of options that are not given, where they differ from those of the other benches. */
  readonly defaults?: Partial<typeof DEFAULTS>;
  /** Whether it takes --against. */
  readonly comparesCommits?: boolean;
  /** Runs the bench and returns its section of results.md. Stops all that it started, also after an error. */
  run(options: BenchOptions, command: string): Promise<string>;
};

/** The values of options that are not given. */
export const DEFAULTS = { rounds: "6", seconds: "1", connections: "1,16,64" };

/** The cases selected by the options. */
export const selectCases = <C extends Case>(all: readonly C[], { cases }: BenchOptions): C[] =>
  all.filter(({ name }) => cases?.includes(name) ?? true);

export type BenchOptions = {
  readonly rounds: number;
  readonly seconds: number;
  /** Names of cases; null for all. */
  readonly cases: readonly string[] | null;
  readonly connections: readonly number[];
  /** A commit of the service to measure too, for benches that compare versions. */
  readonly against: string | null;
  readonly signal: AbortSignal;
  progress(line: string): void;
};

export type Load = { readonly connections: number; readonly seconds: number };

/** A server that is measured, or a tool that sends statements to Postgres itself. */
export type Contestant = {
  readonly name: string;
  readonly server: RunningServer | null;
  /** Whether the contestant supports the case. */
  takes(benchCase: Case): boolean;
  apply(benchCase: Case, load: Load, signal: AbortSignal): Promise<LoadResult>;
};

/** One load on one contestant. CPU is in microseconds for each request, memory in MB; null where there is no server. */
export type Sample = LoadResult & {
  readonly serverCpu: number | null;
  readonly databaseCpu: number | null;
  /** Of the server and of Postgres. */
  readonly cpu: number | null;
  /** Of the load tool. */
  readonly loadCpu: number;
  /** Cores that other work of the machine, or of its host, used meanwhile. */
  readonly foreignCores: number;
  /** The most that the server had during the load. */
  readonly memory: number | null;
};

/** The samples of all rounds and turns, in order. */
export type Series = {
  readonly case: string;
  readonly connections: number;
  readonly contestant: string;
  readonly samples: Sample[];
};

/** A server that receives load from the load tool. */
export const contestantOf = (server: RunningServer): Contestant => ({
  name: server.name,
  server,
  takes: () => true,
  apply: ({ requests, refused, status, isSlow }, load, signal) =>
    applyLoad({ address: server.address, requests: requests(), refused, status, isSlow, ...load }, signal),
});

/** All that the rounds need. */
export type Field = {
  readonly contestants: readonly Contestant[];
  readonly cases: readonly Case[];
  readonly connections: readonly number[];
  readonly database: BenchDatabase;
};

/** Measurements of each contestant in each round. */
export const TURNS = 4;

/**
 * The contestants take turns, several in each round, in each case at each number of connections: the speed of the machine changes
 * within a minute. Their servers are restarted before each round: two processes of the same build differ by up to a fifth.
 */
export async function runRounds(field: Field, options: BenchOptions): Promise<Series[]> {
  const { rounds, seconds, progress } = options;
  const cells = cellsOf(field);
  for (let round = 1; round <= rounds; round++) {
    if (round > 1) await restartServers(field);
    await warmUp(field, options);
    for (const { benchCase, connections, contestants, series } of cells) {
      const load: Load = { connections, seconds };
      for (const contestant of contestants) await leadIn(contestant, benchCase, load, field.database, options);
      for (let turn = 1; turn <= TURNS; turn++) {
        // The first two are compared, so they follow each other. The order is reversed with each turn, so that it does not
        // influence the result.
        const order = contestants.keys().toArray();
        for (const i of turn % 2 === 1 ? order : order.reverse())
          series[i]!.samples.push(await measureInPeace(contestants[i]!, benchCase, load, field.database, options));
      }
      const rates = series.map((each) => `${each.contestant} ${each.samples.at(-1)!.requestsPerSecond.toFixed(0)}/s`);
      progress(`round ${round}/${rounds}, ${benchCase.name} at ${connections}: ${rates.join(", ")}`);
    }
  }
  return cells.flatMap(({ series }) => series);
}

/** What a bench has measured of one case at one number of connections. */
export type Measured<S> = { readonly case: Case; readonly connections: number; readonly samples: S[] };

/** For benches without contestants: takes a sample of each selected case at each number of connections, round by round. */
export async function sampleEach<S>(
  cases: readonly Case[],
  options: BenchOptions,
  measure: (each: Measured<S>) => Promise<S>,
  textOf: (sample: S) => string,
): Promise<readonly Measured<S>[]> {
  const { connections, rounds, progress, signal } = options;
  const measured = selectCases(cases, options).flatMap((each) =>
    connections.map((count): Measured<S> => ({ case: each, connections: count, samples: [] })),
  );
  for (let round = 1; round <= rounds; round++) {
    for (const each of measured) {
      signal.throwIfAborted();
      const sample = await measure(each);
      each.samples.push(sample);
      progress(`round ${round}/${rounds}, ${each.case.name} at ${each.connections}: ${textOf(sample)}`);
    }
  }
  return measured;
}

const serversOf = ({ contestants }: Field) =>
  new Set(contestants.map(({ server }) => server).filter((server) => server !== null));

async function restartServers(field: Field): Promise<void> {
  for (const server of serversOf(field)) {
    await server.restart();
    await field.database.settle();
    server.pause();
  }
}

/** Seconds of load until V8 has compiled the code of a request for the last time; each case has its part, of at least 3. */
const WARM_UP_SECONDS = 12;

/** Loads each server with each case, so that its code is compiled before it is measured. */
async function warmUp({ contestants, cases, database }: Field, { signal, progress }: BenchOptions): Promise<void> {
  // A server that is stopped would never end the statements of its start.
  await database.settle();
  for (const { server } of contestants) server?.pause();
  for (const contestant of contestants.filter(({ server }) => server !== null)) {
    progress(`warming up ${contestant.name}`);
    const taken = cases.filter((each) => contestant.takes(each));
    const load: Load = { connections: 16, seconds: Math.max(3, WARM_UP_SECONDS / taken.length) };
    for (const each of taken) await measure(contestant, each, load, database, signal);
  }
}

/** One case at one number of connections. */
type Cell = {
  readonly benchCase: Case;
  readonly connections: number;
  readonly contestants: readonly Contestant[];
  /** One series for each contestant. */
  readonly series: readonly Series[];
};

function cellsOf({ contestants, cases, connections }: Field): Cell[] {
  const cellOf = (benchCase: Case, count: number): Cell => {
    const present = contestants.filter((contestant) => contestant.takes(benchCase));
    const series = present.map(({ name }) => ({
      case: benchCase.name,
      connections: count,
      contestant: name,
      samples: [],
    }));
    return { benchCase, connections: count, contestants: present, series };
  };
  return cases.flatMap((benchCase) => connections.map((count) => cellOf(benchCase, count)));
}

/** Seconds of the same load before the turns of each round, in which V8 compiles code. */
export const LEAD_IN_SECONDS = 5;

/** Only for servers. */
async function leadIn(
  contestant: Contestant,
  benchCase: Case,
  load: Load,
  database: BenchDatabase,
  { signal }: BenchOptions,
): Promise<void> {
  if (contestant.server) await measure(contestant, benchCase, { ...load, seconds: LEAD_IN_SECONDS }, database, signal);
}

/** Measurements with more foreign load than this are repeated. */
export const MAX_FOREIGN_CORES = 0.15;
const ATTEMPTS = 3;

/** Measures again, up to twice, while other work of the machine disturbs the measurement. */
async function measureInPeace(
  contestant: Contestant,
  benchCase: Case,
  load: Load,
  database: BenchDatabase,
  { signal, progress }: BenchOptions,
): Promise<Sample> {
  for (let attempt = 1; ; attempt++) {
    const sample = await measure(contestant, benchCase, load, database, signal);
    if (sample.foreignCores <= MAX_FOREIGN_CORES || attempt === ATTEMPTS) return sample;
    progress(`${sample.foreignCores.toFixed(2)} cores were used by other work: measuring ${contestant.name} again`);
  }
}

async function measure(
  contestant: Contestant,
  benchCase: Case,
  load: Load,
  database: BenchDatabase,
  signal: AbortSignal,
): Promise<Sample> {
  signal.throwIfAborted();
  const { server } = contestant;
  await server?.resume();
  await database.settle();
  if (server) forgetPeak(server.pid);
  const before = usageOf(server, database);
  const result = await contestant.apply(benchCase, load, signal);
  const after = usageOf(server, database);
  const used = (of: keyof Usage) => after[of] - before[of];
  const perRequest = (microseconds: number) => microseconds / result.requests;
  const sample: Sample = {
    ...result,
    serverCpu: server && perRequest(used("server")),
    databaseCpu: server && perRequest(used("database")),
    cpu: server && perRequest(used("server") + used("database")),
    loadCpu: perRequest(used("bench")),
    foreignCores: (used("machine") - used("server") - used("database") - used("bench")) / used("time"),
    memory: server && peakOf(server.pid),
  };
  // A server that is stopped would never end the requests that the load tool has left.
  await database.settle();
  server?.pause();
  if (benchCase.writes) await database.removeWritten();
  return sample;
}

/** CPU time so far, and the time, in microseconds. The load tool is a child of the bench. */
type Usage = Readonly<Record<"server" | "database" | "bench" | "machine" | "time", number>>;

const usageOf = (server: RunningServer | null, database: BenchDatabase): Usage => ({
  server: server ? cpuOf(server.pid) : 0,
  database: cpuOf(database.pid),
  bench: ownCpuOf(process.pid),
  machine: machineCpu(),
  time: performance.now() * 1000,
});

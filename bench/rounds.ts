import type { Case } from "./case.ts";
import type { BenchDatabase } from "./database.ts";
import { applyLoad, type LoadResult } from "./load.ts";
import { cpuOf, forgetPeak, peakOf } from "./process-usage.ts";
import type { RunningServer } from "./servers.ts";

/** One of the benches that `npm run bench -- <name>` runs. */
export type Bench = {
  readonly name: string;
  readonly about: string;
  /** The names of its cases. */
  readonly cases: readonly string[];
  /** Runs the bench and returns its section of results.md. Stops all that it started, also after an error. */
  run(options: BenchOptions, command: string): Promise<string>;
};

/** The cases selected by the options. */
export const selectCases = <C extends Case>(all: readonly C[], { cases }: BenchOptions): C[] =>
  all.filter(({ name }) => cases?.includes(name) ?? true);

export type BenchOptions = {
  readonly rounds: number;
  readonly seconds: number;
  /** Names of cases; null for all. */
  readonly cases: readonly string[] | null;
  readonly connections: readonly number[];
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
  /** The most that the server had during the load. */
  readonly memory: number | null;
};

/** The samples of all rounds, in order. */
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
  apply: ({ requests, refused, status }, load, signal) =>
    applyLoad({ address: server.address, requests: requests(), refused, status, ...load }, signal),
});

/** All that the rounds need. */
export type Field = {
  readonly contestants: readonly Contestant[];
  readonly cases: readonly Case[];
  readonly connections: readonly number[];
  readonly database: BenchDatabase;
};

/** The contestants take turns, round by round, in each case at each number of connections. */
export async function runRounds(field: Field, options: BenchOptions): Promise<Series[]> {
  await warmUp(field, options);
  const { rounds, seconds, signal, progress } = options;
  const cells = cellsOf(field);
  for (let round = 1; round <= rounds; round++) {
    for (const { benchCase, connections, contestants, series } of cells) {
      // The order changes with each round, so that it does not influence the result.
      for (const i of rotated(contestants.length, round)) {
        const sample = await measure(contestants[i]!, benchCase, { connections, seconds }, field.database, signal);
        series[i]!.samples.push(sample);
      }
      const rates = series.map((each) => `${each.contestant} ${each.samples.at(-1)!.requestsPerSecond.toFixed(0)}/s`);
      progress(`round ${round}/${rounds}, ${benchCase.name} at ${connections}: ${rates.join(", ")}`);
    }
  }
  return cells.flatMap(({ series }) => series);
}

const WARM_UP: Load = { connections: 16, seconds: 4 };

/** Loads each server with each case, so that its code is compiled before the first round. */
async function warmUp({ contestants, cases, database }: Field, { signal, progress }: BenchOptions): Promise<void> {
  for (const { server } of contestants) server?.pause();
  for (const contestant of contestants.filter(({ server }) => server !== null)) {
    progress(`warming up ${contestant.name}`);
    const taken = cases.filter((each) => contestant.takes(each));
    for (const each of taken) await measure(contestant, each, WARM_UP, database, signal);
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

/** `rotated(3, 1)` → `[1, 2, 0]` */
const rotated = (length: number, by: number): number[] => Array.from({ length }, (_, i) => (i + by) % length);

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
  const before = { server: server && cpuOf(server.pid), database: cpuOf(database.pid) };
  const result = await contestant.apply(benchCase, load, signal);
  const sample: Sample = {
    ...result,
    serverCpu: server && (cpuOf(server.pid) - before.server!) / result.requests,
    databaseCpu: server && (cpuOf(database.pid) - before.database) / result.requests,
    memory: server && peakOf(server.pid),
  };
  server?.pause();
  if (benchCase.writes) await database.removeWritten();
  return sample;
}

import { Tokens } from "../rest-gateway/principal/tokens.ts";
import { ask, assertAgreement } from "./agreement.ts";
import { type BenchDatabase, createDatabase } from "./database.ts";
import { applyLoad, type LoadResult } from "./load.ts";
import { bodiesOf, type Operation } from "./operations.ts";
import { cpuOf, cpuOfFamily, memoryOf } from "./process-usage.ts";
import { CONTESTANTS, type RunningServer, SECRET, type ServerDatabase, startServer } from "./servers.ts";
import { startCountingProxy } from "./waits.ts";

export type BenchOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly operations: readonly Operation[];
  readonly connections: readonly number[];
  readonly signal: AbortSignal;
  progress(line: string): void;
};

export type ServerName = RunningServer["contestant"]["name"];

/** One load on one server. CPU is in microseconds for each request. */
export type Sample = LoadResult & { readonly serverCpu: number; readonly databaseCpu: number };

/** The samples of all rounds, in order. */
export type Series = {
  readonly operation: string;
  readonly connections: number;
  readonly server: ServerName;
  readonly samples: Sample[];
};

export type Waits = { readonly operation: string; readonly server: ServerName; readonly waits: number };

export type Measurements = {
  readonly databaseVersion: string;
  readonly series: readonly Series[];
  readonly waits: readonly Waits[];
  /** MB, after the last round. */
  readonly memory: Readonly<Record<ServerName, number>>;
};

/** Measures all servers on one database; what was started is stopped, however this ends. */
export async function benchGraphql(options: BenchOptions): Promise<Measurements> {
  options.progress("making the database");
  await using database = await createDatabase(SECRET);
  const waits = await countAllWaits(database, options);

  await using stack = new AsyncDisposableStack();
  const servers: RunningServer[] = [];
  for (const contestant of CONTESTANTS) {
    options.signal.throwIfAborted();
    servers.push(stack.use(await startServer(contestant, database)));
  }
  for (const operation of options.operations) await assertAgreement(servers, operation, issueToken());
  await warmUp(servers, database, options);
  const series = await runRounds(servers, database, options);
  const memory = Object.fromEntries(servers.map(({ contestant, pid }) => [contestant.name, memoryOf(pid)]));
  return { databaseVersion: database.version, series, waits, memory: memory as Record<ServerName, number> };
}

/** An access token of the first user, good for an hour. */
function issueToken(): string {
  const tokens = new Tokens({ secret: SECRET, privateKey: "", audience: "" });
  return tokens.issuePair({ id: "1", name: "User number 1", role: "authenticated", permissions: [] }).accessToken;
}

const COUNTED_REQUESTS = 10;

/** Each server once behind a proxy: how often one request waits for Postgres, when nothing is new to the server. */
async function countAllWaits(
  database: BenchDatabase,
  { operations, signal, progress }: BenchOptions,
): Promise<Waits[]> {
  await using proxy = await startCountingProxy(database.port);
  const behindProxy = {
    ownerUrl: withPort(database.ownerUrl, proxy.port),
    dataUrl: withPort(database.dataUrl, proxy.port),
  };
  const waits: Waits[] = [];
  for (const contestant of CONTESTANTS) {
    signal.throwIfAborted();
    progress(`counting the waits of ${contestant.name}`);
    await using server = await startServer(contestant, behindProxy satisfies ServerDatabase);
    for (const operation of operations) {
      const token = issueToken();
      for (let n = 0; n < COUNTED_REQUESTS; n++) await ask(server, operation, token, n);
      const before = proxy.waits();
      for (let n = 0; n < COUNTED_REQUESTS; n++) await ask(server, operation, token, n);
      const waited = (proxy.waits() - before) / COUNTED_REQUESTS;
      waits.push({ operation: operation.name, server: contestant.name, waits: waited });
    }
  }
  await database.removeWritten();
  return waits;
}

function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

const WARM_UP = { connections: 16, seconds: 2 };

async function warmUp(
  servers: readonly RunningServer[],
  database: BenchDatabase,
  options: BenchOptions,
): Promise<void> {
  for (const server of servers) {
    options.progress(`warming up ${server.contestant.name}`);
    for (const operation of options.operations) {
      await measure(server, operation, WARM_UP, database, options.signal);
    }
  }
}

async function runRounds(
  servers: readonly RunningServer[],
  database: BenchDatabase,
  options: BenchOptions,
): Promise<Series[]> {
  const cells = options.operations.flatMap((operation) =>
    options.connections.map((connections) => ({
      operation,
      connections,
      series: servers.map(
        (server): Series => ({
          operation: operation.name,
          connections,
          server: server.contestant.name,
          samples: [],
        }),
      ),
    })),
  );
  for (let round = 1; round <= options.rounds; round++) {
    for (const { operation, connections, series } of cells) {
      const load = { connections, seconds: options.seconds };
      // Another order in each round: who comes after whom must not matter.
      for (const i of rotated(servers.length, round)) {
        series[i]!.samples.push(await measure(servers[i]!, operation, load, database, options.signal));
      }
      const rates = series.map(({ server, samples }) => `${server} ${samples.at(-1)!.requestsPerSecond.toFixed(0)}/s`);
      options.progress(`round ${round}/${options.rounds}, ${operation.name} at ${connections}: ${rates.join(", ")}`);
    }
  }
  return cells.flatMap(({ series }) => series);
}

/** `rotated(3, 1)` → `[1, 2, 0]` */
const rotated = (length: number, by: number): number[] => Array.from({ length }, (_, i) => (i + by) % length);

type Load = { readonly connections: number; readonly seconds: number };

async function measure(
  server: RunningServer,
  operation: Operation,
  load: Load,
  database: BenchDatabase,
  signal: AbortSignal,
): Promise<Sample> {
  signal.throwIfAborted();
  await database.settle();
  const before = { server: cpuOf(server.pid), database: cpuOfFamily(database.pid) };
  const result = await applyLoad(
    { url: server.url, token: issueToken(), bodies: bodiesOf(operation), ...load },
    signal,
  );
  const sample: Sample = {
    ...result,
    serverCpu: (cpuOf(server.pid) - before.server) / result.requests,
    databaseCpu: (cpuOfFamily(database.pid) - before.database) / result.requests,
  };
  if (operation.isMutation) await database.removeWritten();
  return sample;
}

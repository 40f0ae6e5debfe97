import { setTimeout } from "node:timers/promises";
import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, type BenchDatabase, createDatabase } from "../database.ts";
import { atMost, type Goal, goalsTable, spread } from "../figures.ts";
import { applyLoad, type LoadResult } from "../load.ts";
import { forgetPeak, peakOf } from "../process-usage.ts";
import { heading, list, table } from "../report.ts";
import { type Bench, type BenchOptions, type Measured, sampleEach } from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { type SlowReaders, startAttack, startSlowReaders } from "./attack.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it",
  base: "",
  command: (database, port) => ourCommand(database, port),
};

const DOCUMENTS = 12;
/** Documents of 1 MB: a list of all is about 12 MB. */
const SCHEMA = `
  create table public.documents (id integer primary key, content text not null);
  alter table public.documents enable row level security;
  create policy "everyone reads them" on public.documents for select using (true);
  grant select on public.documents to anon, authenticated;
  insert into public.documents select n, repeat(md5(n::text), 31250) from generate_series(1, ${DOCUMENTS}) as n;`;

const SOCKETS = 200;

/**
 * A stream of 1 GB, and who reads it: together 20 MB per second. Postgres computes the rows while they are read, as those of a table
 * would be; a function in FROM would be computed first.
 */
const STREAM_SCHEMA = `
  create view public.exports with (security_invoker = true) as
    select n as id, repeat(md5(n::text), 31) as content from (select generate_series(1, 1000000) as n) as numbers;
  grant select on public.exports to anon, authenticated;`;
const READERS = 5;
const BYTES_PER_SECOND = 4_000_000;

/** Bytes that the readers receive together before the other requests begin: the size of one stream. */
const ALONE_BYTES = 1_000_000_000;
const ALONE_BYTES_PER_SECOND = 10_000_000;

/** The attack through one interface. */
const definitionOf = (name: string, about: string, request: Pick<HttpRequest, "method" | "path" | "body">): Case => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  requests: () => [{ ...request, headers: { apikey: ANON_KEY, "Content-Type": "application/json" } }],
});

const ATTACKS: readonly Case[] = [
  definitionOf("tables", "`GET /rest/v1/documents?select=content`", {
    method: "GET",
    path: "/rest/v1/documents?select=content",
    body: null,
  }),
  definitionOf("graphql", "`{ documents(first: 12) { edges { node { content } } } }`", {
    method: "POST",
    path: "/graphql",
    body: JSON.stringify({ query: `{ documents(first: ${DOCUMENTS}) { edges { node { content } } } }` }),
  }),
];

/** Streams are read slowly; every other response is not read at all. */
const STREAM: Case = {
  name: "stream",
  about: `\`GET /rest/v1/exports\`, 1 GB of \`application/x-ndjson\`, by ${READERS} clients that read ${BYTES_PER_SECOND / 1e6} MB per second each`,
  writes: false,
  ownFields: [],
  refused: [],
  requests: () => [
    {
      method: "GET",
      path: "/rest/v1/exports",
      headers: { apikey: ANON_KEY, Accept: "application/x-ndjson" },
      body: null,
    },
  ],
};

const casesOf = (): readonly Case[] => [...ATTACKS, STREAM];

/** The other requests, by a signed-in user at another address. */
const othersOf = (): HttpRequest[] =>
  Array.from({ length: 100 }, (_, i) => ({
    method: "GET",
    path: `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`,
    headers: { apikey: ANON_KEY, Authorization: bearer() },
    body: null,
  }));

/** Memory in MB. */
type Sample = {
  readonly calm: LoadResult;
  readonly attacked: LoadResult;
  readonly calmMemory: number;
  readonly memory: number;
  /** MB that slow readers have received beside other requests. */
  readonly received: number;
  /** The peak while only slow readers are served, who receive 1 GB; null for the other attacks. */
  readonly aloneMemory: number | null;
};
type Measurements = { readonly databaseVersion: string; readonly measured: readonly Measured<Sample>[] };

export const SLOW_READERS: Bench = {
  name: "slow-readers",
  about: `Measures memory, and the p99 of other requests, while ${SOCKETS} sockets request 12 MB each and never read.`,
  cases: casesOf().map(({ name }) => name),
  run: async (options, command) => reportSlowReaders(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  options.progress("creating the database");
  await using database = await createDatabase(SCHEMA + STREAM_SCHEMA);
  const measured = await sampleEach(casesOf(), options, (each) => measure(each, database, options), textOf);
  return { databaseVersion: database.version, measured };
}

/** On a new process, because memory that was freed stays resident for a while. */
async function measure(
  { case: benchCase, connections }: Measured<Sample>,
  database: BenchDatabase,
  options: BenchOptions,
): Promise<Sample> {
  await using server = await startServer(PROGRAM, database);
  const [request] = benchCase.requests();
  const aloneMemory = benchCase === STREAM ? await measureAlone(request!, server, options) : null;
  await load(server, 16, WARM_UP_SECONDS, options);
  await database.settle();
  forgetPeak(server.pid);
  const calm = await load(server, connections, options.seconds, options);
  const calmMemory = peakOf(server.pid);
  using attack = startCase(benchCase, request!, server.address);
  const attacked = await load(server, connections, options.seconds, options);
  return { calm, attacked, calmMemory, memory: peakOf(server.pid), received: attack.received / 1e6, aloneMemory };
}

/** The peak of resident MB while slow readers receive 1 GB from a service that has just started. */
async function measureAlone(request: HttpRequest, server: RunningServer, { signal }: BenchOptions): Promise<number> {
  await setTimeout(START_MILLISECONDS, undefined, { signal });
  forgetPeak(server.pid);
  using readers = startSlowReaders(request, server.address, READERS, ALONE_BYTES_PER_SECOND);
  while (readers.received < ALONE_BYTES) await setTimeout(100, undefined, { signal });
  return peakOf(server.pid);
}

/** Until the service has freed what only its start has needed. */
const START_MILLISECONDS = 5000;

function startCase(benchCase: Case, request: HttpRequest, address: string): SlowReaders {
  if (benchCase === STREAM) return startSlowReaders(request, address, READERS, BYTES_PER_SECOND);
  return Object.assign(startAttack(request, address, SOCKETS), { received: 0 });
}

const WARM_UP_SECONDS = 4;

const load = ({ address }: RunningServer, connections: number, seconds: number, { signal }: BenchOptions) =>
  applyLoad({ address, requests: othersOf(), refused: [], connections, seconds }, signal);

const textOf = ({ calm, attacked, memory }: Sample) =>
  `p99 ${calm.p99!.toFixed(1)} → ${attacked.p99!.toFixed(1)} ms, ${memory.toFixed(0)} MB`;

const MAX_MEMORY = 500;
const MAX_STREAM_MEMORY = 200;
/** Other requests need memory of their own; this is what streams add to it. */
const MAX_STREAM_GROWTH = 50;
const MAX_P99_RATIO = 2;

const growthOf = ({ calmMemory, memory }: Sample) => memory - calmMemory;

/** Formats the measurements as Markdown. */
function reportSlowReaders(
  { databaseVersion, measured }: Measurements,
  options: BenchOptions,
  command: string,
): string {
  return [
    heading("Slow readers", command, databaseVersion),
    list([PROGRAM]),
    list(casesOf()),
    `${SOCKETS} sockets at one address send the request and never read. The other requests read one row, as a signed-in user ` +
      `at another address. Rounds: ${options.rounds}, ${options.seconds} s without and then with the attack, whose beginning ` +
      "is included. Each measurement has a new process. Memory: the peak of resident MB. Streams are first read alone, 1 GB in " +
      `all by ${READERS} clients with ${ALONE_BYTES_PER_SECOND / 1e6} MB per second each, by a service that has just started.`,
    "### Goals",
    "A goal is reached if the median of the rounds reaches it.",
    goalsTable(measured.flatMap(goalsOf)),
    "### All numbers",
    "Medians (minimum–maximum), without the attack → with it.",
    table(["attack", "connections", "p50 ms", "p99 ms", "requests/s", "memory MB", "read MB"], measured.map(rowOf)),
  ].join("\n\n");
}

function goalsOf({ case: { name }, connections, samples }: Measured<Sample>): Goal[] {
  const at = `${name} at ${connections}`;
  const ratios = samples.map(({ calm, attacked }) => attacked.p99! / calm.p99!);
  return [
    ...(name === STREAM.name
      ? [
          {
            name: `memory MB, 1 GB alone, ${at}`,
            aim: atMost(MAX_STREAM_MEMORY),
            values: samples.map(({ aloneMemory }) => aloneMemory!),
          },
          { name: `memory MB that is added, ${at}`, aim: atMost(MAX_STREAM_GROWTH), values: samples.map(growthOf) },
        ]
      : [{ name: `memory MB, ${at}`, aim: atMost(MAX_MEMORY), values: samples.map(({ memory }) => memory) }]),
    { name: `p99 with the attack to without, ${at}`, aim: atMost(MAX_P99_RATIO, 2), values: ratios },
  ];
}

function rowOf({ case: { name }, connections, samples }: Measured<Sample>): string[] {
  const both = (pick: (sample: Sample) => readonly [number, number], digits: number) => {
    const pairs = samples.map(pick);
    return [0, 1]
      .map((i) =>
        spread(
          pairs.map((pair) => pair[i]!),
          digits,
        ),
      )
      .join(" → ");
  };
  return [
    name,
    String(connections),
    both(({ calm, attacked }) => [calm.p50!, attacked.p50!], 2),
    both(({ calm, attacked }) => [calm.p99!, attacked.p99!], 1),
    both(({ calm, attacked }) => [calm.requestsPerSecond, attacked.requestsPerSecond], 0),
    both(({ calmMemory, memory }) => [calmMemory, memory], 0),
    spread(
      samples.map(({ received }) => received),
      0,
    ),
  ];
}

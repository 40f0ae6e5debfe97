import { setTimeout } from "node:timers/promises";
import type { HttpRequest } from "../case.ts";
import { type BenchDatabase, createDatabase } from "../database.ts";
import { atMost, type Goal, goalsTable, spread } from "../figures.ts";
import { applyLoad, type LoadResult } from "../load.ts";
import { forgetPeak, peakOf } from "../process-usage.ts";
import { heading, list, table } from "../report.ts";
import { type Bench, type BenchOptions, type Measured, sampleEach } from "../rounds.ts";
import { fileOf, ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { FLOODS, KNOWN } from "./cases.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it",
  base: "",
  command: (database, port) => {
    const { args, ...command } = ourCommand(database, port, { METRICS: "on" });
    return { ...command, args: ["--expose-gc", `--import=${fileOf("soak/collect-on-signal.ts")}`, ...args] };
  },
};

/** Memory in MB. `counted` is what the caches say that they hold, `heap` the memory of JavaScript after a collection. */
type Memory = { readonly heap: number; readonly counted: number };

type Sample = {
  readonly load: LoadResult;
  readonly before: Memory;
  readonly after: Memory;
  /** The peak of resident memory. */
  readonly peak: number;
  /** Milliseconds of a known document, each sent once: before the flood, and directly after it. */
  readonly knownBefore: number;
  readonly knownAfter: number;
};
type Measurements = { readonly databaseVersion: string; readonly measured: readonly Measured<Sample>[] };

export const SOAK: Bench = {
  name: "soak",
  about:
    "Measures memory under a flood of requests that differ each time, and what it costs documents that are repeated.",
  cases: FLOODS.map(({ name }) => name),
  defaults: { rounds: "1", seconds: "150", connections: "8" },
  run: async (options, command) => reportSoak(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  options.progress("creating the database");
  await using database = await createDatabase();
  const measured = await sampleEach(FLOODS, options, (each) => measure(each, database, options), textOf);
  return { databaseVersion: database.version, measured };
}

async function measure(
  { case: flood, connections }: Measured<Sample>,
  database: BenchDatabase,
  options: BenchOptions,
): Promise<Sample> {
  await using server = await startServer(PROGRAM, database);
  const { seconds, signal } = options;
  const load = (requests: readonly HttpRequest[], duration: number) =>
    applyLoad({ address: server.address, requests, refused: [], connections, seconds: duration }, signal);
  await load(KNOWN, WARM_UP_SECONDS);
  const before = await memoryOf(server);
  const knownBefore = await timeOfKnown(server);
  forgetPeak(server.pid);
  const requests = mixed(flood.requests());
  const result = await load(requests, seconds);
  const peak = peakOf(server.pid);
  const knownAfter = await timeOfKnown(server);
  return { load: result, before, after: await memoryOf(server), peak, knownBefore, knownAfter };
}

const WARM_UP_SECONDS = 5;
/** A known document is sent among so many others. */
const OTHERS_PER_KNOWN = 50;

/** All the others in turn, at least as often as each known document is sent once. */
function mixed(others: readonly HttpRequest[]): HttpRequest[] {
  const count = Math.max(others.length, KNOWN.length * OTHERS_PER_KNOWN);
  return Array.from({ length: count }, (_, i) => {
    const other = others[i % others.length]!;
    return i % OTHERS_PER_KNOWN === 0 ? [KNOWN[(i / OTHERS_PER_KNOWN) % KNOWN.length]!, other] : [other];
  }).flat();
}

/** The mean of the milliseconds until the response to a known document. */
async function timeOfKnown({ address }: RunningServer): Promise<number> {
  const start = performance.now();
  for (const { method, path, headers, body } of KNOWN) {
    const response = await fetch(address + path, {
      method,
      headers: { ...headers, "Content-Type": "application/json" },
      body,
    });
    await response.arrayBuffer();
  }
  return (performance.now() - start) / KNOWN.length;
}

/** After a collection of garbage. */
async function memoryOf({ pid, address }: RunningServer): Promise<Memory> {
  process.kill(pid, "SIGWINCH");
  await setTimeout(COLLECT_MILLISECONDS);
  const text = await (await fetch(`${address}/metrics`)).text();
  const sum = (name: RegExp) =>
    [...text.matchAll(name)].reduce((total, [, value]) => total + Number(value), 0) / 1_000_000;
  return { heap: sum(/^nodejs_heap_used_bytes (\S+)$/gm), counted: sum(/^content_service_cache_bytes\{.*\} (\S+)$/gm) };
}

const COLLECT_MILLISECONDS = 1000;

const heapGrowth = ({ before, after }: Sample) => after.heap - before.heap;
const countedGrowth = ({ before, after }: Sample) => after.counted - before.counted;

const textOf = (sample: Sample) =>
  `${sample.load.requests} requests, peak ${sample.peak.toFixed(0)} MB, heap +${heapGrowth(sample).toFixed(1)} MB, counted ` +
  `+${countedGrowth(sample).toFixed(1)} MB, known ${sample.knownBefore.toFixed(2)} → ${sample.knownAfter.toFixed(2)} ms`;

const MAX_MEMORY = 350;
/** One measurement of thirty requests each: less than planning one document again would take. */
const MAX_KNOWN_RATIO = 2;

/** Formats the measurements as Markdown. */
function reportSoak({ databaseVersion, measured }: Measurements, options: BenchOptions, command: string): string {
  return [
    heading("Soak", command, databaseVersion),
    list([PROGRAM]),
    list(FLOODS),
    `Rounds: ${options.rounds}, ${options.seconds} s each, each with a new process. ${KNOWN.length} known documents are sent in turn among ` +
      "the others. Heap: the memory of JavaScript after a collection of garbage. Counted: `content_service_cache_bytes`, the " +
      "bytes of all caches. Known: the time of one known document, each sent once.",
    "### Goals",
    goalsTable(measured.flatMap(goalsOf)),
    "### All numbers",
    "Medians (minimum–maximum), before the flood → after it.",
    table(
      ["flood", "connections", "requests", "requests/s", "peak of resident MB", "heap MB", "counted MB", "known ms"],
      measured.map(rowOf),
    ),
  ].join("\n\n");
}

const goalsOf = ({ case: { name }, connections, samples }: Measured<Sample>): Goal[] => [
  {
    name: `resident MB, ${name} at ${connections}`,
    aim: atMost(MAX_MEMORY),
    values: samples.map(({ peak }) => peak),
  },
  {
    name: `heap that is added, to what is counted, ${name} at ${connections}`,
    aim: atMost(MAX_HEAP_RATIO, 2),
    values: samples.filter((each) => countedGrowth(each) > 10).map((each) => heapGrowth(each) / countedGrowth(each)),
  },
  {
    name: `a known document after the flood to before, ${name} at ${connections}`,
    aim: atMost(MAX_KNOWN_RATIO, 2),
    // Repeated documents are known as well: those displace each other.
    values: name.startsWith("repeated") ? [] : samples.map(({ knownBefore, knownAfter }) => knownAfter / knownBefore),
  },
];

/** The rest of the heap changes too. */
const MAX_HEAP_RATIO = 1.25;

function rowOf({ case: { name }, connections, samples }: Measured<Sample>): string[] {
  const one = (pick: (sample: Sample) => number, digits = 0) => spread(samples.map(pick), digits);
  return [
    name,
    String(connections),
    one(({ load }) => load.requests),
    one(({ load }) => load.requestsPerSecond),
    one(({ peak }) => peak),
    `${one(({ before }) => before.heap)} → ${one(({ after }) => after.heap)}`,
    `${one(({ before }) => before.counted)} → ${one(({ after }) => after.counted)}`,
    `${one(({ knownBefore }) => knownBefore, 2)} → ${one(({ knownAfter }) => knownAfter, 2)}`,
  ];
}

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Case } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, type BenchDatabase, createDatabase } from "../database.ts";
import { atLeast, atMost, type Goal, goalsTable } from "../figures.ts";
import { applyOpenLoad, type OpenLoadResult } from "../overload/open-load.ts";
import { forgetPeak, peakOf } from "../process-usage.ts";
import { openSubscribers } from "../realtime/subscribers.ts";
import { heading, list, table } from "../report.ts";
import { type Bench, type BenchOptions, type Measured, sampleEach } from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { ATTACKS } from "./attacks.ts";
import { ABOUT_NETWORKS, startNetworks, type Tries } from "./networks.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it, with this machine as a trusted proxy",
  base: "",
  command: (database, port) =>
    ourCommand(database, port, { RATE_LIMIT: "600", TRUST_PROXY: "127.0.0.1", METRICS: "on" }),
};

const SCHEMA = `
  create table public.events (id bigint primary key, body text not null);
  alter table public.events enable row level security;
  create policy "everyone reads them" on public.events for select using (true);
  create policy "everyone adds some" on public.events for insert with check (true);
  grant select, insert on public.events to anon, authenticated;`;

const USERS = 100;
/** Per second, of all users together: less than the limit for each. */
const READ_RATE = 200;
const READ_CONNECTIONS = 64;
const SUBSCRIBERS = 20;
/** Milliseconds between two writes, each of which every subscriber receives. */
const WRITE_PAUSE = 100;
/** Milliseconds until the last change has arrived, and what the attackers have left is gone. */
const SETTLE = Number(process.env.SETTLE ?? 10_000);

const caseOf = (name: string, about: string): Case => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  requests: () => {
    const tokens = Array.from({ length: USERS }, (_, i) => bearer(1 + i));
    return Array.from({ length: USERS * 4 }, (_, i) => ({
      method: "GET" as const,
      path: `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`,
      headers: { apikey: ANON_KEY, Authorization: tokens[i % USERS]!, "X-Forwarded-For": "198.51.100.7" },
      body: null,
    }));
  },
});

const ALL = "all";
const CASES: readonly Case[] = [
  caseOf(ALL, "all of the following at the same time"),
  ...ATTACKS.map(({ name, about }) => caseOf(name, about)),
];

/** `peak` is in MB. `missing`: changes that a subscriber did not get. `held`: bytes of the budget after the attack. */
type Sample = {
  readonly before: OpenLoadResult;
  readonly during: OpenLoadResult;
  readonly written: number;
  readonly missing: number;
  readonly peak: number;
  readonly held: string;
  readonly isAlive: boolean;
  readonly tries: Tries;
  readonly triesPerSecond: number;
};

export const HOSTILE: Bench = {
  name: "hostile",
  about: "Measures reads and subscriptions of one network while others try to exhaust the service.",
  cases: CASES.map(({ name }) => name),
  defaults: { rounds: "1", seconds: "600", connections: "1" },
  run: async (options, command) => {
    options.progress("creating the database");
    await using database = await createDatabase(SCHEMA);
    // Each attack alone is a case to look for a cause with.
    const chosen = { ...options, cases: options.cases ?? [ALL] };
    const measured = await sampleEach(CASES, chosen, (each) => measure(each, database, options), textOf);
    return report(measured, database.version, options, command);
  },
};

async function measure(
  { case: reads }: Measured<Sample>,
  database: BenchDatabase,
  { seconds, signal, progress }: BenchOptions,
): Promise<Sample> {
  await using server = await startServer(PROGRAM, database);
  const load = { address: server.address, requests: reads.requests(), rate: READ_RATE, connections: READ_CONNECTIONS };
  // A process that has just started is slow at first.
  await applyOpenLoad({ ...load, seconds: WARM_UP_SECONDS }, signal);
  const before = await applyOpenLoad({ ...load, seconds: BEFORE_SECONDS }, signal);
  progress(`before: p99 ${before.admittedP99.toFixed(1)} ms`);
  const arrivals = new Map<number, number>();
  const onArrival = (id: number) => void arrivals.set(id, (arrivals.get(id) ?? 0) + 1);
  const users = Array.from({ length: SUBSCRIBERS }, (_, i) => 1 + i);
  using _ = await openSubscribers(server.address, "events", users, { onArrival });
  const writer = await startWriter(database);
  const { pid } = server;
  forgetPeak(pid);
  const networks = await startNetworks(server.address, reads.name === ALL ? null : reads.name);
  const during = await applyOpenLoad({ ...load, seconds }, signal);
  const written = await writer.stop();
  const tries = await networks.stop();
  const peak = peakOf(pid);
  await sleep(SETTLE);
  const missing = written * SUBSCRIBERS - arrivals.values().reduce((sum, count) => sum + count, 0);
  const triesPerSecond = sumOf(Object.values(tries)) / seconds;
  const held = await heldBy(server);
  return { before, during, written, missing, peak, tries, triesPerSecond, held, isAlive: isRunning(pid) };
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0);

const WARM_UP_SECONDS = 10;
const BEFORE_SECONDS = Number(process.env.BEFORE ?? 30);

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Inserts a row again and again. */
async function startWriter({ ownerUrl }: BenchDatabase): Promise<{ stop(): Promise<number> }> {
  const client = new pg.Client({ connectionString: ownerUrl, options: "-c synchronous_commit=on" });
  await client.connect();
  const { rows } = await client.query("select coalesce(max(id), 0)::int as last from public.events");
  const first = rows[0].last + 1;
  let written = 0;
  let isOver = false;
  const writing = (async () => {
    while (!isOver) {
      await client.query("insert into public.events values ($1, $2)", [
        first + written++,
        "an event of some text ".repeat(4),
      ]);
      await sleep(WRITE_PAUSE);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await writing;
      await client.end();
      return written;
    },
  };
}

/** What the service says that it holds for clients. */
async function heldBy({ address }: RunningServer): Promise<string> {
  const text = await (await fetch(`${address}/metrics`)).text();
  return [...text.matchAll(/^content_service_client_memory_bytes\{kind="(\w+)"\} (\S+)$/gm)]
    .map(([, kind, bytes]) => `${kind} ${bytes}`)
    .join(", ");
}

const textOf = (sample: Sample) =>
  `p99 ${sample.before.admittedP99.toFixed(1)} → ${sample.during.admittedP99.toFixed(1)} ms, refused ` +
  `${(100 * sample.during.refused).toFixed(2)} %, ${sample.written} written, ${sample.missing} missing, peak ` +
  `${sample.peak.toFixed(0)} MB, held after it: ${sample.held}; tries: ${JSON.stringify(sample.tries)}`;

const goalsOf = ({ case: { name }, samples }: Measured<Sample>): Goal[] => {
  const goal = (about: string, aim: Goal["aim"], pick: (sample: Sample) => number): Goal => ({
    name: `${about}, ${name}`,
    aim,
    values: samples.map(pick),
  });
  return [
    goal("p99 of reads to before", atMost(3, 2), ({ before, during }) => during.admittedP99 / before.admittedP99),
    goal("reads to those that were due", atLeast(0.99), ({ during }) => during.admittedPerSecond / READ_RATE),
    goal("reads that were refused, in percent", atMost(0, 2), ({ during }) => 100 * during.refused),
    goal("changes that a subscriber did not get", atMost(0), ({ missing }) => missing),
    goal("peak of resident MB", atMost(700), ({ peak }) => peak),
    // Other work on the machine has kept the attackers from their work if they try less.
    ...(name === ALL
      ? [goal("tries of the attackers per second", atLeast(20), (sample) => sample.triesPerSecond)]
      : []),
    goal("ends of the process", atMost(0), ({ isAlive }) => (isAlive ? 0 : 1)),
  ];
};

/** Formats the measurements as Markdown. */
function report(
  measured: readonly Measured<Sample>[],
  databaseVersion: string,
  options: BenchOptions,
  command: string,
): string {
  return [
    heading("Hostile networks", command, databaseVersion),
    list([PROGRAM]),
    list(CASES),
    `Rounds: ${options.rounds}, ${options.seconds} s each, by ${ABOUT_NETWORKS}. Another network sends ${READ_RATE} reads of one row per ` +
      `second by ${USERS} users, and has ${SUBSCRIBERS} subscribers, each of which receives a change every ${WRITE_PAUSE} ms. The attackers ` +
      "run on the same machine, but only while a core is free (SCHED_IDLE): those of a real service are other machines. How often they " +
      "try is the last column.",
    "### Goals",
    goalsTable(measured.flatMap(goalsOf)),
    "### All numbers",
    table(
      ["attack", "p99 before ms", "p99 during ms", "reads/s", "refused %", "written", "missing", "peak MB", "tries"],
      measured.flatMap(rowsOf),
    ),
  ].join("\n\n");
}

const rowsOf = ({ case: { name }, samples }: Measured<Sample>): string[][] =>
  samples.map(({ before, during, written, missing, peak, tries }) => [
    name,
    before.admittedP99.toFixed(1),
    during.admittedP99.toFixed(1),
    during.admittedPerSecond.toFixed(0),
    (100 * during.refused).toFixed(2),
    String(written),
    String(missing),
    peak.toFixed(0),
    Object.entries(tries)
      .map(([attack, count]) => `${attack} ${count}`)
      .join(", "),
  ]);

import type { Case } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, type BenchDatabase, createDatabase } from "../database.ts";
import { atLeast, atMost, type Goal, goalsTable, spread } from "../figures.ts";
import { applyLoad, type LoadResult } from "../load.ts";
import { heading, list, table } from "../report.ts";
import { type Bench, type BenchOptions, type Measured, sampleEach } from "../rounds.ts";
import { ourCommand, type Program, startServer } from "../servers.ts";
import { applyOpenLoad, type OpenLoadResult } from "./open-load.ts";

const NO_LIMIT = "1000000";
const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it, with more connections for one IP address",
  base: "",
  command: (database, port) => ourCommand(database, port, { MAX_CONNECTIONS: NO_LIMIT }),
};

const SLEEP_MILLISECONDS = 50;
const SCHEMA = `
  create function public.slow() returns int language sql stable set search_path = '' as
    $$ select 1 from pg_catalog.pg_sleep(${SLEEP_MILLISECONDS / 1000}) $$;
  grant execute on function public.slow() to anon, authenticated;`;

/** Many users, because each may use only a part of the connections. */
const USERS = 50;

const caseOf = (name: string, about: string, pathOf: (i: number) => string): Case => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  requests: () => {
    const tokens = Array.from({ length: USERS }, (_, i) => bearer(1 + i));
    return Array.from({ length: USERS * 4 }, (_, i) => ({
      method: "GET" as const,
      path: pathOf(i),
      headers: { apikey: ANON_KEY, Authorization: tokens[i % USERS]! },
      body: null,
    }));
  },
});

const CASES: readonly Case[] = [
  caseOf(
    "wait",
    `\`GET /rest/v1/rpc/slow\`, which takes the database ${SLEEP_MILLISECONDS} ms`,
    () => "/rest/v1/rpc/slow",
  ),
  caseOf("row", "`GET /rest/v1/articles?id=eq.…`", (i) => `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`),
];

/** How much more than full load is sent: one after the other. */
const TIMES = [3, 10];
/** Open requests of the overload at a time. */
const MAX_OPEN = 2000;

/** `over` has a result for each of TIMES. */
type Sample = { readonly full: LoadResult; readonly over: readonly OpenLoadResult[] };
type Measurements = { readonly databaseVersion: string; readonly measured: readonly Measured<Sample>[] };

export const OVERLOAD: Bench = {
  name: "overload",
  about: `Sends ${TIMES.join(" and ")} times the requests that the service can handle, and measures those that it admits and those that it refuses.`,
  cases: CASES.map(({ name }) => name),
  defaults: { rounds: "3", seconds: "8", connections: "64" },
  run: async (options, command) => reportOverload(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  options.progress("creating the database");
  await using database = await createDatabase(SCHEMA);
  const measured = await sampleEach(CASES, options, (each) => measure(each, database, options), textOf);
  return { databaseVersion: database.version, measured };
}

async function measure(
  { case: each, connections }: Measured<Sample>,
  database: BenchDatabase,
  options: BenchOptions,
): Promise<Sample> {
  const { seconds, signal } = options;
  await using server = await startServer(PROGRAM, database);
  const load = { address: server.address, requests: each.requests() };
  await applyLoad({ ...load, refused: [], connections, seconds: WARM_UP_SECONDS }, signal);
  const full = await applyLoad({ ...load, refused: [], connections, seconds }, signal);
  const over: OpenLoadResult[] = [];
  for (const times of TIMES) {
    const rate = times * full.requestsPerSecond;
    const result = await applyOpenLoad({ ...load, rate, connections: MAX_OPEN, seconds }, signal);
    if (result.unexpected !== null) throw new Error(`the overloaded service responded with ${result.unexpected}`);
    over.push(result);
  }
  return { full, over };
}

const WARM_UP_SECONDS = 8;

const textOf = ({ full, over }: Sample) =>
  [
    `${full.requestsPerSecond.toFixed(0)}/s with p99 ${full.p99!.toFixed(0)} ms`,
    ...over.map(
      (each) =>
        `of ${each.sentPerSecond.toFixed(0)}/s ${each.admittedPerSecond.toFixed(0)}/s admitted with p99 ` +
        `${each.admittedP99.toFixed(0)} ms, refused with p99 ${each.refusedP99.toFixed(0)} ms`,
    ),
  ].join("; ");

/** Formats the measurements as Markdown. */
function reportOverload({ databaseVersion, measured }: Measurements, options: BenchOptions, command: string): string {
  return [
    heading("Overload", command, databaseVersion),
    list([PROGRAM]),
    list(CASES),
    `Rounds: ${options.rounds}, ${options.seconds} s each, each with a new process. Full load: as many connections as given, each sends the ` +
      `next request after a response. Overload: ${TIMES.join(" and ")} times the requests per second of full load, by ${USERS} users, at fixed times, ` +
      `whether earlier requests have been answered or not, but at most ${MAX_OPEN} open ones. Sent: what the load tool, which shares the ` +
      "cores, could send. Times from when a request was due.",
    "### Goals",
    "A goal is reached if the median of the rounds reaches it.",
    goalsTable(measured.flatMap(goalsOf)),
    "### All numbers",
    "Medians (minimum–maximum).",
    table(
      ["case", "connections", "full/s", "p99 ms", "times", "sent/s", "admitted/s", "p99 ms", "refused", "p99 ms"],
      measured.flatMap(rowsOf),
    ),
  ].join("\n\n");
}

const goalsOf = ({ case: { name }, connections, samples }: Measured<Sample>): Goal[] =>
  TIMES.flatMap((times, i) => [
    {
      name: `p99 of admitted requests to that of full load, ${name} at ${connections}, ${times} times`,
      aim: atMost(2, 2),
      values: samples.map(({ full, over }) => over[i]!.admittedP99 / full.p99!),
    },
    {
      name: `admitted requests to full load, ${name} at ${connections}, ${times} times`,
      aim: atLeast(0.5),
      values: samples.map(({ full, over }) => over[i]!.admittedPerSecond / full.requestsPerSecond),
    },
  ]);

const rowsOf = ({ case: { name }, connections, samples }: Measured<Sample>): string[][] =>
  TIMES.map((times, i) => {
    const ofFull = (pick: (full: LoadResult) => number, digits = 0) =>
      spread(
        samples.map(({ full }) => pick(full)),
        digits,
      );
    const ofOver = (pick: (over: OpenLoadResult) => number, digits = 0) =>
      spread(
        samples.map(({ over }) => pick(over[i]!)),
        digits,
      );
    return [
      name,
      String(connections),
      ofFull(({ requestsPerSecond }) => requestsPerSecond),
      ofFull(({ p99 }) => p99!, 1),
      String(times),
      ofOver(({ sentPerSecond }) => sentPerSecond),
      ofOver(({ admittedPerSecond }) => admittedPerSecond),
      ofOver(({ admittedP99 }) => admittedP99, 1),
      ofOver(({ refused }) => 100 * refused).replace(/^\S+/, "$& %"),
      ofOver(({ refusedP99 }) => refusedP99, 1),
    ];
  });

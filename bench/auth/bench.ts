import { hashPassword } from "../../rest-gateway/auth/passwords.ts";
import { assertAlike } from "../agreement.ts";
import type { Case } from "../case.ts";
import { createDatabase } from "../database.ts";
import {
  atLeast,
  type Goal,
  goalsTable,
  NUMBERS,
  numbersTable,
  type Ratio,
  ratios,
  ratiosTo,
  spread,
  worstOf,
} from "../figures.ts";
import { caveats, heading, list, table } from "../report.ts";
import {
  type Bench,
  type BenchOptions,
  type Contestant,
  chosenOf,
  contestantOf,
  runRounds,
  type Series,
} from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { ANONYMOUS, BEARER, CASES, KEY_OF_USER, PASSWORD, requestOf, signUp, WAYS, type Way } from "./cases.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "/rest/v1 of server.ts as `npm start` runs it, with GRAPHQL_MAX_TABLES=0",
  base: "/rest/v1",
  command: (database, port) => ourCommand(database, port, { GRAPHQL_MAX_TABLES: "0" }),
};

export type Measurements = { readonly databaseVersion: string; readonly series: readonly Series[] };

export const AUTH: Bench = {
  name: "auth",
  about: "Measures one request with each kind of credential beside the same with the anon key alone, at one process.",
  cases: CASES.map(({ name }) => name),
  run: async (options, command) => reportAuth(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = chosenOf(CASES, options);
  options.progress("making the database");
  await using database = await createDatabase("", signUp(await hashPassword(PASSWORD)));
  await using server = await startServer(PROGRAM, database);
  for (const each of cases) {
    await assertAlike(WAYS.map((way) => ({ server: { ...server, name: way.name }, asked: askedBy(way, each) })));
  }
  const contestants = WAYS.map((way) => contestantBy(way, server));
  const series = await runRounds({ contestants, cases, connections: options.connections, database }, options);
  return { databaseVersion: database.version, series };
}

function contestantBy(way: Way, server: RunningServer): Contestant {
  const contestant = contestantOf(server);
  return {
    ...contestant,
    name: way.name,
    apply: (asked, load, signal) => contestant.apply(askedBy(way, asked), load, signal),
  };
}

const askedBy = (way: Way, asked: Case): Case => ({ ...asked, requests: () => [requestOf(way.headers())] });

/** What the run says, as Markdown that is readable as it is. */
export function reportAuth({ databaseVersion, series }: Measurements, options: BenchOptions, command: string): string {
  const others = series.filter(({ contestant }) => contestant !== ANONYMOUS.name);
  const rows = others.map((mine) => [
    mine.case,
    String(mine.connections),
    mine.contestant,
    ...RATIOS.map(([, rival, figure]) => spread(ratiosTo(rival, mine, series, figure), 2)),
  ]);
  return [
    heading("Credentials", command, databaseVersion),
    list(WAYS),
    list(CASES),
    `${caveats(options)} All ask the same process.`,
    "### Goals",
    "A goal is reached by the median of the rounds.",
    goalsTable(goalsOf(series)),
    `### To the ${ANONYMOUS.name} alone`,
    "Medians of the rounds' ratios (least–most). Requests per second: above 1 is faster. CPU of the server's process for " +
      "each request, and p99: below 1 is lighter and quicker.",
    table(["case", "connections", "credential", ...RATIOS.map(([head]) => head)], rows),
    "### All numbers",
    NUMBERS,
    numbersTable(series),
  ].join("\n\n");
}

const RATIOS: readonly Ratio[] = [
  ["requests/s", ANONYMOUS.name, "requestsPerSecond"],
  ["CPU", ANONYMOUS.name, "serverCpu"],
  ["p99", ANONYMOUS.name, "p99"],
];

/** Requests per second to those of the anon key alone: what it may cost to know who asks. */
const SPEEDS: readonly (readonly [way: string, least: number])[] = [
  [BEARER.name, 0.95],
  [KEY_OF_USER.name, 0.9],
];

export const goalsOf = (series: readonly Series[]): Goal[] =>
  SPEEDS.map(([way, least]) => {
    const own = series.filter(({ contestant }) => contestant === way);
    const measure = ratios(ANONYMOUS.name, "requestsPerSecond", series);
    return worstOf(own, `requests/s of ${way} to ${ANONYMOUS.name}`, atLeast(least), measure);
  });

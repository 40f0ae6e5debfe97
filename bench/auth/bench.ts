import { hashPassword } from "../../rest-gateway/auth/passwords.ts";
import { assertSameAnswers } from "../agreement.ts";
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
  contestantOf,
  runRounds,
  type Series,
  selectCases,
} from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import {
  ANONYMOUS,
  BEARER,
  CASES,
  CREDENTIALS,
  type Credential,
  PASSWORD,
  requestOf,
  signUp,
  USER_KEY,
} from "./cases.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "/rest/v1 of server.ts as `npm start` runs it, with GRAPHQL_DOCUMENTS=none",
  base: "/rest/v1",
  command: (database, port) => ourCommand(database, port, { GRAPHQL_DOCUMENTS: "none" }),
};

export type Measurements = { readonly databaseVersion: string; readonly series: readonly Series[] };

export const AUTH: Bench = {
  name: "auth",
  about:
    "Measures one request with each kind of credential beside the same request with only the anon key, in one process.",
  cases: CASES.map(({ name }) => name),
  run: async (options, command) => reportAuth(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const cases = selectCases(CASES, options);
  options.progress("creating the database");
  await using database = await createDatabase("", signUp(await hashPassword(PASSWORD)));
  await using server = await startServer(PROGRAM, database);
  for (const each of cases) {
    await assertSameAnswers(
      CREDENTIALS.map((credential) => ({
        server: { ...server, name: credential.name },
        benchCase: caseWith(credential, each),
      })),
    );
  }
  const contestants = CREDENTIALS.map((credential) => contestantWith(credential, server));
  const series = await runRounds({ contestants, cases, connections: options.connections, database }, options);
  return { databaseVersion: database.version, series };
}

function contestantWith(credential: Credential, server: RunningServer): Contestant {
  const contestant = contestantOf(server);
  return {
    ...contestant,
    name: credential.name,
    apply: (benchCase, load, signal) => contestant.apply(caseWith(credential, benchCase), load, signal),
  };
}

const caseWith = (credential: Credential, benchCase: Case): Case => ({
  ...benchCase,
  requests: () => [requestOf(credential.headers())],
});

/** Formats the measurements as Markdown. */
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
    list(CREDENTIALS),
    list(CASES),
    `${caveats(options)} All requests go to the same process.`,
    "### Goals",
    "A goal is reached if the median of the turns reaches it.",
    goalsTable(goalsOf(series)),
    `### Ratios to only the ${ANONYMOUS.name}`,
    "Medians of the ratios of the turns (minimum–maximum). Requests per second: above 1 is faster. CPU of the server's process for " +
      "each request, and p99: below 1 is better.",
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

/** Minimum ratio of requests per second to those of only the anon key: the cost that identifying the caller may have. */
const SPEEDS: readonly (readonly [credential: string, least: number])[] = [
  [BEARER.name, 0.95],
  [USER_KEY.name, 0.9],
];

export const goalsOf = (series: readonly Series[]): Goal[] =>
  SPEEDS.map(([credential, least]) => {
    const own = series.filter(({ contestant }) => contestant === credential);
    const measure = ratios(ANONYMOUS.name, "requestsPerSecond", series);
    return worstOf(own, `requests/s of ${credential} to ${ANONYMOUS.name}`, atLeast(least), measure);
  });

import { hashPassword } from "../../rest-gateway/auth/passwords.ts";
import { assertAlike } from "../agreement.ts";
import { type Bench, chosenOf } from "../bench.ts";
import type { Case } from "../case.ts";
import { createDatabase } from "../database.ts";
import { type BenchOptions, type Contestant, contestantOf, runRounds, type Series } from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { CASES, PASSWORD, requestOf, signUp, WAYS, type Way } from "./cases.ts";
import { reportAuth } from "./report.ts";

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

import { type ServerCase, send } from "../agreement.ts";
import type { Case, HttpRequest } from "../case.ts";
import { type Contestant, contestantOf } from "../rounds.ts";
import { ourCommand, type Program, peer, type RunningServer } from "../servers.ts";
import { type CaseRequests, resourceRequests, tableRequests, type UserCase, uncountedRequests } from "./cases.ts";

const SETTINGS = { GRAPHQL_DOCUMENTS: "none" };

export const OURS: Program = {
  name: "ours",
  about: "/users of server.ts as `npm start` runs it, with GRAPHQL_DOCUMENTS=none",
  base: "",
  command: (database, port) => ourCommand(database, port, SETTINGS),
};

export const TABLES: Program = {
  ...OURS,
  name: "tables",
  about: "/rest/v1/users of a second process of the service, with `Prefer: count=exact` for the list",
  base: "/rest/v1",
};

export const EXPRESS = peer(
  "Express",
  "Express 5, jsonwebtoken, zod and node-pg, written by hand; row-level security in a transaction of four round trips",
  "users/servers/express.ts",
);

export const EXPRESS_ALONE = peer(
  "Express, no RLS",
  "the same as the owner of the tables, without a transaction: the handler checks the permission",
  "users/servers/express-without-rls.ts",
  { login: "ownerUrl" },
);

export const PROGRAMS: readonly Program[] = [OURS, TABLES, EXPRESS, EXPRESS_ALONE];

/** A contestant of this bench: a server, and how its requests are written. */
export type Entry = {
  readonly name: string;
  readonly about: string;
  readonly program: Program;
  requests(): CaseRequests;
};

const entry = (program: Program, requests: () => CaseRequests, own: Partial<Entry> = {}): Entry => ({
  name: program.name,
  about: program.about,
  program,
  requests,
  ...own,
});

/** Uses the process of TABLES. */
export const UNCOUNTED = entry(TABLES, uncountedRequests, {
  name: "tables, uncounted",
  about: "the list without its total, from the same process",
});

export const ENTRIES: readonly Entry[] = [
  entry(OURS, resourceRequests),
  entry(TABLES, tableRequests),
  UNCOUNTED,
  entry(EXPRESS, resourceRequests),
  entry(EXPRESS_ALONE, resourceRequests),
];

/** A contestant with the cases as its server understands them. */
export type UserContestant = Contestant & { readonly server: RunningServer; readonly own: ReadonlyMap<string, Case> };

/** Reads the ETags that the cases send back from the server. Several contestants may share one server. */
export async function userContestantOf(
  { name, requests }: Entry,
  server: RunningServer,
  cases: readonly UserCase[],
): Promise<UserContestant> {
  const all = requests();
  const own = new Map<string, Case>();
  for (const each of cases) {
    const requests = await requestsOf(each, all, server);
    if (requests !== null) own.set(each.name, { ...each, requests: () => requests });
  }
  const contestant = contestantOf(server);
  return {
    ...contestant,
    name,
    server,
    own,
    takes: (benchCase) => own.has(benchCase.name),
    apply: (benchCase, load, signal) => contestant.apply(own.get(benchCase.name)!, load, signal),
  };
}

/** Returns null if the server does not support the case. */
async function requestsOf({ name, repeats }: UserCase, all: CaseRequests, server: RunningServer) {
  const requests = all[repeats ?? name];
  if (requests === undefined || repeats === null) return requests?.slice() ?? null;
  const conditional: HttpRequest[] = [];
  for (const request of requests) {
    const headers = { ...request.headers, "If-None-Match": await tagOf(request, server) };
    conditional.push({ ...request, headers });
  }
  return conditional;
}

async function tagOf(request: HttpRequest, server: RunningServer): Promise<string> {
  const { head, body } = await send(request, server);
  const tag = /\r\netag: *(.*)/i.exec(head)?.[1];
  if (tag !== undefined) return tag;
  throw new Error(`an answer of "${server.name}" without a tag: ${head}\n${body}`);
}

/** The case as each contestant that supports it understands it. */
export const serverCasesOf = (contestants: readonly UserContestant[], { name }: UserCase): ServerCase[] =>
  contestants.flatMap(({ server, own }) => {
    const benchCase = own.get(name);
    return benchCase ? [{ server, benchCase }] : [];
  });

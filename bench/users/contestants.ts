import { type Question, send } from "../agreement.ts";
import type { Case, HttpRequest } from "../case.ts";
import { type Contestant, contestantOf } from "../rounds.ts";
import { ourCommand, type Program, peer, type RunningServer } from "../servers.ts";
import { resourceWords, tableWords, type UserCase, uncountedWords, type Words } from "./cases.ts";

const SETTINGS = { GRAPHQL_MAX_TABLES: "0" };

export const OURS: Program = {
  name: "ours",
  about: "/users of server.ts as `npm start` runs it, with GRAPHQL_MAX_TABLES=0",
  base: "",
  command: (database, port) => ourCommand(database, port, SETTINGS),
};

export const TABLES: Program = {
  ...OURS,
  name: "tables",
  about: "/rest/v1/users of another such process, with `Prefer: count=exact` for the list",
  base: "/rest/v1",
};

export const EXPRESS = peer(
  "Express",
  "Express 5, jsonwebtoken, zod and node-pg, written by hand; row-level security, with a transaction of four round trips",
  "users/servers/express.ts",
);

export const EXPRESS_ALONE = peer(
  "Express, no RLS",
  "the same as the tables' owner, without a transaction: who may write is decided in the handler",
  "users/servers/express-without-rls.ts",
  { login: "ownerUrl" },
);

export const PROGRAMS: readonly Program[] = [OURS, TABLES, EXPRESS, EXPRESS_ALONE];

/** Who takes part: a server, and how it is asked. */
export type Entry = {
  readonly name: string;
  readonly about: string;
  readonly program: Program;
  words(): Words;
};

const entry = (program: Program, words: () => Words, own: Partial<Entry> = {}): Entry => ({
  name: program.name,
  about: program.about,
  program,
  words,
  ...own,
});

/** Asked of the process of TABLES. */
export const UNCOUNTED = entry(TABLES, uncountedWords, {
  name: "tables, uncounted",
  about: "the list without its total, from the same process",
});

export const ENTRIES: readonly Entry[] = [
  entry(OURS, resourceWords),
  entry(TABLES, tableWords),
  UNCOUNTED,
  entry(EXPRESS, resourceWords),
  entry(EXPRESS_ALONE, resourceWords),
];

/** A contestant and the cases as its server is asked them. */
export type Guest = Contestant & { readonly server: RunningServer; readonly own: ReadonlyMap<string, Case> };

/** Asks the server for the tags that the cases send back. Several guests may share one server. */
export async function guestOf(
  { name, words }: Entry,
  server: RunningServer,
  cases: readonly UserCase[],
): Promise<Guest> {
  const all = words();
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
    takes: (asked) => own.has(asked.name),
    apply: (asked, load, signal) => contestant.apply(own.get(asked.name)!, load, signal),
  };
}

/** Null where the server can't be asked. */
async function requestsOf({ name, repeats }: UserCase, words: Words, server: RunningServer) {
  const asked = words[repeats ?? name];
  if (asked === undefined || repeats === null) return asked?.slice() ?? null;
  const conditional: HttpRequest[] = [];
  for (const request of asked) {
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

/** The case in the words of each guest that takes it. */
export const questionsOf = (guests: readonly Guest[], { name }: UserCase): Question[] =>
  guests.flatMap(({ server, own }) => {
    const asked = own.get(name);
    return asked ? [{ server, asked }] : [];
  });

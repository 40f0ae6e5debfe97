import { peer } from "../peer.ts";
import { ourCommand, type Program } from "../servers.ts";
import { resourceWords, tableWords, uncountedWords, type Words } from "./cases.ts";

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

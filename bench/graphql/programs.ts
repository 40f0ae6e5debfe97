import { peer } from "../peer.ts";
import { ourCommand, type Program } from "../servers.ts";

/** Ours and its peers. */
export const PROGRAMS: readonly Program[] = [
  {
    name: "ours",
    about: "server.ts as `npm start` runs it",
    base: "",
    command: ourCommand,
  },
  peer(
    "stock",
    "PostGraphile 5 with its own adaptor and server on Express, our contract plugins",
    "graphql/servers/stock-postgraphile.ts",
  ),
  peer(
    "hand-written",
    "node:http, graphql-js and node-pg, one statement for each operation",
    "graphql/servers/hand-written.ts",
  ),
];

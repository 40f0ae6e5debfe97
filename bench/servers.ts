import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import manifest from "../package.json" with { type: "json" };
import type { ServerSettings } from "./servers/settings.ts";

export type Contestant = {
  readonly name: "ours" | "stock" | "hand-written";
  readonly about: string;
  /** Arguments of node. */
  args(database: ServerDatabase): string[];
  /** All that the process finds in its environment: what is set in the caller's shell must not change the result. */
  environment(database: ServerDatabase): Record<string, string>;
};

/** Where a server finds the database; the port may be a proxy's. */
export type ServerDatabase = { readonly ownerUrl: string; readonly dataUrl: string };

export type RunningServer = AsyncDisposable & {
  readonly contestant: Contestant;
  /** The address of GraphQL. */
  readonly url: string;
  readonly pid: number;
};

export const SECRET = "a secret of the bench, long enough for HS256";
export const POOL_SIZE = 10;
const START_MILLISECONDS = 60_000;

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** `GRAPHILE_ENV=production node server.ts` → `{ GRAPHILE_ENV: "production" }` */
const assignmentsOf = (command: string): Record<string, string> =>
  Object.fromEntries([...command.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));

/** `node --max-semi-space-size=16 server.ts` → `["--max-semi-space-size=16"]` */
const flagsOf = (command: string): string[] => command.match(/--[\w=-]+/g) ?? [];

const peer = (name: Contestant["name"], about: string, path: string): Contestant => ({
  name,
  about,
  args: ({ dataUrl }) => {
    const settings: ServerSettings = { databaseUrl: dataUrl, poolSize: POOL_SIZE, secret: SECRET };
    return [fileOf(path), JSON.stringify(settings)];
  },
  environment: () => ({ GRAPHILE_ENV: "production", NODE_ENV: "production" }),
});

export const CONTESTANTS: readonly Contestant[] = [
  {
    name: "ours",
    about: "server.ts as `npm start` runs it",
    args: () => [...flagsOf(manifest.scripts.start), fileOf("../server.ts")],
    environment: ({ ownerUrl }) => ({
      ...assignmentsOf(manifest.scripts.start),
      DATABASE_URL: ownerUrl,
      DB_POOL: String(POOL_SIZE),
      JWT_SECRET: SECRET,
      PORT: "0",
    }),
  },
  peer(
    "stock",
    "PostGraphile 5 with its own adaptor and server on Express, our contract plugins",
    "servers/stock-postgraphile.ts",
  ),
  peer(
    "hand-written",
    "node:http, graphql-js and node-pg, one statement for each operation",
    "servers/hand-written.ts",
  ),
];

/** Starts a server as a process of its own; resolves when it has said its address. */
export async function startServer(contestant: Contestant, database: ServerDatabase): Promise<RunningServer> {
  const env = contestant.environment(database);
  const child = spawn(process.execPath, contestant.args(database), { env, stdio: ["ignore", "pipe", "inherit"] });
  const stop = () => end(child);
  try {
    const url = await announcedUrl(child, contestant.name);
    return { contestant, url, pid: child.pid!, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Takes the address from what the server prints; throws when it ends before it has said one. */
function announcedUrl(child: ChildProcess, name: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = "";
    const fail = (what: string) => reject(new Error(`the server "${name}" ${what}: ${printed}`));
    const timer = setTimeout(() => fail("does not start"), START_MILLISECONDS);
    child.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
      printed = (printed + chunk).slice(-10_000);
      const url = /http:\/\/\S+\/graphql\b/.exec(printed)?.[0];
      if (url) {
        clearTimeout(timer);
        resolve(url);
      }
    });
    child.once("exit", () => {
      clearTimeout(timer);
      fail("has ended");
    });
  });
}

const STOP_MILLISECONDS = 15_000;

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MILLISECONDS);
  await ended;
  clearTimeout(timer);
}

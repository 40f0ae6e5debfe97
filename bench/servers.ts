import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { findFreePort } from "../db/cluster/embedded.ts";
import { SECRET } from "./credentials.ts";
import type { ServerSettings } from "./peer-settings.ts";
import { cpuOf, familyOf, memoryOf } from "./process-usage.ts";

/** A server that can be started. */
export type Program = {
  readonly name: string;
  readonly about: string;
  /** The path of its interface: `/rest/v1`. */
  readonly base: string;
  command(database: ServerDatabase, port: number): Command;
};

export type Command = {
  readonly file: string;
  readonly args: readonly string[];
  /** The whole environment of the process: variables of the shell must not change the result. */
  readonly environment: Readonly<Record<string, string>>;
};

/** Where a server finds the database; the port may be a proxy's. */
export type ServerDatabase = { readonly ownerUrl: string; readonly dataUrl: string };

export type RunningServer = AsyncDisposable & {
  readonly name: string;
  /** The base URL of requests. */
  readonly address: string;
  /** That of the present process. */
  readonly pid: number;
  /** MB that were resident when the present process was idle after its start. */
  readonly idleMemory: number;
  /** Ends the process and starts another one at the same address. */
  restart(): Promise<void>;
  /** Stops the process until `resume`: a server that only follows the database must not take CPU from the one measured. */
  pause(): void;
  /** Resolves when the process has caught up with the database. */
  resume(): Promise<void>;
  /** The last output of the process. */
  recentOutput(): string;
};

/** Connections to the database that each server may have. */
export const POOL_SIZE = 10;

export const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The folder of the service, with `/` at its end. */
const ROOT = fileOf("../");

/** The service in `root` as `npm start` runs it. */
export function ourCommand(
  { ownerUrl }: ServerDatabase,
  port: number,
  settings: Readonly<Record<string, string>> = {},
  root: string = ROOT,
): Command {
  const { start } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).scripts;
  return {
    file: process.execPath,
    args: argumentsOf(start, root),
    environment: {
      ...assignmentsOf(start),
      DATABASE_URL: ownerUrl,
      DB_POOL: String(POOL_SIZE),
      JWT_SECRET: SECRET,
      PORT: String(port),
      // A process that is stopped between its measurements would leave a statement of the advisor running.
      ADVISOR: "off",
      // All requests come from one address: the limit is on, as by default, but never reached.
      RATE_LIMIT: "1000000",
      ...settings,
    },
  };
}

/** `GRAPHILE_ENV=production node server.ts` → `{ GRAPHILE_ENV: "production" }` */
const assignmentsOf = (command: string): Record<string, string> =>
  Object.fromEntries([...command.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));

/** `exec node --max-semi-space-size=16 server.ts` → `["--max-semi-space-size=16", "/…/server.ts"]` */
const argumentsOf = (command: string, root: string): string[] =>
  / node (.*)$/
    .exec(command)![1]!
    .split(" ")
    .map((argument) =>
      existsSync(join(root, argument)) ? join(root, argument) : argument.replace("=./", `=${join(root, "/")}`),
    );

/** Starts a server as a child process. Resolves when it is ready. */
export async function startServer(program: Program, database: ServerDatabase): Promise<RunningServer> {
  const port = await findFreePort();
  let running = await startProcess(program, database, port);
  return {
    name: program.name,
    address: `http://127.0.0.1:${port}${program.base}`,
    get pid() {
      return running.child.pid!;
    },
    get idleMemory() {
      return running.idleMemory;
    },
    async restart() {
      await end(running.child);
      running = await startProcess(program, database, port);
    },
    pause: () => signal(running.child, "SIGSTOP"),
    resume: () =>
      resume(running.child).catch((error) => {
        throw new Error(`the server "${program.name}" ${error.message}: ${running.recentOutput()}`);
      }),
    recentOutput: () => running.recentOutput(),
    [Symbol.asyncDispose]: () => end(running.child),
  };
}

type RunningProcess = {
  readonly child: ChildProcess;
  /** MB that were resident when it was idle after its start. */
  readonly idleMemory: number;
  recentOutput(): string;
};

/** How long a server that is ready needs to end the work of its start, and to free its memory. */
const IDLE_MILLISECONDS = 3000;

async function startProcess(program: Program, database: ServerDatabase, port: number): Promise<RunningProcess> {
  const { file, args, environment } = program.command(database, port);
  const child = spawn(file, args, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  const kill = () => signal(child, "SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  const recentOutput = collectOutput(child);
  try {
    await untilReady(child, `http://127.0.0.1:${port}/health`);
    await resume(child);
    await setTimeout(IDLE_MILLISECONDS);
  } catch (error) {
    await end(child);
    throw new Error(`the server "${program.name}" did not start: ${recentOutput()}`, { cause: error });
  }
  return { child, idleMemory: memoryOf(child.pid!), recentOutput };
}

function collectOutput(child: ChildProcess): () => string {
  let printed = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      printed = (printed + text).slice(-10_000);
    });
  }
  return () => printed;
}

/** On a busy machine, several that start at the same time are slow. */
const START_MILLISECONDS = 180_000;
const NOT_READY = 503;

/** Sends requests until the status is not 503; peers without this path respond with 404 when they are ready. Throws if the server ends or takes too long. */
async function untilReady(child: ChildProcess, url: string): Promise<void> {
  await once(child, "spawn");
  const deadline = Date.now() + START_MILLISECONDS;
  while ((await statusOf(url)) === NOT_READY) {
    if (hasEnded(child)) throw new Error("the process ended");
    if (Date.now() > deadline) throw new Error("it did not become ready in time");
    await setTimeout(50);
  }
}

/** A server that does not listen is not ready. */
const statusOf = (url: string): Promise<number> =>
  fetch(url).then(
    async (response) => {
      await response.arrayBuffer();
      return response.status;
    },
    () => NOT_READY,
  );

const REST_MILLISECONDS = 100;
const MAX_WAIT_MILLISECONDS = 60_000;

/** Continues the process and waits until it has caught up: it then uses less than a tenth of a core. */
async function resume(child: ChildProcess): Promise<void> {
  signal(child, "SIGCONT");
  const deadline = Date.now() + MAX_WAIT_MILLISECONDS;
  for (;;) {
    const before = cpuOf(child.pid!);
    await setTimeout(REST_MILLISECONDS);
    if (cpuOf(child.pid!) - before <= REST_MILLISECONDS * 100) return;
    if (hasEnded(child)) throw new Error("ended");
    if (Date.now() > deadline) throw new Error("keeps using CPU");
  }
}

/** Sends a signal to the server and its workers. */
function signal(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined || hasEnded(child)) return;
  for (const pid of familyOf(child.pid)) process.kill(pid, name);
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

const STOP_MILLISECONDS = 15_000;

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const ended = once(child, "exit");
  signal(child, "SIGCONT");
  child.kill("SIGTERM");
  const late = new AbortController();
  setTimeout(STOP_MILLISECONDS, null, late).then(
    () => signal(child, "SIGKILL"),
    () => {},
  );
  await ended;
  late.abort();
}

export type PeerOptions = {
  /** The login of its connections, unless it is that of the pools for callers. */
  readonly login?: keyof ServerDatabase;
};

/** A server of the bench's own to compare with; `file` is its module, relative to `bench`. */
export const peer = (name: string, about: string, file: string, { login = "dataUrl" }: PeerOptions = {}): Program => ({
  name,
  about,
  base: "",
  command: (database, port) => {
    const settings: ServerSettings = { databaseUrl: database[login], poolSize: POOL_SIZE, secret: SECRET, port };
    return {
      file: process.execPath,
      args: [fileOf(file), JSON.stringify(settings)],
      environment: { GRAPHILE_ENV: "production", NODE_ENV: "production" },
    };
  },
});

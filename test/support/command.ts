import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { onTestFinished, vi } from "vitest";
import { runningUrl } from "../../cli/command.ts";
import { argumentsOf, kill, processesBelow, processesNamed } from "./processes.ts";
import { POLL } from "./until.ts";

export const PROJECT = fileURLToPath(new URL("../..", import.meta.url));

export type Settings = Readonly<Record<string, string>>;
export type StartOptions = {
  readonly dataDir: string;
  readonly settings?: Settings;
  readonly args?: readonly string[];
  readonly as?: { uid: number; gid: number };
  /** Shared by several tests: the test that starts it calls `end()`. */
  readonly shared?: boolean;
};

/** `npm start`, as an operator runs it. */
export const npmStart = ({ args = [], ...options }: StartOptions): Command =>
  start("npm", args.length > 0 ? ["start", "--silent", "--", ...args] : ["start"], { ...options, serves: true });

/** The command of `npm start` without the time that npm takes. */
export const nodeStart = (options: Omit<StartOptions, "args">): Command =>
  start(process.execPath, [BINARY, "start", "demo"], { ...options, serves: true });

/** `npx content-service dev`, for the application in this folder. */
export const devStart = ({ folder, ...options }: Omit<StartOptions, "args"> & { readonly folder: string }): Command =>
  start(process.execPath, [BINARY, "dev", folder], { ...options, serves: true });

/** `npx content-service start`, for the application in this folder. */
export const applicationStart = ({
  folder,
  ...options
}: Omit<StartOptions, "args"> & { readonly folder: string }): Command =>
  start(process.execPath, [BINARY, "start", folder], { ...options, serves: true });

/** `npm start` in a terminal, which is closed when the child process is killed: its output is the text for people. */
export const terminalStart = (options: Omit<StartOptions, "args">): Command =>
  start("script", ["--quiet", "--return", "--command", `exec node ${BINARY} start demo`, "/dev/null"], {
    ...options,
    serves: true,
  });

/** `npx content-service types`; its output is complete when `exited()` has resolved. */
export const npmTypes = ({ args = [], ...options }: StartOptions): Command =>
  start("npm", ["run", "--silent", "types", "--", ...args], options);

/** Runs `content-service user` or another command without npm. `input` is its standard input. */
export const nodeRun = (
  command: "start" | "types" | "user" | "key" | "ready" | "parts",
  { args = [], input = "", ...options }: StartOptions & { readonly input?: string },
): Command =>
  start(process.execPath, [BINARY, command, ...args], {
    ...options,
    settings: { APPLICATION: "demo", ...options.settings },
    input,
  });

const BINARY = "cli/content-service.ts";

type SpawnOptions = Omit<StartOptions, "args"> & {
  readonly input?: string;
  /** Whether it becomes the only service on this data directory. */
  readonly serves?: boolean;
};

/** Starts a command in a new process group, as a terminal does, with only these settings. */
function start(program: string, args: readonly string[], options: SpawnOptions): Command {
  const { dataDir, settings = {}, as, shared = false, input, serves = false } = options;
  const path = (process.env.PATH ?? "").split(":").filter((entry) => !entry.includes("node_modules"));
  // The Node of node_modules, as npm would choose.
  if (program === "script") path.unshift(dirname(process.execPath));
  const child = spawn(program, args, {
    cwd: PROJECT,
    detached: true,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    env: {
      PATH: path.join(":"),
      // npm writes its logs there.
      HOME: dirname(dataDir),
      npm_config_update_notifier: "false",
      PORT: "0",
      RATE_LIMIT: "0",
      DATA_DIR: dataDir,
      // Requests may wait for the lock of a test.
      DB_STATEMENT_TIMEOUT: "0",
      // On a busy machine a stop may take longer than the 20 seconds after which the process would end with exit code 1.
      DRAIN_TIMEOUT: "60000",
      ...settings,
    },
    ...as,
  });
  // It may have ended before this listener was added.
  child.stdin?.on("error", () => {}).end(input);
  const command = new Command(child, dataDir, serves);
  if (!shared) onTestFinished(() => command.end());
  return command;
}

/** A running command. Its processes are killed at the end of the test, unless it is shared. */
export class Command {
  readonly child: ChildProcess;
  stdout = "";
  stderr = "";
  readonly #dataDir: string;
  readonly #serves: boolean;
  readonly #exited: Promise<number | string>;

  constructor(child: ChildProcess, folderOfData: string, serves: boolean) {
    this.child = child;
    this.#dataDir = folderOfData;
    this.#serves = serves;
    child.stdout!.setEncoding("utf8").on("data", (text) => {
      this.stdout += text;
    });
    child.stderr!.setEncoding("utf8").on("data", (text) => {
      this.stderr += text;
    });
    this.#exited = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal ?? "")));
  }

  /** Waits until the command has printed the table of URLs. */
  async ready(): Promise<void> {
    const ended = this.#exited.then(() => true);
    while (!this.banner.has("Health")) {
      const hasEnded = await Promise.race([ended, once(this.child.stdout!, "data")]);
      if (hasEnded === true) throw new Error(`not started: ${this.stdout}${this.stderr}`);
    }
  }

  /** The exit code, or the name of the signal that ended the process. */
  exited(): Promise<number | string> {
    return Promise.race([this.#exited, setTimeout(POLL.timeout, "still running", { ref: false })]);
  }

  /** The table: `GraphQL` → `http://127.0.0.1:3000/graphql`. */
  get banner(): Map<string, string> {
    const rows = this.stdout.split("\n").map((line) => /^ {2}(\S.*?) {2,}(\S.*)$/.exec(line));
    return new Map(rows.filter((row) => row !== null).map(([, name, value]) => [name!, value!]));
  }

  get url(): string {
    return this.banner.get("Health")!.replace(/\/health$/, "");
  }

  /** The logged lines: all complete lines except those of npm and of the table. */
  get logged(): Record<string, any>[] {
    const lines = this.stdout
      .split("\n")
      .slice(0, -1)
      .filter((line) => line !== "" && !line.startsWith("> ") && !line.startsWith("  "));
    return lines.map((line) => JSON.parse(line));
  }

  /** The Node process below npm. */
  get pid(): number {
    const pids = [this.child.pid!, ...processesBelow(this.child.pid!)];
    const node = pids.find((pid) => /^\S*node (\S+ )*\S*\/server\.ts( demo)?$/.test(argumentsOf(pid)));
    if (node === undefined) throw new Error("the service does not run");
    return node;
  }

  /** As Ctrl-C does: to all processes of the group. */
  interrupt(): void {
    kill(-this.child.pid!, "SIGINT");
  }

  /** Kills the remaining processes, also of its database server. */
  async end(): Promise<void> {
    kill(-this.child.pid!, "SIGKILL");
    if (this.#serves) await vi.waitUntil(() => !this.#killServer(), POLL);
  }

  /** Whether any process was left. */
  #killServer(): boolean {
    const left = processesNamed(this.#dataDir);
    for (const pid of left) kill(pid, "SIGKILL");
    return left.length > 0;
  }

  async gql(
    query: string,
    { token, headers }: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<any> {
    const response = await fetch(`${this.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }), ...headers },
      body: JSON.stringify({ query }),
    });
    return response.json();
  }

  async login(username = "ada", password = "Correct-Horse-7!"): Promise<string> {
    const response = await fetch(`${this.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username, password }),
    });
    return ((await response.json()) as any).accessToken;
  }

  /** Runs SQL on the embedded database as its owner. */
  async dba(sql: string): Promise<any[]> {
    const client = await this.#connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** Makes all requests for the table wait until the returned function is called or the server ends. */
  async block(table: string): Promise<() => Promise<void>> {
    const client = await this.#connect();
    client.on("error", () => {});
    await client.query(`begin; lock table ${table} in access exclusive mode`);
    return () => client.end();
  }

  /** Requests that wait for a table. */
  async blocked(): Promise<number> {
    const query = "select from pg_stat_activity where wait_event_type = 'Lock' and backend_type = 'client backend'";
    return (await this.dba(query)).length;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: runningUrl(this.#dataDir)! });
    await client.connect();
    return client;
  }
}

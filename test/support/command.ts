import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished } from "vitest";

export const PROJECT = new URL("../..", import.meta.url).pathname;
export const POLL = { timeout: 30_000, interval: 25 };

export type Settings = Readonly<Record<string, string>>;
export type StartOptions = {
  readonly dataDir: string;
  readonly settings?: Settings;
  readonly args?: readonly string[];
  readonly as?: { uid: number; gid: number };
};

/** `npm start`, as an operator types it. */
export const npmStart = ({ args = [], ...options }: StartOptions): Command =>
  npm(args.length > 0 ? ["start", "--silent", "--", ...args] : ["start"], options);

/** `npm run -s types`; its output is whole once `exited()` has resolved. */
export const npmTypes = ({ args = [], ...options }: StartOptions): Command =>
  npm(["run", "--silent", "types", "--", ...args], options);

/** `node user.ts`, or another of the commands, without the seconds that npm takes; `input` is what is piped to it. */
export const nodeRun = (
  script: string,
  { args = [], input = "", ...options }: StartOptions & { readonly input?: string },
): Command => start(process.execPath, [`${script}.ts`, ...args], options, input);

const npm = (args: readonly string[], options: StartOptions): Command => start("npm", args, options);

/** In a group of its own, as a terminal gives it, with nothing but these settings. */
function start(
  program: string,
  args: readonly string[],
  { dataDir, settings = {}, as }: StartOptions,
  input?: string,
): Command {
  const path = (process.env.PATH ?? "").split(":").filter((entry) => !entry.includes("node_modules"));
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
      ...settings,
    },
    ...as,
  });
  // It may have ended without a look at it.
  child.stdin?.on("error", () => {}).end(input);
  return new Command(child, dataDir);
}

/** One run of the command. What is left of it is killed with the test. */
export class Command {
  readonly child: ChildProcess;
  readonly startedAt = performance.now();
  stdout = "";
  stderr = "";
  readonly #dataDir: string;
  readonly #exited: Promise<number | string>;

  constructor(child: ChildProcess, folderOfData: string) {
    this.child = child;
    this.#dataDir = folderOfData;
    child.stdout!.setEncoding("utf8").on("data", (text) => {
      this.stdout += text;
    });
    child.stderr!.setEncoding("utf8").on("data", (text) => {
      this.stderr += text;
    });
    this.#exited = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal ?? "")));
    onTestFinished(() => this.#clear());
  }

  /** Waits for the table; resolves to the milliseconds that it took. */
  async ready(): Promise<number> {
    await expect.poll(() => this.banner.has("Health") || this.child.exitCode !== null, POLL).toBe(true);
    if (!this.banner.has("Health")) throw new Error(`not started: ${this.stdout}${this.stderr}`);
    return Math.round(performance.now() - this.startedAt);
  }

  /** The exit code; otherwise the name of the signal that ended it, or that nothing did. */
  exited(): Promise<number | string> {
    return Promise.race([this.#exited, setTimeout(POLL.timeout, "still running", { ref: false })]);
  }

  /** The table: `GraphQL` → `http://127.0.0.1:3000/graphql`. */
  get banner(): Map<string, string> {
    const rows = this.stdout.split("\n").map((line) => /^ {2}(\S.*?) {2,}(\S.*)$/.exec(line));
    return new Map(rows.filter((row) => row !== null).map(([, name, value]) => [name!, value!]));
  }

  get url(): string {
    return this.banner.get("GraphQL")!.replace(/\/graphql$/, "");
  }

  /** What was logged: each line that is neither npm's nor the table's. */
  get logged(): Record<string, any>[] {
    const lines = this.stdout
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("> ") && !line.startsWith("  "));
    return lines.map((line) => JSON.parse(line));
  }

  /** The process of node below npm. */
  get pid(): number {
    const below = (parent: number): number[] => {
      const { stdout } = spawnSync("ps", ["-o", "pid=", "--ppid", String(parent)], { encoding: "utf8" });
      return stdout.trim().split(/\s+/).filter(Boolean).map(Number);
    };
    for (let pids = [this.child.pid!]; pids.length > 0; pids = pids.flatMap(below)) {
      const node = pids.find((pid) => /^\S*node (\S+ )*server\.ts$/.test(argumentsOf(pid)));
      if (node !== undefined) return node;
    }
    throw new Error("the service does not run");
  }

  /** As Ctrl-C: to all processes of the group. */
  interrupt(): void {
    kill(-this.child.pid!, "SIGINT");
  }

  async #clear(): Promise<void> {
    for (const pid of [...processesNamed("server.ts", this.child.pid!), ...processesNamed(this.#dataDir)])
      kill(pid, "SIGKILL");
    kill(-this.child.pid!, "SIGKILL");
    await expect.poll(() => processesNamed(this.#dataDir), POLL).toEqual([]);
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

  /** What a DBA types into psql, on the embedded database. */
  async dba(sql: string): Promise<any[]> {
    const password = readFileSync(join(this.#dataDir, "postgres-password"), "utf8").trim();
    const port = readFileSync(join(this.#dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[3];
    const client = new pg.Client({ connectionString: `postgres://postgres:${password}@127.0.0.1:${port}/content` });
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  }
}

export function argumentsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}

/** The processes with this text in their arguments; of one group only, when given. */
export function processesNamed(text: string, group?: number): number[] {
  const lines = execFileSync("ps", ["-eww", "-o", "pid=,pgid=,stat=,args="], { encoding: "utf8" }).trim().split("\n");
  return lines
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line)!)
    .filter(
      ([, , pgid, state, args]) =>
        !state!.startsWith("Z") && args!.includes(text) && (group === undefined || Number(pgid) === group),
    )
    .map(([, pid]) => Number(pid));
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has gone by itself.
  }
}

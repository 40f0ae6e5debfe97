import { readdir, rm } from "node:fs/promises";
import { createServer, type ListenOptions } from "node:net";
import { join } from "node:path";

/** Where the embedded server listens on TCP. */
export const HOST = "127.0.0.1";

/** Bytes of the path of a Unix socket: what the kernel of Linux takes. Others take 103. */
const MAX_SOCKET_PATH = process.platform === "linux" ? 107 : 103;

/** The names that PostgreSQL gives to its sockets and their lock files. */
const SOCKET = ".s.PGSQL.";

/**
 * Whether the server can have a Unix socket in its data directory, which only its own user may enter. Not if the path is too long or
 * has a quotation mark, nor on a file system without sockets, such as a folder that a virtual machine shares with its host.
 */
export async function canHaveSocket(dataDir: string, port: number): Promise<boolean> {
  const path = join(dataDir, SOCKET + port);
  const isUsable = Buffer.byteLength(path) <= MAX_SOCKET_PATH && !path.includes('"');
  return isUsable && canListen({ path });
}

/** Removes the sockets of servers that were killed. Their lock files could name a process that runs now. */
export async function removeSockets(dataDir: string): Promise<void> {
  const names = await readdir(dataDir).catch(() => []);
  await Promise.all(
    names.filter((name) => name.startsWith(SOCKET)).map((name) => rm(join(dataDir, name), { force: true })),
  );
}

/** Whether a port is free, or a socket can be made at a path. */
export function canListen(address: ListenOptions): Promise<boolean> {
  const server = createServer();
  return new Promise((answer) => {
    server.once("error", () => answer(false));
    server.listen(address, () => server.close(() => answer(true)));
  });
}

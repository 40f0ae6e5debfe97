import cluster from "node:cluster";
import { createServer, type Server } from "node:http";
import { isIPv6 } from "node:net";

export type Address = { readonly host: string; readonly port: number };

/**
 * Linux spreads connections over the processes that listen on one port, and takes those of a process that was killed down
 * with it. Elsewhere node:cluster hands connections on, and some would hang for ever.
 */
const reusePort = cluster.isWorker && process.platform === "linux";

/** Rejects when the port is taken. */
export function listen(server: Server, { host, port }: Address): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, reusePort }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** The port that processes are to share, a free one for 0. Rejects when somebody else has it. */
export async function findSharedPort(address: Address): Promise<number> {
  const server = createServer();
  await listen(server, address);
  const port = portOf(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function portOf(server: Server): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** Every address of the machine is none that a client could use: this machine's own stands for them. */
export function urlOf({ host, port }: Address): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${isIPv6(name) ? `[${name}]` : name}:${port}`;
}

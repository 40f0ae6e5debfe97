import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A proxy in front of Postgres that counts how often clients wait for it. */
export type CountingProxy = AsyncDisposable & {
  readonly port: number;
  /** Groups of messages so far that end in Sync, or are a simple Query: each is a wait, though some run side by side. */
  waits(): number;
};

export async function startCountingProxy(port: number): Promise<CountingProxy> {
  let waits = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const database = connect(port, "127.0.0.1");
    const count = waitCounter();
    for (const [from, to] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(from);
      from.setNoDelay();
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    client.on("data", (chunk) => {
      waits += count(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    waits: () => waits,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const SYNC = 0x53; // "S"
const QUERY = 0x51; // "Q"

/**
 * Counts Sync and Query in what one client sends, however it is cut into chunks.
 * Source: PostgreSQL docs, "Message Formats": type and length, but the first message has no type.
 */
function waitCounter(): (chunk: Buffer) => number {
  let rest: Buffer = Buffer.alloc(0);
  let typeBytes = 0;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    let found = 0;
    while (rest.length >= typeBytes + 4) {
      const end = typeBytes + rest.readUInt32BE(typeBytes);
      if (rest.length < end) break;
      if (typeBytes === 1 && (rest[0] === SYNC || rest[0] === QUERY)) found++;
      rest = rest.subarray(end);
      typeBytes = 1;
    }
    return found;
  };
}

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { BenchDatabase } from "./database.ts";
import type { ServerDatabase } from "./servers.ts";

/** A proxy in front of Postgres that reads the messages of clients. */
export type DatabaseProxy = AsyncDisposable & { readonly database: ServerDatabase };

/** Calls `onConnection` for each connection, and the function that it returns for the messages that the client has sent together. */
export async function startProxy(
  { port, ownerUrl, dataUrl }: BenchDatabase,
  onConnection: () => (messages: readonly Message[]) => void,
): Promise<DatabaseProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const database = connect(port, "127.0.0.1");
    join(client, database, sockets);
    const hear = onConnection();
    const messagesIn = messageReader();
    client.on("data", (chunk) => hear(messagesIn(chunk)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const own = (server.address() as AddressInfo).port;
  return {
    database: { ownerUrl: withPort(ownerUrl, own), dataUrl: withPort(dataUrl, own) },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function join(client: Socket, database: Socket, sockets: Set<Socket>): void {
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
}

function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

/** `type` is its letter: `P` is Parse; "" where there is none. */
export type Message = { readonly type: string; readonly content: Buffer };

const LENGTH_BYTES = 4;
/** Requests for TLS or GSSAPI encryption. The next message is again a first message, without a type. */
const ENCRYPTION_REQUESTS = [80877103, 80877104];

/**
 * Splits the bytes of one client into messages, in chunks of any size.
 * Source: PostgreSQL docs, "Message Formats": type and length, but the first message has no type.
 */
function messageReader(): (chunk: Buffer) => Message[] {
  let rest: Buffer = Buffer.alloc(0);
  let typeBytes = 0;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const messages: Message[] = [];
    while (rest.length >= typeBytes + LENGTH_BYTES) {
      const end = typeBytes + rest.readUInt32BE(typeBytes);
      if (rest.length < end) break;
      const content = rest.subarray(typeBytes + LENGTH_BYTES, end);
      messages.push({ type: rest.toString("latin1", 0, typeBytes), content });
      rest = rest.subarray(end);
      if (typeBytes === 1 || !ENCRYPTION_REQUESTS.includes(content.readUInt32BE())) typeBytes = 1;
    }
    return messages;
  };
}

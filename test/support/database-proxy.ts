import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** The types of the messages in a protocol stream: `PBES`. The client's first message has no type. */
class MessageTypes {
  types = "";
  #bytes = Buffer.alloc(0);
  #untyped: boolean;

  constructor(untyped: boolean) {
    this.#untyped = untyped;
  }

  add(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    for (;;) {
      const header = this.#untyped ? 0 : 1;
      if (this.#bytes.length < header + 4) return;
      const length = header + this.#bytes.readUInt32BE(header);
      if (this.#bytes.length < length) return;
      if (!this.#untyped) this.types += String.fromCharCode(this.#bytes[0]!);
      this.#untyped = false;
      this.#bytes = this.#bytes.subarray(length);
    }
  }
}

/** A proxy between the gateway and the database that counts messages and breaks connections. */
export class DatabaseProxy {
  readonly client = new MessageTypes(true);
  readonly server = new MessageTypes(false);
  writes = 0;
  url = "";
  readonly #sockets: Socket[] = [];
  #held: Buffer[] | null = null;
  readonly #target: URL;
  readonly #listener = createServer((socket) => this.#pass(socket));

  /** To this database. */
  constructor(databaseUrl: string) {
    this.#target = new URL(databaseUrl);
  }

  /** Listens on a free port, or on a Unix socket in the folder. */
  async start(folder?: string): Promise<this> {
    const { username, password, pathname } = this.#target;
    this.#listener.listen(folder ? { path: join(folder, ".s.PGSQL.5432") } : { port: 0, host: "127.0.0.1" });
    await once(this.#listener, "listening");
    const address = this.#listener.address() as string | AddressInfo;
    const host = typeof address === "string" ? encodeURIComponent(folder!) : `127.0.0.1:${address.port}`;
    this.url = `postgres://${username}:${password}@${host}${pathname}`;
    onTestFinished(() => {
      this.#listener.close();
      for (const socket of this.#sockets) socket.destroy();
    });
    return this;
  }

  /** Passes nothing to the client until the server closes the connection, then all at once. */
  hold(): void {
    this.#held = [];
  }

  /** Ends all connections like a crash: with RST, which the client sees as ECONNRESET. */
  reset(): void {
    for (const socket of this.#sockets.splice(0)) socket.resetAndDestroy();
  }

  /** Ends all connections like a proxy that shuts down: with FIN. */
  end(): void {
    for (const socket of this.#sockets.splice(0)) socket.end();
  }

  #pass(socket: Socket): void {
    const { hostname, port } = this.#target;
    const upstream = connect(Number(port), hostname);
    this.#sockets.push(socket, upstream);
    for (const each of [socket, upstream]) each.on("error", () => {});
    socket.on("data", (chunk) => {
      this.writes++;
      this.client.add(chunk);
    });
    upstream.on("data", (chunk) => {
      this.server.add(chunk);
      if (this.#held) this.#held.push(chunk);
      else socket.write(chunk);
    });
    upstream.on("end", () => {
      socket.end(Buffer.concat(this.#held ?? []));
      this.#held = null;
    });
    socket.pipe(upstream);
  }
}

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A network between clients and a server, whose connections are cut without a goodbye. */
export class Relay implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  /** The URL of the server that new connections reach; null if there is none. */
  target: string | null;

  private constructor(target: string) {
    this.target = target;
    this.#server = createServer((client) => this.#pass(client));
  }

  /** `url` is that of the server. */
  static async open(url: string): Promise<Relay> {
    const relay = new Relay(url);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** What clients of HTTP connect to. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The bytes that are on their way are lost. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The connections stay open, but nothing passes any more. New ones are not affected. */
  silence(): void {
    for (const socket of this.#sockets) socket.removeAllListeners("close").unpipe().pause();
  }

  /** Nothing passes on the connections of now, until the returned function is called. New ones are not affected. */
  hold(): () => void {
    const held = [...this.#sockets];
    for (const socket of held) socket.pause();
    return () => {
      for (const socket of held) socket.resume();
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  #pass(client: Socket): void {
    if (this.target === null) return void client.destroy();
    const target = new URL(this.target);
    const server = connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.setNoDelay();
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}

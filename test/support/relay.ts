import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A network between clients and the service, whose connections a test cuts without a goodbye. */
export class Relay {
  readonly #sockets = new Set<Socket>();
  /** What clients connect to. */
  url = "";
  /** The URL of the service that new connections reach; null if there is none. */
  target: string | null = null;

  /** `url` is that of the service. It is closed at the end of the test. */
  static async open(url: string): Promise<Relay> {
    const relay = new Relay();
    relay.target = url;
    const server = createServer((client) => {
      if (relay.target === null) return void client.destroy();
      const target = new URL(relay.target);
      const service = connect(Number(target.port), target.hostname);
      for (const [from, to] of [
        [client, service],
        [service, client],
      ] as const) {
        relay.#sockets.add(from);
        from.on("error", () => {});
        from.on("close", () => {
          relay.#sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      relay.cut();
      server.close();
    });
    relay.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return relay;
  }

  /** The bytes that are on their way are lost. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

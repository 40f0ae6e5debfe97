import { once } from "node:events";
import { onTestFinished } from "vitest";
import { WebSocket } from "ws";
import type { TestService } from "./service.ts";
import { recorded } from "./transcript.ts";

const RecordedSocket = recorded(WebSocket);

/** A realtime client that joins channels and sends messages as a test says, from an address of its own. */
export class ChannelClient {
  readonly socket: WebSocket;
  /** The code of the close frame; 1006 without one, null while the socket is open. */
  closed: number | null = null;
  readonly #replies = new Map<string, (payload: any) => void>();
  #ref = 0;

  constructor({ url, service }: TestService, localAddress: string, headers: Readonly<Record<string, string>> = {}) {
    const path = `/realtime/v1/websocket?apikey=${service.tokens.issueKey("anon")}&vsn=2.0.0`;
    this.socket = new RecordedSocket(`${url.replace("http", "ws")}${path}`, { localAddress, headers });
    onTestFinished(() => this.socket.terminate());
    this.socket.on("error", () => {});
    this.socket.on("close", (code) => {
      this.closed = code;
    });
    this.socket.on("message", (data) => {
      const [, ref, , event, payload] = JSON.parse(String(data));
      if (event === "phx_reply") this.#replies.get(ref)?.(payload);
    });
  }

  async open(): Promise<this> {
    await once(this.socket, "open");
    return this;
  }

  /** Sends an event to a topic and resolves to the payload of its reply. */
  ask(topic: string, event: string, payload: object = {}): Promise<any> {
    const ref = String(++this.#ref);
    const reply = new Promise((resolve) => this.#replies.set(ref, resolve));
    this.#send(ref, topic, event, payload);
    return reply;
  }

  /** Sends an event without waiting for the reply. */
  tell(topic: string, event: string, payload: object = {}): void {
    this.#send(null, topic, event, payload);
  }

  #send(ref: string | null, topic: string, event: string, payload: object): void {
    this.socket.send(JSON.stringify([topic, ref, `realtime:${topic}`, event, payload]));
  }
}

import type { IncomingMessage, Server } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { AddressReader } from "./address.ts";
import { ambiguityOf } from "./ambiguous.ts";
import type { RateLimit } from "./rate-limit.ts";
import { RETRY_SECONDS } from "./retry.ts";

export type SocketLimits = {
  /** Open sockets in all. */ readonly connections: number;
  /** Open sockets from one address. */ readonly connectionsPerAddress: number;
  /** Bytes of one message. */ readonly messageBytes: number;
  /** Messages a second that one socket may send. */ readonly messageRate: number;
  /** Milliseconds between two pings; who has not answered the last one by the next is gone. */ readonly heartbeat: number;
};

/** Who takes the sockets of one path. */
export type SocketRoute = {
  readonly path: string;
  /** The sub-protocol that a client must offer. */
  readonly protocol: string;
  accept(socket: WebSocket, request: IncomingMessage): void;
};

export type UpgradeGateOptions = {
  readonly routes: readonly SocketRoute[];
  readonly limits: SocketLimits;
  /** Whether a page from this origin may connect; programs send none. */
  isAllowedOrigin(origin: string): boolean;
  readonly addressOf: AddressReader;
  /** Null where there is none. */
  readonly rateLimit: RateLimit | null;
  onSocketError(error: Error): void;
};

/** Milliseconds that a client has to answer a close frame; those who don't read it are cut off then. */
const CLOSE_TIMEOUT = 2000;
const GOING_AWAY = 1001;
const TOO_MANY_MESSAGES = 4429;

/** The only way in for WebSockets: refuses with an HTTP status what is not wanted, and outlives malformed frames. */
export class UpgradeGate {
  readonly #options: UpgradeGateOptions;
  readonly #websockets: WebSocketServer;
  readonly #perAddress = new Map<string, number>();
  /** Sockets that have not been heard of since the last ping. */
  readonly #silent = new WeakSet<WebSocket>();
  readonly #heartbeat: NodeJS.Timeout;
  #isOpen = true;

  constructor(server: Server, options: UpgradeGateOptions) {
    this.#options = options;
    this.#websockets = new WebSocketServer({
      noServer: true,
      maxPayload: options.limits.messageBytes,
      perMessageDeflate: false,
      // @types/ws does not know it yet.
      ...({ closeTimeout: CLOSE_TIMEOUT } as object),
      handleProtocols: (offered) => options.routes.find(({ protocol }) => offered.has(protocol))?.protocol ?? false,
    });
    server.on("upgrade", (request, socket, head) => this.#handle(request, socket, head));
    this.#heartbeat = setInterval(() => this.#ping(), options.limits.heartbeat).unref();
  }

  /** Open sockets, and the addresses that they come from. */
  get open(): { readonly sockets: number; readonly addresses: number } {
    return { sockets: this.#websockets.clients.size, addresses: this.#perAddress.size };
  }

  /** Lets nobody in any more and tells the others to go. */
  close(): void {
    this.#isOpen = false;
    clearInterval(this.#heartbeat);
    for (const socket of this.#websockets.clients) socket.close(GOING_AWAY, "the service is stopping");
  }

  /** Ends the sockets that have not gone. */
  terminate(): void {
    for (const socket of this.#websockets.clients) socket.terminate();
  }

  #handle(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Until ws takes over nobody listens: a reset by the client would end the process.
    socket.on("error", this.#options.onSocketError);
    const { routes, rateLimit } = this.#options;
    const taken = rateLimit?.count(request);
    const limits = taken ? rateLimit!.headersOf(taken) : [];
    const route = routes.find(({ path }) => path === pathOf(request));
    const refusal = this.#refuse(request, route);
    if (taken?.isOver) answer(socket, 429, [...limits, "Retry-After", String(taken.retryAfter)]);
    else if (refusal !== null || !route) answer(socket, refusal ?? 404, limits);
    else this.#open(request, socket, head, route);
  }

  #open(request: IncomingMessage, socket: Duplex, head: Buffer, route: SocketRoute): void {
    const address = this.#options.addressOf(request);
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
      this.#count(address, 1);
      websocket.once("close", () => this.#count(address, -1));
      websocket.on("error", this.#options.onSocketError);
      this.#limit(websocket);
      route.accept(websocket, request);
    });
  }

  /** The status that turns the request away, or null. */
  #refuse(request: IncomingMessage, route: SocketRoute | undefined): number | null {
    const { limits, isAllowedOrigin, addressOf } = this.#options;
    if (!this.#isOpen) return 503;
    if (ambiguityOf(request) !== null) return 400;
    if (!route) return 404;
    const { origin } = request.headers;
    if (origin !== undefined && !isAllowedOrigin(origin)) return 403;
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
    if (!offered.includes(route.protocol)) return 400;
    if (this.#websockets.clients.size >= limits.connections) return 503;
    if ((this.#perAddress.get(addressOf(request)) ?? 0) >= limits.connectionsPerAddress) return 429;
    return null;
  }

  #count(address: string, change: 1 | -1): void {
    const count = (this.#perAddress.get(address) ?? 0) + change;
    if (count > 0) this.#perAddress.set(address, count);
    else this.#perAddress.delete(address);
  }

  #limit(websocket: WebSocket): void {
    const { messageRate } = this.#options.limits;
    let second = 0;
    let messages = 0;
    const count = () => {
      const now = Math.floor(Date.now() / 1000);
      if (now !== second) {
        second = now;
        messages = 0;
      }
      if (++messages > messageRate) websocket.close(TOO_MANY_MESSAGES, "too many messages");
    };
    for (const event of ["message", "ping", "pong"] as const) {
      websocket.on(event, count);
      websocket.on(event, () => this.#silent.delete(websocket));
    }
  }

  /** A client that has vanished without a word would be counted until the kernel gives it up, hours later. */
  #ping(): void {
    for (const socket of this.#websockets.clients) {
      if (this.#silent.has(socket)) socket.terminate();
      else if (socket.readyState === socket.OPEN) {
        this.#silent.add(socket);
        socket.ping();
      }
    }
  }
}

const pathOf = ({ url = "/" }: IncomingMessage) => url.split("?", 1)[0];

/** `headers` are names and values by turns. */
function answer(socket: Duplex, status: number, headers: readonly string[]): void {
  const all = [...headers, "Connection", "close", "Content-Length", "0"];
  const isPassing = status === 503 || status === 429;
  if (isPassing && !headers.includes("Retry-After")) all.push("Retry-After", RETRY_SECONDS);
  const lines = all.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  // Both ways: a client that never ends its own would keep the connection.
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n`, () => socket.destroy());
}

import type { IncomingMessage, Server } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { CallerResolver, RequestIdentity } from "../identity/caller-resolver.ts";
import { networkOf, type RateLimit } from "./rate-limit.ts";
import { type AddressReader, ambiguityOf, requestIdOf } from "./request.ts";
import { RETRY_SECONDS } from "./response.ts";

/** The names are those of the service's settings. */
export type SocketLimits = {
  /** Open sockets in total. */ readonly wsMaxConnections: number;
  /** Open sockets from one IP address, or from one IPv6 network. */ readonly wsMaxConnectionsPerAddress: number;
  /** Bytes of one message. */ readonly wsMaxMessageBytes: number;
  /** Messages per second that one socket may send. */ readonly wsMessageRate: number;
};

/** The request that has opened a socket. */
export type SocketExchange = {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly identity: RequestIdentity;
};

/** The sockets of one path. */
export type SocketRoute = {
  readonly path: string;
  /** The sub-protocol that a client must offer. */
  readonly protocol: string;
  accept(socket: WebSocket, exchange: SocketExchange): void;
};

export type UpgradeGateOptions = {
  readonly routes: readonly SocketRoute[];
  /** Reads the limits, which may change, except that on messages. */
  limits(): SocketLimits;
  /** Milliseconds between two pings. A client that does not answer a ping before the next one is disconnected. */
  readonly heartbeat?: number;
  readonly callers: CallerResolver;
  /** Whether a page from this origin may connect; programs send no origin. */
  isAllowedOrigin(origin: string): boolean;
  readonly addressOf: AddressReader;
  /** Null when requests are not limited. */
  readonly rateLimit: RateLimit | null;
  /** Called with the name of the setting whose limit has rejected or closed a socket. */
  onLimit?(setting: string): void;
  onSocketError(error: Error): void;
};

/** Milliseconds after which a client that does not answer a close frame is disconnected. */
const CLOSE_TIMEOUT = 2000;
/** Milliseconds. */
const HEARTBEAT = 30_000;
const GOING_AWAY = 1001;
const TOO_MANY_MESSAGES = 4429;

/** Accepts WebSockets: rejects upgrades with an HTTP status, limits sockets and messages, and survives malformed frames. */
export class UpgradeGate {
  readonly #options: UpgradeGateOptions;
  readonly #websockets: WebSocketServer;
  readonly #perNetwork = new Map<string, number>();
  /** Sockets that have not sent anything since the last ping. */
  readonly #silent = new WeakSet<WebSocket>();
  readonly #heartbeat: NodeJS.Timeout;
  #isOpen = true;

  constructor(server: Server, options: UpgradeGateOptions) {
    this.#options = options;
    this.#websockets = new WebSocketServer({
      noServer: true,
      maxPayload: options.limits().wsMaxMessageBytes,
      perMessageDeflate: false,
      // Missing in @types/ws.
      ...({ closeTimeout: CLOSE_TIMEOUT } as object),
      handleProtocols: (offered) => options.routes.find(({ protocol }) => offered.has(protocol))?.protocol ?? false,
    });
    server.on("upgrade", (request, socket, head) => this.#handle(request, socket, head));
    this.#heartbeat = setInterval(() => this.#ping(), options.heartbeat ?? HEARTBEAT).unref();
  }

  /** Open sockets and the number of their IP addresses. */
  get open(): { readonly sockets: number; readonly addresses: number } {
    return { sockets: this.#websockets.clients.size, addresses: this.#perNetwork.size };
  }

  /** Rejects new sockets and asks the clients of the others to disconnect. */
  close(): void {
    this.#isOpen = false;
    clearInterval(this.#heartbeat);
    for (const socket of this.#websockets.clients) socket.close(GOING_AWAY, "the service is stopping");
  }

  /** Disconnects the remaining clients. */
  terminate(): void {
    for (const socket of this.#websockets.clients) socket.terminate();
  }

  #handle(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Until ws adds its own listener, a reset by the client would end the process.
    socket.on("error", this.#options.onSocketError);
    const { routes, rateLimit, callers } = this.#options;
    const identity = callers.identify(request);
    const taken = rateLimit?.count(request, identity.knownName) ?? null;
    const limits = taken ? rateLimit!.headersOf(taken) : [];
    const route = routes.find(({ path }) => path === pathOf(request));
    const refusal = this.#refuse(request, route);
    if (taken?.isOver) this.#options.onLimit?.("RATE_LIMIT");
    if (taken?.isOver) respond(socket, 429, [...limits, "Retry-After", String(taken.retryAfter)]);
    else if (refusal !== null || !route) respond(socket, refusal ?? 404, limits);
    else this.#open({ request, requestId: requestIdOf(request), identity }, socket, head, route);
  }

  #open(exchange: SocketExchange, socket: Duplex, head: Buffer, route: SocketRoute): void {
    const { request } = exchange;
    const network = networkOf(this.#options.addressOf(request));
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
      this.#count(network, 1);
      websocket.once("close", () => this.#count(network, -1));
      websocket.on("error", this.#options.onSocketError);
      this.#limit(websocket);
      route.accept(websocket, exchange);
    });
  }

  /** The status with which the upgrade is rejected, or null. */
  #refuse(request: IncomingMessage, route: SocketRoute | undefined): number | null {
    const { isAllowedOrigin, addressOf } = this.#options;
    const limits = this.#options.limits();
    if (!this.#isOpen) return 503;
    if (ambiguityOf(request) !== null) return 400;
    if (!route) return 404;
    const { origin } = request.headers;
    if (origin !== undefined && !isAllowedOrigin(origin)) return 403;
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
    if (!offered.includes(route.protocol)) return 400;
    const ofAddress = this.#perNetwork.get(networkOf(addressOf(request))) ?? 0;
    if (this.#websockets.clients.size >= limits.wsMaxConnections) return this.#over("WS_MAX_CONNECTIONS", 503);
    if (ofAddress >= limits.wsMaxConnectionsPerAddress) return this.#over("WS_MAX_CONNECTIONS_PER_ADDRESS", 429);
    return null;
  }

  #over(setting: string, status: number): number {
    this.#options.onLimit?.(setting);
    return status;
  }

  #count(network: string, change: 1 | -1): void {
    const count = (this.#perNetwork.get(network) ?? 0) + change;
    if (count > 0) this.#perNetwork.set(network, count);
    else this.#perNetwork.delete(network);
  }

  #limit(websocket: WebSocket): void {
    const { wsMessageRate } = this.#options.limits();
    let second = 0;
    let messages = 0;
    const count = () => {
      const now = Math.floor(Date.now() / 1000);
      if (now !== second) {
        second = now;
        messages = 0;
      }
      if (++messages <= wsMessageRate) return;
      if (websocket.readyState === websocket.OPEN) this.#options.onLimit?.("WS_MESSAGE_RATE");
      websocket.close(TOO_MANY_MESSAGES, "too many messages");
    };
    for (const event of ["message", "ping", "pong"] as const) {
      websocket.on(event, count);
      websocket.on(event, () => this.#silent.delete(websocket));
    }
  }

  /** Finds clients that have disappeared without closing the connection, which the kernel would keep for hours. */
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

/** In `headers`, names and values alternate. */
function respond(socket: Duplex, status: number, headers: readonly string[]): void {
  const all = [...headers, "Connection", "close", "Content-Length", "0"];
  const isTemporary = status === 503 || status === 429;
  if (isTemporary && !headers.includes("Retry-After")) all.push("Retry-After", RETRY_SECONDS);
  const lines = all.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  // Closes both directions: a client that never closes its own would keep the connection open.
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n`, () => socket.destroy());
}

import type { IncomingMessage, Server } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { networkOf } from "../db/network.ts";
import type { CallerResolver, RequestIdentity } from "../identity/caller-resolver.ts";
import type { RateLimit } from "./rate-limit.ts";
import { type AddressReader, ambiguityOf, requestIdOf } from "./request.ts";
import { RETRY_SECONDS } from "./response.ts";
import { spreadOut } from "./spread.ts";

/** The names are those of the service's settings. */
export type SocketLimits = {
  /** Open sockets in total. */ readonly wsMaxConnections: number;
  /** Open sockets from one IP address, or from one IPv6 network. */ readonly wsMaxConnectionsPerAddress: number;
  /** Bytes of one message. */ readonly wsMaxMessageBytes: number;
  /** Messages per second that one socket may send. */ readonly wsMessageRate: number;
  /** Messages per second that the sockets from one IP address, or from one IPv6 network, may send. */
  readonly wsMessageRatePerAddress: number;
};

/** The request that opens a socket. */
export type UpgradeRequest = {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly identity: RequestIdentity;
};

/** The same when the socket is open. */
export type SocketExchange = UpgradeRequest & {
  /** Sends a ping, whose pong is not counted as a message of the client. */
  ping(payload: string): void;
};

/** The response to an upgrade that is rejected. */
export type UpgradeRefusal = { readonly status: number; readonly message: string };

/** The sockets of one path. */
export type SocketRoute = {
  readonly path: string;
  /** The sub-protocol that a client must offer; null if the path has none. */
  readonly protocol: string | null;
  /** Reads the API key in the URL, if it is not the parameter `api_key`. */
  apiKeyIn?(url: string): string | null;
  /** Why the upgrade is rejected; null if it is accepted. */
  refuse?(upgrade: UpgradeRequest): Promise<UpgradeRefusal | null>;
  accept(socket: WebSocket, exchange: SocketExchange): void;
};

export type UpgradeGateOptions = {
  readonly routes: readonly SocketRoute[];
  /** Reads the limits, which may change while the service runs, except the maximum size of a message. */
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
const SERVICE_RESTART = 1012;
const TOO_MANY_MESSAGES = 4429;

/** Accepts WebSockets: rejects upgrades with an HTTP status, limits sockets and messages, and survives malformed frames. */
export class UpgradeGate {
  readonly #options: UpgradeGateOptions;
  readonly #websockets: WebSocketServer;
  readonly #networks = new Map<string, Network>();
  /** Sockets that have not sent anything since the last ping. */
  readonly #silent = new WeakSet<WebSocket>();
  /** The number of pings that each socket has not answered yet. */
  readonly #pings = new WeakMap<WebSocket, number>();
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
      handleProtocols: (_offered, request) => this.#routeOf(request)?.protocol ?? false,
    });
    server.on("upgrade", (request, socket, head) => this.#handle(request, socket, head));
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeat ?? HEARTBEAT).unref();
  }

  /** Open sockets and the number of their IP addresses. */
  get open(): { readonly sockets: number; readonly addresses: number } {
    return { sockets: this.#websockets.clients.size, addresses: this.#networks.size };
  }

  /** Rejects new sockets, and within `spread` milliseconds asks the clients of the others to connect again. */
  async close(spread: number): Promise<void> {
    this.#isOpen = false;
    clearInterval(this.#heartbeat);
    const close = (socket: WebSocket) => socket.close(SERVICE_RESTART, "the service is stopping");
    await spreadOut([...this.#websockets.clients], spread, close);
  }

  /** Disconnects the remaining clients. Resolves when the listeners of their sockets have been called. */
  async terminate(): Promise<void> {
    const closed = [...this.#websockets.clients].map(
      (socket) => new Promise((resolve) => socket.once("close", () => setImmediate(resolve))),
    );
    for (const socket of this.#websockets.clients) socket.terminate();
    await Promise.all(closed);
  }

  #handle(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Until ws adds its own listener, a reset by the client would end the process.
    socket.on("error", this.#options.onSocketError);
    const { rateLimit, callers } = this.#options;
    const route = this.#routeOf(request);
    const identity = callers.identify(request, route?.apiKeyIn?.(request.url!));
    const taken = rateLimit?.count(request, identity.knownName) ?? null;
    const limits = taken ? rateLimit!.headersOf(taken) : [];
    const refusal = this.#refuse(request, route);
    if (taken?.isOver) this.#options.onLimit?.("RATE_LIMIT");
    const upgrade = { request, requestId: requestIdOf(request), identity };
    if (taken?.isOver) respond(socket, 429, [...limits, "Retry-After", String(taken.retryAfter)]);
    else if (refusal !== null || !route) respond(socket, refusal ?? 404, limits);
    else if (route.refuse) void this.#openUnlessRefused(upgrade, socket, head, route, limits);
    else this.#open(upgrade, socket, head, route);
  }

  async #openUnlessRefused(
    upgrade: UpgradeRequest,
    socket: Duplex,
    head: Buffer,
    route: SocketRoute,
    headers: readonly string[],
  ): Promise<void> {
    try {
      const problem = await route.refuse!(upgrade);
      // The limits may have been reached meanwhile.
      const status = problem?.status ?? this.#refuse(upgrade.request, route);
      if (status === null) this.#open(upgrade, socket, head, route);
      else respond(socket, status, headers, problem?.message);
    } catch (error) {
      this.#options.onSocketError(error as Error);
      respond(socket, 503, headers);
    }
  }

  #routeOf(request: IncomingMessage): SocketRoute | undefined {
    const path = pathOf(request);
    return this.#options.routes.find((route) => route.path === path);
  }

  #open(upgrade: UpgradeRequest, socket: Duplex, head: Buffer, route: SocketRoute): void {
    const { request } = upgrade;
    const address = networkOf(this.#options.addressOf(request));
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
      websocket.on("error", this.#options.onSocketError);
      this.#limit(websocket, this.#enter(websocket, address));
      route.accept(websocket, { ...upgrade, ping: (payload) => this.#ping(websocket, payload) });
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
    if (route.protocol !== null && !offered.includes(route.protocol)) return 400;
    if (this.#websockets.clients.size >= limits.wsMaxConnections) return this.#over("WS_MAX_CONNECTIONS", 503);
    const network = this.#networks.get(networkOf(addressOf(request)));
    const isFull = (network?.sockets ?? 0) >= limits.wsMaxConnectionsPerAddress;
    return isFull ? this.#over("WS_MAX_CONNECTIONS_PER_ADDRESS", 429) : null;
  }

  #over(setting: string, status: number): number {
    this.#options.onLimit?.(setting);
    return status;
  }

  /** Counts a socket until it is closed. */
  #enter(websocket: WebSocket, address: string): Network {
    const network = this.#networks.get(address) ?? { sockets: 0, messages: new MessageCount() };
    this.#networks.set(address, network);
    network.sockets++;
    websocket.once("close", () => {
      if (--network.sockets === 0) this.#networks.delete(address);
    });
    return network;
  }

  #limit(websocket: WebSocket, network: Network): void {
    const { wsMessageRate, wsMessageRatePerAddress } = this.#options.limits();
    const messages = new MessageCount();
    const count = () => {
      this.#silent.delete(websocket);
      const now = Math.floor(Date.now() / 1000);
      const over =
        messages.add(now) > wsMessageRate
          ? "WS_MESSAGE_RATE"
          : network.messages.add(now) > wsMessageRatePerAddress
            ? "WS_MESSAGE_RATE_PER_ADDRESS"
            : null;
      if (over === null) return;
      if (websocket.readyState === websocket.OPEN) this.#options.onLimit?.(over);
      websocket.close(TOO_MANY_MESSAGES, "too many messages");
    };
    websocket.on("message", count);
    websocket.on("ping", count);
    websocket.on("pong", () => {
      const owed = this.#pings.get(websocket) ?? 0;
      if (owed === 0) return count();
      this.#silent.delete(websocket);
      this.#pings.set(websocket, owed - 1);
    });
  }

  /** The pong does not count as a message of the client. */
  #ping(websocket: WebSocket, payload = ""): void {
    if (websocket.readyState !== websocket.OPEN) return;
    this.#pings.set(websocket, (this.#pings.get(websocket) ?? 0) + 1);
    websocket.ping(payload);
  }

  /** Finds clients that have disappeared without closing the connection, which the kernel would keep for hours. */
  #beat(): void {
    for (const socket of this.#websockets.clients) {
      if (this.#silent.has(socket)) socket.terminate();
      else if (socket.readyState === socket.OPEN) {
        this.#silent.add(socket);
        this.#ping(socket);
      }
    }
  }
}

/** The sockets of one IP address or IPv6 network. */
type Network = { sockets: number; readonly messages: MessageCount };

/** Counts the messages of the current second. */
export class MessageCount {
  #second = 0;
  #count = 0;

  /** Returns the number of messages in this second. */
  add(second: number): number {
    if (second !== this.#second) {
      this.#second = second;
      this.#count = 0;
    }
    return ++this.#count;
  }
}

const pathOf = ({ url = "/" }: IncomingMessage) => url.split("?", 1)[0];

/** In `headers`, names and values alternate. */
function respond(socket: Duplex, status: number, headers: readonly string[], message = ""): void {
  const body = message === "" ? "" : JSON.stringify({ error: message });
  const type = body === "" ? [] : ["Content-Type", "application/json; charset=utf-8"];
  const all = [...headers, ...type, "Connection", "close", "Content-Length", String(Buffer.byteLength(body))];
  const isTemporary = status === 503 || status === 429;
  if (isTemporary && !headers.includes("Retry-After")) all.push("Retry-After", RETRY_SECONDS);
  const lines = all.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  // Closes both directions: a client that never closes its own would keep the connection open.
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`, () => socket.destroy());
}

import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { CallerResolver, RequestIdentity } from "../../identity/caller-resolver.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import type { HttpLimits } from "../limits.ts";
import { ambiguityOf, requestIdOf } from "../pipeline/exchange.ts";
import type { Routes } from "../pipeline/pipeline.ts";
import { closingResponse } from "../pipeline/response.ts";
import { discard } from "./bulk.ts";
import { type Client, type Clients, IntervalCount, type RateLimit } from "./clients.ts";
import type { LimitReport } from "./limit-log.ts";
import { type MessageListener, receiveMessages } from "./socket-messages.ts";
import { spreadOut } from "./spread.ts";
import type { Turns } from "./turns.ts";

export type SocketLimits = Pick<
  HttpLimits,
  "wsMaxConnectionsPerAddress" | "wsMaxMessageBytes" | "wsMessageRate" | "wsMessageRatePerAddress"
>;

/** The request that opens a socket. */
export type UpgradeRequest = {
  readonly request: IncomingMessage;
  readonly requestId: string;
  readonly identity: RequestIdentity;
};

/** The same when the socket is open. */
export type SocketExchange = UpgradeRequest & {
  /** The network of the client. */
  readonly client: Client;
  /**
   * Counts an operation like `cost` requests (default: one), for a known caller or else for the network. Returns why it is refused, or null. A socket that
   * sends many operations that are refused is closed.
   */
  countOperation(knownName: string | null, cost?: number): Problem | null;
  /** Reports that a limit has refused something on the socket. */
  onLimit(setting: string): void;
  /** Calls back for each message, in order, when it is the turn of the network. No more is read from a socket whose messages wait. */
  onMessage(listener: MessageListener): void;
  /** Sends a ping, whose pong is not counted as a message of the client. */
  ping(payload: string): void;
};

/** The sockets of one path. */
export type SocketRoute = {
  /** The sub-protocol that a client must offer; null if the path has none. */
  readonly protocol: string | null;
  /** Why the upgrade is rejected; null if it is accepted. */
  refuse?(upgrade: UpgradeRequest): Promise<Problem | null>;
  accept(socket: WebSocket, exchange: SocketExchange): void;
};

export type UpgradeGateOptions = {
  /** Null where no sockets are opened. */
  readonly routes: Routes<SocketRoute | null>;
  /** Reads the limits, which may change while the service runs, except the maximum size of a message. */
  limits(): SocketLimits;
  /** Milliseconds between two pings. A client that does not answer a ping before the next one is disconnected. */
  readonly heartbeat?: number;
  readonly callers: CallerResolver;
  /** Whether a page from this origin may connect; programs send no origin. */
  isAllowedOrigin(origin: string): boolean;
  readonly clients: Clients;
  readonly turns: Turns;
  readonly rateLimit: RateLimit;
  readonly onLimit?: LimitReport;
  onSocketError(error: Error): void;
};

/** Milliseconds after which a client that does not answer a close frame is disconnected. */
const CLOSE_TIMEOUT = 2000;
/** Milliseconds. */
const HEARTBEAT = 30_000;
const SERVICE_RESTART = 1012;
/** The close code of a socket that cannot be served at the moment: its client connects again. */
export const TRY_AGAIN_LATER = 1013;
const TOO_MANY_MESSAGES = 4429;
const MINUTE = 60_000;
/** Operations of a socket that may be refused within a minute. */
const MAX_REFUSED = 100;

/** Accepts WebSockets: rejects upgrades with an HTTP status, limits sockets and messages, and survives malformed frames. */
export class UpgradeGate {
  readonly #options: UpgradeGateOptions;
  readonly #websockets: WebSocketServer;
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
      // One message of a socket in each turn of the event loop: otherwise a flood on many sockets would be parsed at once.
      allowSynchronousEvents: false,
      // Missing in @types/ws.
      ...({ closeTimeout: CLOSE_TIMEOUT } as object),
      handleProtocols: (_offered, request) => options.routes.find(request.url!)?.protocol ?? false,
    });
    server.on("upgrade", (request, socket, head) => {
      // Until ws adds its own listener, a reset by the client would end the process.
      socket.on("error", options.onSocketError);
      const upgrade = { request, requestId: requestIdOf(request), identity: options.callers.identify(request) };
      const client = () => upgrade.identity.network;
      options.turns.add({ client, run: () => this.#handle(upgrade, socket, head) });
    });
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeat ?? HEARTBEAT).unref();
  }

  /** Open sockets and the number of their networks. */
  get open(): { readonly sockets: number; readonly addresses: number } {
    return { sockets: this.#websockets.clients.size, addresses: this.#options.clients.holding("sockets") };
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

  #handle(upgrade: UpgradeRequest, socket: Duplex, head: Buffer): void {
    const { request, identity } = upgrade;
    const { rateLimit, routes } = this.#options;
    const route = routes.find(request.url!);
    const { headers, refusal: overLimit } = rateLimit.count(identity.client, request);
    const refusal = overLimit ?? this.#refuse(upgrade, route);
    if (refusal !== null || !route) reject(socket, refusal ?? problem("nothing here"), headers);
    else if (route.refuse) void this.#openUnlessRefused(upgrade, socket, head, route, headers);
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
      // The limits may have been reached meanwhile.
      const refusal = (await route.refuse!(upgrade)) ?? this.#refuse(upgrade, route);
      if (refusal === null) this.#open(upgrade, socket, head, route);
      else reject(socket, refusal, headers);
    } catch (error) {
      this.#options.onSocketError(error as Error);
      reject(socket, problem("service not ready", { state: "not ready" }), headers);
    }
  }

  #open(upgrade: UpgradeRequest, socket: Duplex, head: Buffer, route: SocketRoute): void {
    const { request, identity } = upgrade;
    const client = this.#options.clients.of(identity.network);
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
      websocket.on("error", (error) => {
        this.#options.onSocketError(error);
        // ws no longer reads messages, but waits for the client to close.
        discard(socket, client.name, this.#options.turns.bulk);
      });
      websocket.once("close", client.hold("sockets"));
      this.#limit(websocket, client);
      const countOperation = this.#operationCounter(websocket, client);
      const ping = (payload: string) => this.#ping(websocket, payload);
      const { turns, onLimit: report } = this.#options;
      const onLimit = (setting: string) => report?.(setting, client);
      const onMessage: SocketExchange["onMessage"] = (listener) =>
        receiveMessages(websocket, { network: client.name, turns }, listener);
      route.accept(websocket, { ...upgrade, client, countOperation, onLimit, onMessage, ping });
    });
  }

  #refuse({ request, identity }: UpgradeRequest, route: SocketRoute | null): Problem | null {
    const { isAllowedOrigin } = this.#options;
    const limits = this.#options.limits();
    if (!this.#isOpen) return problem("service not ready", { state: "draining" });
    const ambiguity = ambiguityOf(request);
    if (ambiguity !== null) return ambiguity;
    if (!route) return problem("nothing here");
    const { origin } = request.headers;
    if (origin !== undefined && !isAllowedOrigin(origin)) return problem("foreign page");
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
    if (route.protocol !== null && !offered.includes(route.protocol))
      return problem("invalid request", { message: `the socket must offer the sub-protocol ${route.protocol}` });
    const client = this.#options.clients.of(identity.network);
    if (!client.isFull("sockets", limits.wsMaxConnectionsPerAddress)) return null;
    this.#options.onLimit?.("address_sockets", client);
    return problem("too many connections of the address");
  }

  #operationCounter(websocket: WebSocket, client: Client): SocketExchange["countOperation"] {
    const { rateLimit } = this.#options;
    const refused = new IntervalCount(MINUTE);
    return (knownName, cost = 1) => {
      const refusal = rateLimit.countMore(knownName ?? client.name, cost);
      if (refusal !== null && refused.add() > MAX_REFUSED) websocket.close(TOO_MANY_MESSAGES, "too many operations");
      return refusal;
    };
  }

  #limit(websocket: WebSocket, client: Client): void {
    const { wsMessageRate, wsMessageRatePerAddress } = this.#options.limits();
    const messages = new IntervalCount();
    const count = () => {
      this.#silent.delete(websocket);
      const over =
        messages.add() > wsMessageRate
          ? "socket_messages"
          : client.exceeds("messages", wsMessageRatePerAddress)
            ? "address_messages"
            : null;
      if (over === null) return;
      if (websocket.readyState === websocket.OPEN) this.#options.onLimit?.(over, client);
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
      if (socket.isPaused) continue;
      if (this.#silent.has(socket)) socket.terminate();
      else if (socket.readyState === socket.OPEN) {
        this.#silent.add(socket);
        this.#ping(socket);
      }
    }
  }
}

/** In `headers`, names and values alternate. The reason is for programs: browsers do not show it. */
function reject(socket: Duplex, refusal: Problem, headers: readonly string[]): void {
  // Closes both directions: a client that never closes its own would keep the connection open.
  socket.end(closingResponse(refusal, headers), () => socket.destroy());
}

import cluster from "node:cluster";
import type { IncomingMessage, RequestListener, Server, ServerOptions } from "node:http";
import { isIPv6, Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isAnswered } from "../pipeline/body.ts";
import { closingText, responseOn } from "../pipeline/response.ts";

const { createServer, maxHeaderSize } = process.getBuiltinModule("node:http");

export type Endpoint = {
  readonly host: string;
  readonly port: number;
  /** Whether other processes may listen on the port too. The port of workers is always shared. */
  readonly isShared?: boolean;
  /** The setting that has the port. */
  readonly setting?: "PORT" | "ADMIN_PORT";
};

/** Why nothing can listen there, and what to do. */
function reasonOf(
  { code, message }: NodeJS.ErrnoException,
  { host, port, setting }: Required<Omit<Endpoint, "isShared">>,
): string {
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND")
    return `${host} is not an address of this machine: set ${setting.replace("PORT", "HOST")} to one, or to 0.0.0.0 for all`;
  if (code !== "EADDRINUSE") return message;
  const named = process.platform === "linux" ? `ss -ltnp 'sport = :${port}'` : `lsof -nP -iTCP:${port} -sTCP:LISTEN`;
  return `another program listens on port ${port} of ${host}: set ${setting} to another port, or stop that program, which ${named} names`;
}

/** Milliseconds for which a connection may be idle. */
export const KEEP_ALIVE = 75_000;

/** Responses announce so much less, so that a slow client does not send a request while its connection is closed here. */
const GRACE = 10_000;

/** Times in milliseconds. */
const OPTIONS: ServerOptions = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  // How often the two above are checked.
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: KEEP_ALIVE - GRACE,
  keepAliveTimeoutBuffer: GRACE,
};

/**
 * Linux distributes connections over the processes that listen on one port, and closes those of a process that was killed.
 * On other systems node:cluster distributes them, and some would stay open forever.
 */
const canShare = process.platform === "linux";

/** Node's HTTP server with timeouts, error responses for malformed HTTP, and a graceful stop. */
export class HttpServer {
  /** For UpgradeGate, which handles its upgrades. */
  readonly node: Server;
  readonly #connections = new Set<Socket>();
  /** The connections that had no request at the last check, and the bytes that had been written to each. */
  #idle = new Map<Socket, number>();
  #idleCheck: NodeJS.Timeout | undefined;

  /** `admits` returns false for a connection that it has closed. */
  constructor(listener: RequestListener, admits: (socket: Socket) => boolean = () => true) {
    // Clients that offer another protocol in the header Upgrade, such as HTTP/2, are served over HTTP/1.1, and so are
    // WebSockets until an UpgradeGate listens besides this server.
    const shouldUpgradeCallback = ({ headers }: IncomingMessage) =>
      this.node.listenerCount("upgrade") > 1 && headers.upgrade?.toLowerCase() === "websocket";
    this.node = createServer({ ...OPTIONS, shouldUpgradeCallback }, listener);
    this.node.on("clientError", rejectMalformed);
    this.#guard(admits);
    // An upgraded socket is no longer an HTTP connection.
    this.node.on("upgrade", (_request, socket) => this.#connections.delete(socket as Socket));
  }

  get port(): number {
    const address = this.node.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Rejects when the port is in use by a process that does not share it. */
  listen({ host, port, isShared = false, setting = "PORT" }: Endpoint): Promise<void> {
    const reusePort = (isShared || cluster.isWorker) && canShare;
    return new Promise((resolve, reject) => {
      const refuse = (error: NodeJS.ErrnoException) =>
        reject(new Error(reasonOf(error, { host, port, setting }), { cause: error }));
      this.node.once("error", refuse);
      this.node.listen({ host, port, reusePort }, () => {
        this.node.off("error", refuse);
        this.#idleCheck = setInterval(() => this.closeIdle(), KEEP_ALIVE).unref();
        resolve();
      });
    });
  }

  /**
   * Stops accepting connections and gives running requests `timeout` milliseconds to end. Node's closeIdleConnections is
   * not used: it keeps connections that have not sent a request yet, which browsers open in advance.
   */
  async drain(timeout: number): Promise<void> {
    clearInterval(this.#idleCheck);
    const closed = new Promise<void>((resolve) => this.node.close(() => resolve()));
    for (const socket of this.#connections) endWhenAnswered(socket);
    const timer = setTimeout(() => this.node.closeAllConnections(), timeout);
    await closed;
    clearTimeout(timer);
  }

  /**
   * Stops accepting connections, because another process accepts them now, and resolves when all are closed. Open connections are
   * served until their clients close them, after a response with `Connection: close`. So no request in transit is lost.
   */
  handOver(): Promise<void> {
    clearInterval(this.#idleCheck);
    // Not the `close` of node:http, which also closes idle connections.
    return new Promise((resolve) => NetServer.prototype.close.call(this.node, () => resolve()));
  }

  /** Closes the server and all connections. */
  close(): void {
    clearInterval(this.#idleCheck);
    this.node.closeAllConnections();
    this.node.close();
  }

  /**
   * Closes the connections without a request since the previous call. Node restarts keepAliveTimeout with every byte, so a client
   * that sends empty lines would keep its connection forever.
   */
  closeIdle(): void {
    const idle = [...this.#connections].filter((socket) => responseOn(socket) === null);
    // A request since then would have had its response.
    for (const socket of idle) if (this.#idle.get(socket) === socket.bytesWritten) socket.destroy();
    this.#idle = new Map(idle.map((socket) => [socket, socket.bytesWritten]));
  }

  /** Node's own listener reads requests, and must not see a connection that is not admitted. */
  #guard(admits: (socket: Socket) => boolean): void {
    const listeners = this.node.listeners("connection");
    this.node.removeAllListeners("connection");
    this.node.on("connection", (socket) => {
      if (!admits(socket)) return;
      this.#track(socket);
      for (const listener of listeners) listener.call(this.node, socket);
    });
  }

  #track(socket: Socket): void {
    this.#connections.add(socket);
    socket.once("close", () => this.#connections.delete(socket));
  }
}

/** Closes a connection after the responses to all requests that it has sent. */
function endWhenAnswered(socket: Socket): void {
  const response = responseOn(socket);
  if (response === null) socket.destroySoon();
  else response.once("close", () => endWhenAnswered(socket));
}

/** A port for several processes to share: that of `endpoint`, or a free one for 0. Rejects when it is in use. */
export async function findSharedPort(endpoint: Endpoint): Promise<number> {
  const server = new HttpServer(() => {});
  await server.listen(endpoint);
  const { port } = server;
  await server.drain(0);
  return port;
}

/** Clients cannot connect to 0.0.0.0 or ::, which mean all IP addresses of this machine: the URL names the local one. */
export function urlOf({ host, port }: Endpoint): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${isIPv6(name) ? `[${name}]` : name}:${port}`;
}

type Malformed = { readonly status: number; readonly message: string };

/** By the codes of Node's errors. */
const MALFORMED: Readonly<Record<string, Malformed>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    message: `the URL and the headers must not be larger than ${maxHeaderSize} bytes: send long lists in a body`,
  },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, message: "the extensions of a chunk are too large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: "the request was not complete in time" },
};
const NOT_HTTP: Malformed = { status: 400, message: "the request is not valid HTTP/1.1" };

/** Responds to malformed HTTP with the reason, without a request id. Node itself would send only the status. */
function rejectMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  const malformed = MALFORMED[error.code ?? ""] ?? NOT_HTTP;
  if (!socket.writable || error.code === "ECONNRESET" || isResponding(socket) || isAnswered(socket))
    socket.destroy(error);
  else socket.end(malformedResponse(malformed), () => socket.destroy(error));
}

/** The interface is not known: an error as resources have it, and as clients of the table interface read it. A page may read it too. */
function malformedResponse({ status, message }: Malformed): string {
  const error = { code: "VALIDATION_ERROR", message };
  const body = JSON.stringify({ error, ...error, details: null, hint: null });
  return closingText(status, ["Access-Control-Allow-Origin", "*"], body);
}

/** The client would read another response as part of the one that is being sent. */
const isResponding = (socket: Duplex) => responseOn(socket)?.headersSent === true;

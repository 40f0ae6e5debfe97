import type { Socket } from "node:net";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import { networkOf } from "../../db/network.ts";
import { problem } from "../../problems/problem.ts";
import type { HttpLimits } from "../limits.ts";
import { closingResponse } from "../pipeline/response.ts";
import type { Client, Clients } from "./clients.ts";
import type { LimitReport } from "./limit-log.ts";

type ConnectionLimits = Pick<Config, "maxConnections"> & Pick<HttpLimits, "maxConnectionsPerAddress">;

type ConnectionLimitOptions = {
  /** Reads the limits, which may change. */
  limits(): ConnectionLimits;
  /** A proxy has many clients: the limit per address does not apply to it. */
  isProxy(address: string): boolean;
  readonly clients: Clients;
  readonly onLimit?: LimitReport;
};

type Limit = { readonly setting: string; readonly response: string };

const IN_TOTAL = { setting: "MAX_CONNECTIONS", response: closingResponse(problem("too many connections")) };
const PER_ADDRESS = {
  setting: "address_connections",
  response: closingResponse(problem("too many connections of the address")),
};

/** Rejected connections that may stay open until their clients have read the reason. Others are closed at once. */
const MAX_REJECTING = 100;
/** Milliseconds. */
const REJECTING = 1000;

/** Limits open connections, WebSockets included. Counts those of this process. */
export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  #open = 0;
  #rejecting = 0;

  constructor(options: ConnectionLimitOptions) {
    this.#options = options;
  }

  /** Open connections. */
  get open(): number {
    return this.#open;
  }

  /** Counts a new connection until it closes. Over a limit, responds and closes it, and returns false. */
  admits(socket: Socket): boolean {
    // Without an address, the client has already closed the connection.
    const address = socket.remoteAddress ?? "";
    const client = this.#options.clients.of(networkOf(address));
    const limit = this.#exceeded(address, client);
    if (limit === null) this.#count(socket, client);
    else this.#reject(socket, client, limit);
    return limit === null;
  }

  #exceeded(address: string, client: Client): Limit | null {
    const { limits, isProxy } = this.#options;
    const { maxConnections, maxConnectionsPerAddress } = limits();
    if (this.#open >= maxConnections) return IN_TOTAL;
    return client.isFull("connections", maxConnectionsPerAddress) && !isProxy(address) ? PER_ADDRESS : null;
  }

  #count(socket: Socket, client: Client): void {
    this.#open++;
    const release = client.hold("connections");
    socket.once("close", () => {
      this.#open--;
      release();
    });
  }

  #reject(socket: Socket, client: Client, { setting, response }: Limit): void {
    this.#options.onLimit?.(setting, client);
    // Without this listener, a reset by the client would end the process.
    socket.on("error", () => {});
    if (this.#rejecting >= MAX_REJECTING) return void socket.destroy();
    this.#rejecting++;
    // If it were closed while a request is unread, the client would receive a reset instead of the response.
    socket.resume().end(response);
    const timer = setTimeout(() => socket.destroy(), REJECTING);
    socket.once("end", () => socket.destroy());
    socket.once("close", () => {
      this.#rejecting--;
      clearTimeout(timer);
    });
  }
}

type SendTimeoutOptions = {
  /** Milliseconds without progress after which a connection is closed. */
  readonly timeout: number;
  /** Called with the name of the setting when a connection is closed. */
  onLimit?(setting: string): void;
  readonly log: Logger;
};

/** `sent`: bytes that the socket has passed to the system. `checks`: consecutive checks at which this number was unchanged. */
type Stalled = { readonly sent: number; readonly checks: number };

/** The system accepts bytes only as fast as the client reads. Node's types do not include these fields. */
type Handle = { readonly bytesWritten: number; readonly writeQueueSize: number };

/** The bytes that wait to be sent on a socket, and those that the system has accepted. */
export function progressOf(socket: Socket): { readonly unsent: number; readonly sent: number } {
  const { writeQueueSize = 0, bytesWritten = 0 } = (socket as { _handle?: Handle | null })._handle ?? {};
  return { unsent: writeQueueSize, sent: bytesWritten - writeQueueSize };
}

/** Checks within the timeout. They are counted instead of time: a busy process may reach the timeout before it was able to send. */
const CHECKS = 4;

/**
 * Closes connections whose clients do not read: bytes wait to be sent, and none was sent within the timeout. One timer checks all
 * connections, HTTP and WebSockets, so that a request costs nothing.
 */
export class SendTimeout {
  readonly #options: SendTimeoutOptions;
  readonly #sockets = new Set<Socket>();
  readonly #stalled = new WeakMap<Socket, Stalled>();
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SendTimeoutOptions) {
    this.#options = options;
  }

  /** Checks the socket until it closes. */
  watch(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    this.#timer ??= setInterval(() => this.check(), this.#options.timeout / CHECKS).unref();
  }

  /** Without sockets the timer ends. */
  check(): void {
    if (this.#sockets.size === 0) {
      clearInterval(this.#timer!);
      this.#timer = null;
    }
    for (const socket of this.#sockets) {
      const { unsent, sent } = progressOf(socket);
      if (unsent === 0) this.#stalled.delete(socket);
      else this.#compare(socket, unsent, sent);
    }
  }

  #compare(socket: Socket, unsent: number, sent: number): void {
    const stalled = this.#stalled.get(socket);
    const checks = stalled?.sent === sent ? stalled.checks + 1 : 0;
    if (checks < CHECKS) this.#stalled.set(socket, { sent, checks });
    else this.#close(socket, sent, unsent);
  }

  #close(socket: Socket, sent: number, unsent: number): void {
    this.#options.onLimit?.("unread_response");
    this.#options.log.info(
      { address: socket.remoteAddress, sent, unsent },
      "a connection was closed, because its client read nothing of the response for too long",
    );
    socket.destroy();
  }
}

import type { Socket } from "node:net";
import type { Logger } from "pino";
import { networkOf } from "./rate-limit.ts";
import { closingResponse, RETRY_SECONDS } from "./response.ts";

export type ConnectionLimits = {
  /** Open connections in total. */ readonly maxConnections: number;
  /** Open connections from one IP address, or from one IPv6 network. */ readonly maxConnectionsPerAddress: number;
};

export type ConnectionLimitOptions = {
  /** Reads the limits, which may change. */
  limits(): ConnectionLimits;
  /** A proxy has many clients: the limit per address does not apply to it. */
  isProxy(address: string): boolean;
  /** Called with the name of the setting whose limit has rejected a connection. */
  onLimit?(setting: string): void;
  readonly log: Logger;
};

type Limit = { readonly setting: string; readonly response: string };

const rejection = (setting: string, status: number, code: string, message: string): Limit => ({
  setting,
  response: closingResponse(status, code, message, ["Retry-After", RETRY_SECONDS]),
});
const IN_TOTAL = rejection(
  "MAX_CONNECTIONS",
  503,
  "INTERNAL_ERROR",
  "the service has too many open connections: try again",
);
const PER_ADDRESS = rejection(
  "MAX_CONNECTIONS_PER_ADDRESS",
  429,
  "RATE_LIMITED",
  "your IP address has too many open connections: close some, and try again",
);

/** Rejected connections that may stay open until their clients have read the reason. Others are closed at once. */
const MAX_REJECTING = 100;
/** Milliseconds. */
const REJECTING = 1000;
/** Milliseconds between two log lines about rejected connections. */
const LOG_INTERVAL = 60_000;

/** Limits open connections, WebSockets included. Counts those of this process. */
export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  readonly #perNetwork = new Map<string, number>();
  #open = 0;
  #rejecting = 0;
  /** Since the last log line. */
  #rejected = 0;
  #loggedAt = Number.NEGATIVE_INFINITY;

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
    const limit = this.#exceeded(address);
    if (limit === null) this.#count(socket, networkOf(address));
    else this.#reject(socket, address, limit);
    return limit === null;
  }

  #exceeded(address: string): Limit | null {
    const { limits, isProxy } = this.#options;
    const { maxConnections, maxConnectionsPerAddress } = limits();
    if (this.#open >= maxConnections) return IN_TOTAL;
    const count = this.#perNetwork.get(networkOf(address)) ?? 0;
    return count >= maxConnectionsPerAddress && !isProxy(address) ? PER_ADDRESS : null;
  }

  #count(socket: Socket, network: string): void {
    this.#open++;
    this.#perNetwork.set(network, (this.#perNetwork.get(network) ?? 0) + 1);
    socket.once("close", () => {
      this.#open--;
      const count = this.#perNetwork.get(network)! - 1;
      if (count > 0) this.#perNetwork.set(network, count);
      else this.#perNetwork.delete(network);
    });
  }

  #reject(socket: Socket, address: string, { setting, response }: Limit): void {
    this.#options.onLimit?.(setting);
    this.#report(address, setting);
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

  #report(address: string, setting: string): void {
    this.#rejected++;
    const now = performance.now();
    if (now - this.#loggedAt < LOG_INTERVAL) return;
    this.#options.log.warn({ address, rejected: this.#rejected }, `connections over ${setting} are rejected`);
    this.#loggedAt = now;
    this.#rejected = 0;
  }
}

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Ends a server gently. Node's own closeIdleConnections leaves a connection open that has not sent a request yet, as
 * browsers open them in advance, and the server would wait for it.
 */
export class Drain {
  readonly #server: Server;
  /** Requests that each connection waits for. */
  readonly #running = new Map<Socket, number>();
  #draining = false;

  constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => this.#track(socket));
    server.on("request", (request, response) => this.#count(request, response));
    // A WebSocket is no connection of HTTP any more.
    server.on("upgrade", (_request, socket) => this.#running.delete(socket as Socket));
  }

  /** No new connections; running requests get `timeout` milliseconds to end. */
  async drain(timeout: number): Promise<void> {
    this.#draining = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const [socket, requests] of this.#running) if (requests === 0) socket.destroy();
    const timer = setTimeout(() => this.#server.closeAllConnections(), timeout);
    await closed;
    clearTimeout(timer);
  }

  #track(socket: Socket): void {
    this.#running.set(socket, 0);
    socket.once("close", () => this.#running.delete(socket));
  }

  #count({ socket }: IncomingMessage, response: ServerResponse): void {
    this.#add(socket, 1);
    response.once("close", () => {
      this.#add(socket, -1);
      if (this.#draining && this.#running.get(socket) === 0) socket.end();
    });
  }

  #add(socket: Socket, change: 1 | -1): void {
    const requests = this.#running.get(socket);
    if (requests !== undefined) this.#running.set(socket, requests + change);
  }
}

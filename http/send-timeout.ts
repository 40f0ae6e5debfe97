import type { Socket } from "node:net";
import type { Logger } from "pino";

export type SendTimeoutOptions = {
  /** Milliseconds without progress after which a connection is closed. */
  readonly timeout: number;
  /** Called with the name of the setting when a connection is closed. */
  onLimit?(setting: string): void;
  readonly log: Logger;
};

/** Bytes that a socket has passed to the system, and how many checks later it has not passed more. */
type Stalled = { readonly sent: number; readonly checks: number };

/** The system accepts bytes only as fast as the client reads. Node's types do not include these fields. */
type Handle = { readonly bytesWritten: number; readonly writeQueueSize: number };

/** Checks within the timeout. They are counted, because a process that was busy may find the time over before it could send. */
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
      const { writeQueueSize = 0, bytesWritten = 0 } = (socket as { _handle?: Handle | null })._handle ?? {};
      if (writeQueueSize === 0) this.#stalled.delete(socket);
      else this.#compare(socket, writeQueueSize, bytesWritten - writeQueueSize);
    }
  }

  #compare(socket: Socket, unsent: number, sent: number): void {
    const stalled = this.#stalled.get(socket);
    const checks = stalled?.sent === sent ? stalled.checks + 1 : 0;
    if (checks < CHECKS) this.#stalled.set(socket, { sent, checks });
    else this.#close(socket, sent, unsent);
  }

  #close(socket: Socket, sent: number, unsent: number): void {
    this.#options.onLimit?.("SEND_TIMEOUT");
    this.#options.log.info(
      { address: socket.remoteAddress, sent, unsent },
      "a connection was closed, because its client did not read the response within SEND_TIMEOUT",
    );
    socket.destroy();
  }
}

import type { Socket } from "node:net";
import { FairQueue } from "../../db/admission/fair-queue.ts";

export type IntakeOptions = {
  /** How many requests have been read and wait, for the process or for the database. */
  waiting(): number;
  /** Whether the process itself is busy. */
  isBusy(): boolean;
};

/** While so many requests wait, no further ones are read. */
const FULL = 100;

/** Milliseconds. */
const PAUSE = 10;

/**
 * Reads no more requests than a busy process can handle: while many wait, a connection is not read after its response, and TCP lets its
 * client wait. To read a request only to refuse it would take half the time of a simple read. Of the clients that wait, the one comes
 * first whose connections were read least often.
 */
export class Intake {
  readonly #options: IntakeOptions;
  readonly #held = new FairQueue<Socket>();
  /** The running requests of each connection. */
  readonly #running = new WeakMap<Socket, number>();
  /** Set while connections are held. */
  #timer: NodeJS.Timeout | null = null;
  #isPlanned = false;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** To be called for each request. */
  received(socket: Socket): void {
    this.#running.set(socket, (this.#running.get(socket) ?? 0) + 1);
  }

  /** To be called after each response. */
  answered(client: () => string, socket: Socket): void {
    const running = this.#running.get(socket)! - 1;
    this.#running.set(socket, running);
    if (this.#timer === null) {
      if (this.#room() > 0) return;
      this.#timer = setInterval(this.#readNext, PAUSE);
    }
    if (!this.#isPlanned) setImmediate(this.#readNext);
    this.#isPlanned = true;
    // Node itself pauses a connection whose client does not read the responses of its pipelined requests.
    if (running > 0 || socket.writableNeedDrain || socket.destroyed || socket.isPaused()) return;
    socket.pause();
    this.#held.add(client(), socket);
  }

  /** How many connections may be read. Requests that wait for a slow database do not keep the process from refusing others. */
  #room(): number {
    const { waiting, isBusy } = this.#options;
    const room = FULL - waiting();
    return room > 0 || isBusy() ? room : FULL;
  }

  /** After a response, and in intervals: the process must be idle to find out that it is not busy. */
  readonly #readNext = (): void => {
    this.#isPlanned = false;
    for (let room = this.#room(); room > 0 && this.#held.size > 0; room--) {
      const { client, item } = this.#held.take()!;
      this.#held.use(client, 1);
      item.resume();
    }
    if (this.#held.size > 0) return;
    clearInterval(this.#timer!);
    this.#timer = null;
  };
}

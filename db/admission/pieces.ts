import { setImmediate } from "node:timers";
import { FairQueue } from "./fair-queue.ts";

/** Milliseconds of a piece. What it sends is written to the sockets at its end, which may take as long again. */
const PIECE = 10;

/** After so many items, the time is read. */
const CHECKED = 32;

/** The name of all work that is started, among the clients. */
const STARTS = "starts";

/**
 * Does long work that is no request in pieces: deliveries to many clients. Between two pieces, the event loop does other work. Of all
 * work that waits, that of the client that has used the least time continues first.
 */
export class Pieces {
  readonly #queue = new FairQueue<() => void>();
  /** When the present piece is over; null before the first work of a turn. */
  #end: number | null = null;
  #isPlanned = false;
  /** Until when the time is counted. */
  #counted = 0;
  #starts: (() => void)[] = [];
  #isStarting = false;
  /** The client whose work has waited, and continues in the present piece. */
  #running: string | null = null;

  /** Whether work waits. */
  get isBusy(): boolean {
    return this.#queue.size > 0;
  }

  /**
   * Acts on the items one after the other, each in a short time. Null if all is done at once; otherwise resolves when it is done.
   * Throws, or rejects, if `act` throws.
   */
  each<T>(client: string, items: readonly T[], act: (item: T) => void): Promise<void> | null {
    const done = this.#actFrom(0, client, items, act);
    return done === items.length ? null : this.#continue(done, client, items, act);
  }

  /** Null if work of the client may go on; otherwise resolves when it may. */
  next(client: string): Promise<void> | null {
    return this.#mayGoOn(client) ? null : this.#wait(client);
  }

  /** Starts work that promises continue, in the order of the calls. What they do at once is part of the piece. */
  start(act: () => void): void {
    this.#starts.push(act);
    if (!this.#isStarting) void this.#startAll();
  }

  async #startAll(): Promise<void> {
    this.#isStarting = true;
    while (this.#starts.length > 0) {
      const starts = this.#starts;
      this.#starts = [];
      for (const act of starts) {
        const pause = this.next(STARTS);
        if (pause) await pause;
        act();
        await new Promise<void>((resolve) => process.nextTick(resolve));
      }
    }
    this.#isStarting = false;
  }

  async #continue<T>(from: number, client: string, items: readonly T[], act: (item: T) => void): Promise<void> {
    for (let done = from; done < items.length; done = this.#actFrom(done, client, items, act)) await this.#wait(client);
  }

  /** Returns the index of the first item that must wait. */
  #actFrom<T>(from: number, client: string, items: readonly T[], act: (item: T) => void): number {
    for (let i = from; i < items.length; i++) {
      if (i % CHECKED === 0 && !this.#mayGoOn(client)) return i;
      act(items[i]!);
    }
    return items.length;
  }

  #mayGoOn(client: string): boolean {
    const now = performance.now();
    if (this.#end === null) this.#begin(now);
    return now < this.#end! && (this.#queue.size === 0 || this.#running === client);
  }

  #begin(now: number): void {
    this.#end = now + PIECE;
    this.#counted = now;
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(this.#nextPiece);
  }

  #wait(client: string): Promise<void> {
    this.#count(client);
    this.#running = null;
    return new Promise((resolve) => this.#queue.add(client, resolve));
  }

  #count(client: string): void {
    const now = performance.now();
    this.#queue.use(client, now - this.#counted);
    this.#counted = now;
  }

  readonly #nextPiece = (): void => {
    this.#isPlanned = false;
    this.#end = null;
    if (this.#queue.size === 0) return;
    this.#begin(performance.now());
    this.#takeNext();
  };

  #takeNext(): void {
    const { client, item } = this.#queue.take()!;
    this.#running = client;
    item();
    // After the promises that follow from it: they are part of the piece.
    queueMicrotask(() => process.nextTick(this.#goOn));
  }

  readonly #goOn = (): void => {
    if (this.#running !== null) this.#count(this.#running);
    this.#running = null;
    if (this.#queue.size > 0 && performance.now() < this.#end!) this.#takeNext();
  };
}

/** Those of the process: it has one event loop. */
export const pieces = new Pieces();

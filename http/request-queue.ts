import { FairQueue, QueueLimit } from "../db/fair-queue.ts";

export type RequestQueueOptions<T> = {
  /** Milliseconds that requests may wait; 0 for no limit. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** Who has sent the request. */
  clientOf(request: T): string;
  handle(request: T): void;
  refuse(request: T): void;
};

/** Milliseconds after which other work is done, such as reading the responses of the database. */
const TURN = 5;

/** This many requests may always wait, also if each takes long. */
const LEAST = 200;

/**
 * Hands requests on at once while the process has time. When more arrive together than it can handle in a turn, the others
 * wait. Otherwise each connection to the database, which is read once in a turn, would be idle for most of it. When more come
 * than the process can handle, those beyond the limit are refused before anything else is done for them.
 */
export class RequestQueue<T> {
  readonly #options: RequestQueueOptions<T>;
  readonly #queue = new FairQueue<T>();
  readonly #limit: QueueLimit;
  readonly #now: () => number;
  /** When the present turn is over; null before its first request. */
  #end: number | null = null;
  #handled = 0;

  constructor(options: RequestQueueOptions<T>) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#limit = new QueueLimit({ least: options.time && LEAST, time: options.time, now: this.#now });
  }

  add(request: T): void {
    const now = this.#now();
    if (this.#end === null) {
      this.#end = now + TURN;
      setImmediate(this.#nextTurn);
    }
    if (this.#queue.size === 0 && now < this.#end) this.#handle(request);
    else this.#wait(request);
  }

  #wait(request: T): void {
    this.#queue.add(this.#options.clientOf(request), request);
    while (this.#limit.isExceeded(this.#queue.size, this.#handled)) this.#options.refuse(this.#queue.takeExcess()!);
  }

  #handle(request: T): void {
    this.#handled++;
    this.#options.handle(request);
  }

  readonly #nextTurn = (): void => {
    this.#end = null;
    if (this.#queue.size === 0) return;
    this.#end = this.#now() + TURN;
    setImmediate(this.#nextTurn);
    this.#handleNext();
  };

  #handleNext(): void {
    const next = this.#queue.take();
    if (next === null) return;
    this.#limit.decreased(this.#queue.size);
    this.#handle(next);
    // After all promises of this request that are settled already: they are a part of its work.
    queueMicrotask(() => process.nextTick(this.#continueTurn));
  }

  readonly #continueTurn = (): void => {
    if (this.#end !== null && this.#now() < this.#end) this.#handleNext();
  };
}

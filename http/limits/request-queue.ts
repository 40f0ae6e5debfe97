import { FairQueue, QueueLimit } from "../../db/admission/fair-queue.ts";

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

/** Milliseconds of a turn. After it, the event loop does other work, such as reading the responses of the database. */
const TURN = 5;

/** This many requests may always wait, even if each takes long. */
const LEAST = 200;

/**
 * Handles requests immediately while the process has time. Requests beyond what it can handle in one turn wait for the next.
 * Without turns, connections to the database would be idle for most of a burst, because each is read only once per turn. If more
 * requests arrive than the process can handle, those beyond the limit are refused before any other work is done for them.
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
    // Continues after the promises of this request that are already settled: their callbacks are part of its work.
    queueMicrotask(() => process.nextTick(this.#continueTurn));
  }

  readonly #continueTurn = (): void => {
    if (this.#end !== null && this.#now() < this.#end) this.#handleNext();
  };
}

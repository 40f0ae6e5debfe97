import type { Readable } from "node:stream";
import { FairQueue } from "../../db/admission/fair-queue.ts";

export type BulkOptions = {
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
};

/** Parts that are read in one turn of the event loop. Node reads at most 64 kB at once. */
const PARTS = 4;

/** Bytes per millisecond. V8 collects the heap for about every 40 MB of parts that are kept, and all requests wait for that. */
const RATE = 32_768;

/** Bytes that may be read at once if little was read before: the largest body that clients may send by default. */
const MAX_SAVED = 16_777_216;

/**
 * Shares the reading of what clients send in bulk: long bodies, and what is only read because its client is still sending. Of all that
 * wait, few parts are read in each turn of the event loop, first those of the network that has sent the least. Otherwise a turn in which
 * a hundred bodies arrive would take tens of milliseconds.
 */
export class Bulk {
  readonly #queue = new FairQueue<() => void>();
  readonly #now: () => number;
  #saved = MAX_SAVED;
  #savedAt = Number.NEGATIVE_INFINITY;
  #isPlanned = false;

  constructor({ now = () => performance.now() }: BulkOptions = {}) {
    this.#now = now;
  }

  /** Counts a part that was read from a network, and calls back when the next one may be read. */
  next(network: string, bytes: number, read: () => void): void {
    this.#queue.use(network, bytes);
    this.#queue.add(network, read);
    this.#refill();
    this.#saved -= bytes;
    this.#plan();
  }

  #refill(): void {
    const now = this.#now();
    this.#saved = Math.min(MAX_SAVED, this.#saved + (now - this.#savedAt) * RATE);
    this.#savedAt = now;
  }

  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    if (this.#saved > 0) setImmediate(this.#readNext);
    else setTimeout(this.#readNext, Math.ceil(-this.#saved / RATE));
  }

  readonly #readNext = (): void => {
    this.#isPlanned = false;
    this.#refill();
    for (let part = 0; part < PARTS && this.#saved > 0; part++) this.#queue.take()?.item();
    if (this.#queue.size > 0) this.#plan();
  };
}

/** Frees the memory of a part that nothing else uses, once. V8 would collect the whole heap for every 64 MB of them. */
export function free({ buffer, byteLength }: Buffer): void {
  if (byteLength > 0 && buffer.byteLength === byteLength) (buffer as ArrayBuffer).transfer(0);
}

/** Bytes that are read only because their client is still sending: eight of the largest bodies by default. */
const MAX_DISCARDED = 134_217_728;

/**
 * Reads what a client still sends, until the connection ends: if it were closed at once, the client might not receive the reason. The
 * connection of a client that sends more than MAX_DISCARDED bytes is closed.
 */
export function discard(stream: Readable, network: string, bulk: Bulk): void {
  let bytes = 0;
  stream.on("data", (part: Buffer) => {
    bytes += part.length;
    if (bytes > MAX_DISCARDED) return void stream.destroy();
    stream.pause();
    bulk.next(network, part.length, () => stream.resume());
    // Not at once: the parser is still in it.
    setImmediate(free, part);
  });
}

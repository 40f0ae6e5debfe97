import type { Change } from "./change.ts";
import { comparePositions, type Position } from "./position.ts";

/** `received` is the number of bytes that the ring has received up to this change, `at` when, in milliseconds since 1970. */
type Entry = { readonly change: Change; readonly received: number; readonly at: number };

/** No change precedes it. */
export const ORIGIN: Position = { lsn: 0n, index: 0 };

/**
 * The latest changes in commit order, numbered. Readers keep a number and read at their own pace; beyond a size or an age
 * the oldest changes are dropped. Every change after `start` and up to `end` is in the ring.
 */
export class Ring {
  readonly #maxBytes: number;
  readonly #maxAge: number;
  #entries: Entry[] = [];
  /** The index of the oldest entry in `#entries`. */
  #head = 0;
  #oldest = 0;
  /** Bytes received, and those of them that were dropped. */
  #received = 0;
  #dropped = 0;
  #start = ORIGIN;
  /** Every change up to here is in the ring, or was. */
  end = ORIGIN;

  /** `maxAge` is milliseconds. */
  constructor(maxBytes: number, maxAge: number) {
    this.#maxBytes = maxBytes;
    this.#maxAge = maxAge;
  }

  get start(): Position {
    return this.#start;
  }

  /** The number of the oldest change. */
  get oldest(): number {
    return this.#oldest;
  }

  /** The number that the next change will get. */
  get next(): number {
    return this.#oldest + this.#entries.length - this.#head;
  }

  get bytes(): number {
    return this.#received - this.#dropped;
  }

  /** When the oldest change was added, in milliseconds since 1970; null without changes. */
  get since(): number | null {
    return this.#entries[this.#head]?.at ?? null;
  }

  /** The change with this number, which must be at least `oldest` and less than `next`. */
  at(number: number): Change {
    return this.#entryAt(number).change;
  }

  /** The number of the first change after a position, which must not precede `start`. */
  numberAfter(position: Position): number {
    let [low, high] = [this.oldest, this.next];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (comparePositions(this.at(middle).position, position) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The bytes of the changes from this number on. */
  bytesFrom(number: number): number {
    return number <= this.#oldest ? this.bytes : this.#received - this.#entryAt(number - 1).received;
  }

  /** Adds the change that follows `end`. `bytes` is its approximate size. Changes from the number `needed` on are not dropped. */
  add(change: Change, bytes: number, needed = this.next, now = Date.now()): void {
    this.#received += bytes;
    this.#entries.push({ change, received: this.#received, at: now });
    this.end = change.position;
    // The newest change stays, whatever its size: a reader that waits for it must get it.
    const last = Math.min(needed, this.next - 1);
    while (this.#oldest < last && this.#isFull(now)) this.#dropOldest();
  }

  /** There is no further change up to this position. */
  reach(position: Position): void {
    if (comparePositions(position, this.end) > 0) this.end = position;
  }

  /** Drops everything: changes before `start` may be missing. */
  restart(start: Position): void {
    // One number is left out, so that readers at the end notice too.
    this.#oldest = this.next + 1;
    this.#entries = [];
    this.#head = 0;
    this.#dropped = this.#received;
    this.#start = start;
    this.end = start;
  }

  #entryAt(number: number): Entry {
    return this.#entries[this.#head + number - this.#oldest]!;
  }

  #isFull(now: number): boolean {
    return this.bytes > this.#maxBytes || now - this.#entries[this.#head]!.at > this.#maxAge;
  }

  #dropOldest(): void {
    const { change, received } = this.#entries[this.#head]!;
    this.#dropped = received;
    this.#start = change.position;
    // Frees the change before the array itself is shortened.
    delete this.#entries[this.#head++];
    this.#oldest++;
    // Removing each entry from the front of an array would take time proportional to its length.
    if (this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }
}

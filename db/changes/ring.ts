/** One change in the ring. `bytes` is its approximate size, `at` when it was added, in milliseconds since 1970. */
type Entry<T> = { readonly value: T; readonly bytes: number; readonly at: number };

/**
 * The latest changes in commit order, numbered from 0. Readers keep a number and read at their own pace; beyond a size or
 * an age the oldest changes are dropped.
 */
export class Ring<T> {
  readonly #maxBytes: number;
  readonly #maxAge: number;
  #entries: Entry<T>[] = [];
  /** The position of the oldest entry in `#entries`. */
  #head = 0;
  #bytes = 0;
  #dropped = 0;

  /** `maxAge` is milliseconds. */
  constructor(maxBytes: number, maxAge: number) {
    this.#maxBytes = maxBytes;
    this.#maxAge = maxAge;
  }

  /** The number of the oldest change that can still be read. */
  get oldest(): number {
    return this.#dropped;
  }

  /** The number of the next change. */
  get next(): number {
    return this.#dropped + this.#entries.length - this.#head;
  }

  /** The change with this number, which must be at least `oldest` and less than `next`. */
  at(number: number): T {
    return this.#entries[this.#head + number - this.#dropped]!.value;
  }

  add(value: T, bytes: number, now = Date.now()): void {
    this.#entries.push({ value, bytes, at: now });
    this.#bytes += bytes;
    // The newest change stays, whatever its size: a reader that waits for it must get it.
    while (this.#entries.length - this.#head > 1 && this.#isFull(now)) this.#dropOldest();
  }

  clear(): void {
    this.#dropped = this.next;
    this.#entries = [];
    this.#head = 0;
    this.#bytes = 0;
  }

  #isFull(now: number): boolean {
    return this.#bytes > this.#maxBytes || now - this.#entries[this.#head]!.at > this.#maxAge;
  }

  #dropOldest(): void {
    this.#bytes -= this.#entries[this.#head]!.bytes;
    // Frees the change before the array itself is shortened.
    delete this.#entries[this.#head++];
    this.#dropped++;
    // Removing each entry from the front of an array would take time proportional to its length.
    if (this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }
}

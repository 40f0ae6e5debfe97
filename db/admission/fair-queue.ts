/** Items of clients that wait. The items of a client stay in order, and clients take turns. */
export class FairQueue<T> {
  /** By client, in the order of their turns. */
  readonly #items = new Map<string, T[]>();
  /** How many clients have this number of items. */
  readonly #clientsWith: number[] = [];
  readonly #exempt: string | null;
  #most = 0;
  #size = 0;

  /** The items of the client `exempt` are never too many. */
  constructor(exempt: string | null = null) {
    this.#exempt = exempt;
  }

  get size(): number {
    return this.#size;
  }

  has(client: string): boolean {
    return this.#size > 0 && this.#items.has(client);
  }

  /** The clients and their items. */
  [Symbol.iterator](): Iterator<[client: string, items: readonly T[]]> {
    return this.#items.entries();
  }

  add(client: string, item: T): void {
    const items = this.#items.get(client);
    if (items === undefined) this.#items.set(client, [item]);
    else items.push(item);
    this.#resized(client, items?.length ?? 1, 1);
  }

  remove(client: string, item: T): void {
    const items = this.#items.get(client)!;
    items.splice(items.indexOf(item), 1);
    if (items.length === 0) this.#items.delete(client);
    this.#resized(client, items.length, -1);
  }

  /** Takes the first item of the client with the next turn. A client whose first item may not go keeps its turn. */
  take(mayGo: (item: T) => boolean = () => true): T | null {
    for (const [client, items] of this.#items) {
      const [first] = items as [T];
      if (!mayGo(first)) continue;
      items.shift();
      this.#items.delete(client);
      if (items.length > 0) this.#items.set(client, items);
      this.#resized(client, items.length, -1);
      return first;
    }
    return null;
  }

  /** Whether `takeExcess` would take a further item of the client. */
  wouldExceed(client: string): boolean {
    return client !== this.#exempt && (this.#items.get(client)?.length ?? 0) >= this.#most - 1;
  }

  /** Takes the newest item of the client with the most; of several such clients, of the one whose turn is last. */
  takeExcess(): T | null {
    let excess: string | null = null;
    for (const [client, { length }] of this.#items)
      if (length === this.#most && client !== this.#exempt) excess = client;
    if (excess === null) return null;
    const items = this.#items.get(excess)!;
    const newest = items.pop()!;
    if (items.length === 0) this.#items.delete(excess);
    this.#resized(excess, items.length, -1);
    return newest;
  }

  #resized(client: string, length: number, change: 1 | -1): void {
    this.#size += change;
    if (client === this.#exempt) return;
    const before = length - change;
    this.#clientsWith[before] = (this.#clientsWith[before] ?? 0) - 1;
    this.#clientsWith[length] = (this.#clientsWith[length] ?? 0) + 1;
    if (length > this.#most || (before === this.#most && this.#clientsWith[before] === 0)) this.#most = length;
  }
}

/** Milliseconds during which any number may wait. After that the limit applies. */
const BURST = 1000;

type QueueLimitOptions = {
  /** This many may always wait; 0 for no limit. */
  readonly least: number;
  /** Milliseconds: as many may wait as are done in this time. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
};

/**
 * Decides how many may wait. If more come than can be done, a queue without a limit would grow, and all would wait longer and
 * longer. Counts what is done each second, because the right length depends on it.
 */
export class QueueLimit {
  readonly #options: QueueLimitOptions;
  readonly #now: () => number;
  /** The present second, and what had been done before it; null while few wait. */
  #second: { readonly start: number; readonly done: number } | null = null;
  #max = Number.POSITIVE_INFINITY;

  constructor(options: QueueLimitOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether this many are too many. `done` is what has been done since the process started. */
  isExceeded(waiting: number, done: number): boolean {
    const { least, time } = this.#options;
    if (this.#second === null && (waiting <= least || least === 0)) return false;
    const now = this.#now();
    const { start, done: before } = this.#second ?? { start: now, done };
    if (this.#second === null) this.#second = { start, done };
    if (now - start >= BURST) {
      this.#max = Math.max(least, ((done - before) * time) / (now - start));
      this.#second = { start: now, done };
    }
    return waiting > this.#max;
  }

  /** To be called when fewer wait than before. A burst may come again when few are left. */
  decreased(waiting: number): void {
    if (waiting >= this.#options.least / 2) return;
    this.#second = null;
    this.#max = Number.POSITIVE_INFINITY;
  }
}

import { NETWORKS_PER_SITE, siteOf } from "../network.ts";

/** The items of one client that wait. */
type Line<T> = {
  readonly client: string;
  readonly items: T[];
  /** How many of them may be taken as excess. */
  counted: number;
  position: number;
};

type FairQueueOptions<T> = {
  /** Whether an item may be taken as excess. Default: all. */
  isCounted?(client: string, item: T): boolean;
};

/** After so many uses, those that make no difference any more are forgotten. */
const FORGET_AFTER = 1000;

/**
 * Items of clients that wait. The items of a client stay in order. The client that has used the least comes first; of several, the one
 * that has waited longest. A client that comes back after a while continues from where the others are: it has saved nothing.
 * Source: start-time fair queueing (Goyal, Vin, Cheng 1996).
 */
export class FairQueue<T> {
  readonly #lines = new Map<string, Line<T>>();
  /** The lines in the order of their positions, the next one last. */
  readonly #order: Line<T>[] = [];
  /** What each client, and each site of networks, has used, if that is more than the position. */
  readonly #used = new Map<string, number>();
  /** That of the client that was served last. */
  #position = 0;
  #uses = 0;
  /** How many clients have this number of counted items. */
  readonly #clientsWith: number[] = [];
  readonly #isCounted: (client: string, item: T) => boolean;
  #most = 0;
  #size = 0;
  #counted = 0;

  constructor({ isCounted = () => true }: FairQueueOptions<T> = {}) {
    this.#isCounted = isCounted;
  }

  get size(): number {
    return this.#size;
  }

  /** The number of items that may be taken as excess. */
  get counted(): number {
    return this.#counted;
  }

  has(client: string): boolean {
    return this.#size > 0 && this.#lines.has(client);
  }

  /** The clients and their items. */
  *[Symbol.iterator](): Iterator<[client: string, items: readonly T[]]> {
    for (const { client, items } of this.#lines.values()) yield [client, items];
  }

  add(client: string, item: T): void {
    let line = this.#lines.get(client);
    if (line === undefined) {
      line = { client, items: [], counted: 0, position: 0 };
      this.#lines.set(client, line);
      this.#place(line);
    }
    line.items.push(item);
    this.#resized(line, item, 1);
  }

  remove(client: string, item: T): void {
    const line = this.#lines.get(client)!;
    this.#removeAt(line, line.items.indexOf(item));
  }

  /**
   * Takes the first item of the client with the next turn. A client whose first item may not go keeps its turn, unless later ones may
   * overtake it.
   */
  take(
    mayGo: (item: T) => boolean = () => true,
    mayOvertake = false,
  ): { readonly client: string; readonly item: T } | null {
    for (let i = this.#order.length - 1; i >= 0; i--) {
      const line = this.#order[i]!;
      // Other networks of the same site have been served meanwhile.
      if (this.#ownOf(line.client) > line.position) {
        this.#move(line);
        i = this.#order.length;
        continue;
      }
      const index = mayOvertake ? line.items.findIndex(mayGo) : mayGo(line.items[0]!) ? 0 : -1;
      if (index < 0) continue;
      this.#position = Math.max(this.#position, line.position);
      const item = this.#removeAt(line, index);
      // Of clients that have used the same, this one is now the last.
      if (line.items.length > 0) this.#move(line);
      return { client: line.client, item };
    }
    return null;
  }

  /** Counts what a client has used, in any unit. */
  use(client: string, amount: number): void {
    this.#add(client, amount);
    const site = siteOf(client);
    if (site !== null) this.#add(site, amount / NETWORKS_PER_SITE);
    const line = this.#lines.get(client);
    if (line) this.#move(line);
    if (++this.#uses >= FORGET_AFTER) this.#forget();
  }

  /** Whether `takeExcess` would take a further item of the client. */
  wouldExceed(client: string): boolean {
    return (this.#lines.get(client)?.counted ?? 0) >= this.#most - 1;
  }

  /** Takes the newest item of the client with the most; of several such clients, of the one whose turn is last. */
  takeExcess(): T | null {
    if (this.#counted === 0) return null;
    const line = this.#order.find(({ counted }) => counted === this.#most)!;
    const { client, items } = line;
    return this.#removeAt(
      line,
      items.findLastIndex((item) => this.#isCounted(client, item)),
    );
  }

  #add(name: string, amount: number): void {
    this.#used.set(name, Math.max(this.#position, this.#used.get(name) ?? 0) + amount);
  }

  #ownOf(client: string): number {
    const site = siteOf(client);
    return Math.max(this.#used.get(client) ?? 0, (site !== null && this.#used.get(site)) || 0);
  }

  #usedBy(client: string): number {
    return Math.max(this.#position, this.#ownOf(client));
  }

  #forget(): void {
    this.#uses = 0;
    for (const [client, used] of this.#used) if (used <= this.#position) this.#used.delete(client);
  }

  /** Inserts a line behind those that have used as much or less. */
  #place(line: Line<T>): void {
    line.position = this.#usedBy(line.client);
    let from = 0;
    let to = this.#order.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#order[middle]!.position > line.position) from = middle + 1;
      else to = middle;
    }
    this.#order.splice(from, 0, line);
  }

  #move(line: Line<T>): void {
    this.#order.splice(this.#order.lastIndexOf(line), 1);
    this.#place(line);
  }

  #removeAt(line: Line<T>, index: number): T {
    const [item] = line.items.splice(index, 1);
    this.#resized(line, item!, -1);
    if (line.items.length === 0) {
      this.#lines.delete(line.client);
      this.#order.splice(this.#order.lastIndexOf(line), 1);
    }
    return item!;
  }

  #resized(line: Line<T>, item: T, change: 1 | -1): void {
    this.#size += change;
    if (!this.#isCounted(line.client, item)) return;
    this.#counted += change;
    const before = line.counted;
    line.counted += change;
    this.#clientsWith[before] = (this.#clientsWith[before] ?? 0) - 1;
    this.#clientsWith[line.counted] = (this.#clientsWith[line.counted] ?? 0) + 1;
    if (line.counted > this.#most || (before === this.#most && this.#clientsWith[before] === 0))
      this.#most = line.counted;
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

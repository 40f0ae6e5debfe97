import { Ring } from "./ring.ts";

/** A committed change of one row. `row` is the new row, or the old one of a DELETE: its columns in Postgres' text form. */
export type Change = {
  readonly schema: string;
  readonly table: string;
  readonly operation: "INSERT" | "UPDATE" | "DELETE";
  readonly row: Readonly<Record<string, string | null>>;
};

/** The changes that a subscriber receives: those of one table and operation whose columns have these values. */
export type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
};

/** Receives what a source reads. */
export type ChangeSink = {
  /** `bytes` is the approximate size of the change. */
  receive(change: Change, bytes: number): void;
  /** The source may have missed changes. */
  interrupt(): void;
};

/** Where committed changes are read. */
export interface ChangeSource {
  /** Connects in the background. */
  start(): void;
  /** Sends changes to the sink. Resolves when every later commit will be sent. Rejects with FeedInterrupted if that takes too long. */
  open(sink: ChangeSink): Promise<void>;
  /** Stops sending changes, until the next `open`. */
  rest(): void;
  close(): Promise<void>;
}

/** Thrown to a subscriber that may have missed changes. */
export class FeedInterrupted extends Error {
  constructor(reason: string) {
    super(`${reason}; subscribe again and reload the data`);
  }
}

export type ChangeFeedOptions = {
  /** Null if changes cannot be read: each subscription ends with an error. */
  readonly source: ChangeSource | null;
  /** Maximum size in bytes of the changes that are kept for slow subscribers. */
  readonly maxBytes: number;
};

/** Milliseconds that changes are kept for slow subscribers. */
const MAX_AGE = 300_000;
/** Milliseconds without subscribers after which the source rests. */
const REST_AFTER = 60_000;

/**
 * The committed changes of rows, in commit order. The source is read only while there are subscribers. Each subscriber reads at
 * its own pace.
 */
export class ChangeFeed {
  readonly #source: ChangeSource | null;
  readonly #ring: Ring<Change>;
  readonly #subscriptions = new Set<Subscription>();
  /** Pending or done while the source is open. */
  #opening: Promise<void> | null = null;
  #isOpen = false;
  #restTimer: NodeJS.Timeout | undefined;

  constructor({ source, maxBytes }: ChangeFeedOptions) {
    this.#source = source;
    source?.start();
    this.#ring = new Ring(maxBytes, MAX_AGE);
  }

  /** Subscriptions that receive every change from now on. */
  get subscriptions(): number {
    return this.#isOpen ? this.#subscriptions.size : 0;
  }

  /**
   * The matching changes that are committed from now on, in commit order. The iteration throws FeedInterrupted when changes may
   * have been missed or the subscriber reads too slowly; it ends when the feed is closed.
   */
  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change> {
    clearTimeout(this.#restTimer);
    const subscription: Subscription = new Subscription(filter, this.#ring, () => this.#remove(subscription));
    this.#subscriptions.add(subscription);
    if (!this.#isOpen) void this.#open();
    return subscription;
  }

  async close(): Promise<void> {
    clearTimeout(this.#restTimer);
    for (const subscription of [...this.#subscriptions]) subscription.end();
    clearTimeout(this.#restTimer);
    await this.#source?.close();
  }

  async #open(): Promise<void> {
    if (!this.#source) return this.#interrupt(new FeedInterrupted("this service does not read changes"));
    this.#opening ??= this.#source
      .open({ receive: (change, bytes) => this.#receive(change, bytes), interrupt: () => this.#interrupt() })
      .then(
        () => {
          this.#isOpen = true;
        },
        (error: FeedInterrupted) => this.#interrupt(error),
      );
    await this.#opening;
  }

  #receive(change: Change, bytes: number): void {
    this.#ring.add(change, bytes);
    for (const subscription of this.#subscriptions) subscription.wake();
  }

  #interrupt(error = lostConnection()): void {
    this.#opening = null;
    this.#isOpen = false;
    for (const subscription of [...this.#subscriptions]) subscription.end(error);
    this.#ring.clear();
  }

  #remove(subscription: Subscription): void {
    this.#subscriptions.delete(subscription);
    if (this.#subscriptions.size > 0 || !this.#opening) return;
    this.#restTimer = setTimeout(() => {
      this.#opening = null;
      this.#isOpen = false;
      this.#source?.rest();
      this.#ring.clear();
    }, REST_AFTER);
    this.#restTimer.unref();
  }
}

const lostConnection = () => new FeedInterrupted("the connection to the database was lost");
const tooSlow = () => new FeedInterrupted("this subscription reads too slowly");

type Waiting = { resolve(result: IteratorResult<Change>): void; reject(error: Error): void };

/** The changes of the ring that match a filter. */
class Subscription implements AsyncIterableIterator<Change> {
  readonly #filter: ChangeFilter;
  readonly #ring: Ring<Change>;
  readonly #onEnd: () => void;
  /** The number of the change to look at next. */
  #next: number;
  #waiting: Waiting | null = null;
  #ended = false;
  #error: FeedInterrupted | undefined;

  constructor(filter: ChangeFilter, ring: Ring<Change>, onEnd: () => void) {
    this.#filter = filter;
    this.#ring = ring;
    this.#onEnd = onEnd;
    this.#next = ring.next;
  }

  /** Called after each change of the ring. */
  wake(): void {
    if (!this.#waiting) return;
    const { resolve } = this.#waiting;
    const change = this.#read();
    if (!change) return;
    this.#waiting = null;
    resolve({ value: change, done: false });
  }

  end(error?: FeedInterrupted): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#onEnd();
    if (!this.#waiting) return;
    if (error) this.#waiting.reject(error);
    else this.#waiting.resolve({ value: undefined, done: true });
    this.#waiting = null;
  }

  next(): Promise<IteratorResult<Change>> {
    if (!this.#ended && this.#next < this.#ring.oldest) this.end(tooSlow());
    const change = this.#ended ? undefined : this.#read();
    if (change) return Promise.resolve({ value: change, done: false });
    if (!this.#ended) return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
    const error = this.#error;
    this.#error = undefined;
    return error ? Promise.reject(error) : Promise.resolve({ value: undefined, done: true });
  }

  return(): Promise<IteratorResult<Change>> {
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  throw(): Promise<IteratorResult<Change>> {
    return this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next matching change; undefined when the rest of the ring has none. */
  #read(): Change | undefined {
    while (this.#next < this.#ring.next) {
      const change = this.#ring.at(this.#next++);
      if (matches(change, this.#filter)) return change;
    }
    return undefined;
  }
}

function matches(change: Change, { schema, table, operation, where }: ChangeFilter): boolean {
  if (change.table !== table || change.operation !== operation || change.schema !== schema) return false;
  for (const column in where) if (change.row[column] !== where[column]) return false;
  return true;
}

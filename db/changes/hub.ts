import { type Change, type ChangeFilter, FeedInterrupted } from "./feed.ts";

/** Maximum pending changes of one subscriber; with more, its subscription ends. */
const MAX_WAITING = 1000;

/** Delivers each change to the matching subscriptions. */
export class Hub {
  readonly #subscriptions = new Set<Subscription>();

  /** Subscriptions that have not ended. */
  get size(): number {
    return this.#subscriptions.size;
  }

  subscribe(filter: ChangeFilter): Subscription {
    const subscription: Subscription = new Subscription(filter, () => this.#subscriptions.delete(subscription));
    this.#subscriptions.add(subscription);
    return subscription;
  }

  publish(change: Change): void {
    for (const subscription of this.#subscriptions) subscription.offer(change);
  }

  /** Ends all subscriptions, with or without an error. */
  end(error?: FeedInterrupted): void {
    for (const subscription of [...this.#subscriptions]) subscription.end(error);
  }
}

type Waiting = { resolve(result: IteratorResult<Change>): void; reject(error: Error): void };

/** The changes that match a filter; unread changes are queued. */
export class Subscription implements AsyncIterableIterator<Change> {
  readonly #filter: ChangeFilter;
  readonly #onEnd: () => void;
  readonly #changes: Change[] = [];
  #waiting: Waiting | null = null;
  #ended = false;
  #error: FeedInterrupted | undefined;

  constructor(filter: ChangeFilter, onEnd: () => void) {
    this.#filter = filter;
    this.#onEnd = onEnd;
  }

  offer(change: Change): void {
    if (!matches(change, this.#filter)) return;
    if (this.#waiting) {
      this.#waiting.resolve({ value: change, done: false });
      this.#waiting = null;
    } else if (this.#changes.length < MAX_WAITING) {
      this.#changes.push(change);
    } else {
      this.end(new FeedInterrupted("this subscription reads too slowly"));
    }
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
    const change = this.#changes.shift();
    if (change) return Promise.resolve({ value: change, done: false });
    if (!this.#ended) return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
    const error = this.#error;
    this.#error = undefined;
    return error ? Promise.reject(error) : Promise.resolve({ value: undefined, done: true });
  }

  return(): Promise<IteratorResult<Change>> {
    this.#changes.length = 0;
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  throw(): Promise<IteratorResult<Change>> {
    return this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

const matches = (change: Change, { schema, table, operation, where }: ChangeFilter): boolean =>
  change.schema === schema &&
  change.table === table &&
  change.operation === operation &&
  Object.entries(where).every(([key, value]) => change.keys[key] === value);

import {
  ApiError,
  addressReadsTooSlowly,
  clientsReadTooSlowly,
  connectionsBusy,
  overloaded,
  type Problem,
} from "./errors.ts";
import { FairQueue, QueueLimit } from "./fair-queue.ts";
import type { Recipient, UnsentBytes } from "./unsent-bytes.ts";

export type AdmissionOptions = {
  /** Transactions that may run at the same time: the connections of the pool. */
  readonly slots: number;
  /** Maximum percentage of the slots that one client may hold; at least one slot. */
  readonly share: number;
  /** Milliseconds that a transaction waits before it is refused. */
  readonly timeout: number;
  /** Transactions that may wait for each slot, or more if they wait only briefly; 0 for no limit. */
  readonly queue: number;
  readonly unsent: UnsentBytes;
  /** Called with the name of the setting whose limit has refused a transaction. */
  onLimit?(setting: string): void;
  /** Why a transaction is refused if no slot becomes free. */
  readonly busy?: () => Problem;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
};

type Waiter = { readonly recipient: Recipient | null; admit(): void; refuse(): void };

/** The name of the client for all work that no request waits for. It has no share. */
const INTERNAL = "";

const nameOf = (recipient: Recipient | null) => recipient?.client ?? INTERNAL;

/** Milliseconds. More than `queue` may wait for each slot if they wait no longer than this. */
const SHORT_WAIT = 200;

/**
 * Decides which transaction runs next on a pool of connections. While a client holds its full share of the connections,
 * others overtake it. A client at an IP address with too many unread results waits too. Clients take turns; the
 * transactions of one client run in order. When more transactions arrive than the slots can run, those that would wait
 * longest are refused at once, so that the others do not wait longer and longer.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #share: number;
  /** The number of transactions that run, by client. */
  readonly #running = new Map<string, number>();
  readonly #queue = new FairQueue<Waiter>(INTERNAL);
  readonly #limit: QueueLimit;
  #free: number;
  #done = 0;
  /** Transactions that were refused because they waited too long for a connection. */
  timeouts = 0;

  constructor(options: AdmissionOptions) {
    const { slots, share, queue, now, unsent } = options;
    this.#options = options;
    this.#free = slots;
    this.#limit = new QueueLimit({ least: queue * slots, time: SHORT_WAIT, ...(now && { now }) });
    this.#share = Math.max(1, Math.floor((slots * share) / 100));
    unsent.onTaken(() => this.#admitNext());
  }

  /** Transactions that wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Whether a further transaction of the client would be refused at once. */
  refuses(client: string): boolean {
    if (this.#queue.size === 0) return false;
    this.#refuseExcess();
    return this.#limit.isExceeded(this.#queue.size + 1, this.#done) && this.#queue.wouldExceed(client);
  }

  /** Null if the transaction may run now. Rejects with ApiError after the timeout. `leave` must follow if it does not reject. */
  enter(recipient: Recipient | null): Promise<void> | null {
    if (recipient !== null) this.#options.unsent.refuseTooLarge(recipient);
    if (this.#queue.has(nameOf(recipient)) || !this.#mayRun(recipient)) return this.#wait(recipient);
    this.#start(recipient);
    return null;
  }

  leave(recipient: Recipient | null): void {
    const client = nameOf(recipient);
    const running = this.#running.get(client)! - 1;
    if (running === 0) this.#running.delete(client);
    else this.#running.set(client, running);
    this.#free++;
    this.#done++;
    this.#admitNext();
  }

  #mayRun(recipient: Recipient | null): boolean {
    if (this.#free === 0) return false;
    if (recipient === null) return true;
    const running = this.#running.get(recipient.client) ?? 0;
    return running < this.#share && this.#options.unsent.limitReached(recipient) === null;
  }

  #start(recipient: Recipient | null): void {
    const client = nameOf(recipient);
    this.#free--;
    this.#running.set(client, (this.#running.get(client) ?? 0) + 1);
    recipient?.open(this.#options.unsent);
  }

  #wait(recipient: Recipient | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#queue.remove(nameOf(recipient), waiter);
        this.#limit.decreased(this.#queue.size);
        reject(new ApiError(this.#refusal(recipient)));
        // The next transaction of the client may be for another address.
        this.#admitNext();
      }, this.#options.timeout);
      const admit = () => {
        clearTimeout(timer);
        resolve();
      };
      const refuse = () => {
        clearTimeout(timer);
        reject(new ApiError(this.#refusal(recipient, "queue")));
      };
      const waiter: Waiter = { recipient, admit, refuse };
      this.#queue.add(nameOf(recipient), waiter);
      this.#refuseExcess();
    });
  }

  #refuseExcess(): void {
    while (this.#limit.isExceeded(this.#queue.size, this.#done)) {
      const excess = this.#queue.takeExcess();
      if (excess === null) return;
      excess.refuse();
    }
  }

  #admitNext(): void {
    while (this.#free > 0 && this.#queue.size > 0) {
      const next = this.#queue.take((waiter) => this.#mayRun(waiter.recipient));
      if (next === null) return;
      this.#limit.decreased(this.#queue.size);
      this.#start(next.recipient);
      next.admit();
    }
  }

  #refusal(recipient: Recipient | null, cause: "time" | "queue" = "time"): Problem {
    const reached = recipient && this.#options.unsent.limitReached(recipient);
    if (reached === null && cause === "time") this.timeouts++;
    this.#options.onLimit?.(SETTINGS[reached ?? cause]);
    if (reached === null) return cause === "queue" ? overloaded() : (this.#options.busy ?? connectionsBusy)();
    return reached === "address" ? addressReadsTooSlowly() : clientsReadTooSlowly();
  }
}

/** The settings of the limits. */
const SETTINGS = {
  time: "DB_POOL_TIMEOUT",
  queue: "DB_POOL_QUEUE",
  address: "MAX_UNSENT_BYTES_PER_ADDRESS",
  total: "MAX_UNSENT_BYTES",
} as const;

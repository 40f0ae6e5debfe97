import {
  ApiError,
  addressReadsTooSlowly,
  clientsReadTooSlowly,
  connectionsBusy,
  overloaded,
  type Problem,
} from "./errors.ts";
import type { Recipient, UnsentBytes } from "./recipient.ts";

export type AdmissionOptions = {
  /** Transactions that may run at the same time: the connections of the pool. */
  readonly slots: number;
  /** Maximum percentage of the slots that one client may hold; at least one slot. */
  readonly share: number;
  /** Milliseconds that a transaction waits before it is refused. */
  readonly timeout: number;
  /** Transactions that may wait for each slot, after a burst; 0 for no limit. */
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

/** The transactions of one client: how many run, and those that wait, in order. */
type Client = { readonly name: string; running: number; waiting: Waiter[] | null };

/** The name of the client for all work that no request waits for. It has no share. */
const INTERNAL = "";

/** Milliseconds for which more may wait than the limit allows: the slots can still run a short burst in time. */
const BURST = 1000;

/**
 * Decides which transaction runs next on a pool of connections. A client may hold its share of the connections at once;
 * the others overtake it. A client at an IP address with too many unread results waits too. Clients take turns; the
 * transactions of one client run in order. When more transactions arrive than the slots can run, those that would wait
 * longest are refused at once, so that the others do not wait longer and longer.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #share: number;
  readonly #clients = new Map<string, Client>();
  /** The clients with waiting transactions; the first has the next turn. */
  readonly #turns = new Set<Client>();
  #free: number;
  readonly #maxWaiting: number;
  readonly #now: () => number;
  #waiting = 0;
  /** When the queue exceeded its limit; null if it has not, or has been below half of the limit since then. */
  #fullSince: number | null = null;
  /** Transactions that were refused because they waited too long for a connection. */
  timeouts = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#free = options.slots;
    this.#maxWaiting = options.queue * options.slots || Number.POSITIVE_INFINITY;
    this.#now = options.now ?? (() => performance.now());
    this.#share = Math.max(1, Math.floor((options.slots * options.share) / 100));
    options.unsent.onTaken(() => this.#admitNext());
  }

  /** Transactions that wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Null if the transaction may run now. Rejects with ApiError after the timeout. `leave` must follow if it does not reject. */
  enter(recipient: Recipient | null): Promise<void> | null {
    if (recipient !== null) this.#options.unsent.refuseTooLarge(recipient);
    const client = this.#clientOf(recipient);
    if (client.waiting === null && this.#mayRun(client, recipient)) {
      this.#start(client, recipient);
      return null;
    }
    return this.#wait(client, recipient);
  }

  leave(recipient: Recipient | null): void {
    const client = this.#clients.get(recipient?.client ?? INTERNAL)!;
    this.#free++;
    client.running--;
    this.#forgetIdle(client);
    this.#admitNext();
  }

  #clientOf(recipient: Recipient | null): Client {
    const name = recipient?.client ?? INTERNAL;
    let client = this.#clients.get(name);
    if (client === undefined) {
      client = { name, running: 0, waiting: null };
      this.#clients.set(name, client);
    }
    return client;
  }

  #forgetIdle({ name, running, waiting }: Client): void {
    if (running === 0 && waiting === null) this.#clients.delete(name);
  }

  #mayRun({ running }: Client, recipient: Recipient | null): boolean {
    if (this.#free === 0) return false;
    return recipient === null || (running < this.#share && this.#options.unsent.limitReached(recipient) === null);
  }

  #start(client: Client, recipient: Recipient | null): void {
    this.#free--;
    client.running++;
    recipient?.open(this.#options.unsent);
  }

  #wait(client: Client, recipient: Recipient | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#remove(client, waiter);
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
        this.#remove(client, waiter);
        reject(new ApiError(this.#refusal(recipient, "queue")));
      };
      const waiter: Waiter = { recipient, admit, refuse };
      client.waiting ??= [];
      client.waiting.push(waiter);
      this.#waiting++;
      this.#turns.add(client);
      if (this.#waiting > this.#maxWaiting) this.#refuseExcess();
    });
  }

  #remove(client: Client, waiter: Waiter): void {
    const { waiting } = client;
    waiting!.splice(waiting!.indexOf(waiter), 1);
    this.#waiting--;
    if (this.#waiting < this.#maxWaiting / 2) this.#fullSince = null;
    if (waiting!.length > 0) return;
    client.waiting = null;
    this.#turns.delete(client);
    this.#forgetIdle(client);
  }

  /** After a burst, refuses the newest transactions of the clients with the most, so that a client with many harms no other. */
  #refuseExcess(): void {
    this.#fullSince ??= this.#now();
    if (this.#now() - this.#fullSince < BURST) return;
    while (this.#waiting > this.#maxWaiting) {
      let longest: readonly Waiter[] = [];
      for (const { name, waiting } of this.#turns) {
        // Of several with the same number, the last, whose turn comes after those of the others.
        if (name !== INTERNAL && waiting!.length >= longest.length) longest = waiting!;
      }
      if (longest.length === 0) return;
      longest.at(-1)!.refuse();
    }
  }

  #admitNext(): void {
    // A client that is added again during the loop has another turn in it.
    for (const client of this.#turns) {
      if (this.#free === 0) return;
      const waiter = client.waiting![0]!;
      if (!this.#mayRun(client, waiter.recipient)) continue;
      this.#turns.delete(client);
      // Before it is removed: a client with nothing left would be forgotten.
      this.#start(client, waiter.recipient);
      this.#remove(client, waiter);
      if (client.waiting !== null) this.#turns.add(client);
      waiter.admit();
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

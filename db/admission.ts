import { ApiError, addressReadsTooSlowly, clientsReadTooSlowly, connectionsBusy, type Problem } from "./errors.ts";
import type { Recipient, UnsentBytes } from "./recipient.ts";

export type AdmissionOptions = {
  /** Transactions that may run at the same time: the connections of the pool. */
  readonly slots: number;
  /** Maximum percentage of the slots that one client may hold; at least one slot. */
  readonly share: number;
  /** Milliseconds that a transaction waits before it is refused. */
  readonly timeout: number;
  readonly unsent: UnsentBytes;
  /** Called with the name of the setting whose limit has refused a transaction. */
  onLimit?(setting: string): void;
  /** Why a transaction is refused if no slot becomes free. */
  readonly busy?: () => Problem;
};

type Waiter = { readonly recipient: Recipient | null; admit(): void };

/** The transactions of one client: how many run, and those that wait, in order. */
type Client = { readonly name: string; running: number; waiting: Set<Waiter> | null };

/** Work that no request waits for has no share: one name for all of it. */
const INTERNAL = "";

/**
 * Decides which transaction runs next on a pool of connections. A client may hold its share of the connections at once;
 * the others overtake it. A client at an address that has not taken enough of its earlier results waits too. Clients take
 * turns; the transactions of one client run in order.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #share: number;
  readonly #clients = new Map<string, Client>();
  /** The clients with waiting transactions; the first has the next turn. */
  readonly #turns = new Set<Client>();
  #free: number;
  /** Transactions that were refused because they waited too long for a connection. */
  timeouts = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#free = options.slots;
    this.#share = Math.max(1, Math.floor((options.slots * options.share) / 100));
    options.unsent.onTaken(() => this.#admitNext());
  }

  /** Transactions that wait. */
  get waiting(): number {
    let count = 0;
    for (const { waiting } of this.#turns) count += waiting!.size;
    return count;
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
        this.#forgetIdle(client);
        reject(new ApiError(this.#refusal(recipient)));
        // The next transaction of the client may be for another address.
        this.#admitNext();
      }, this.#options.timeout);
      const admit = () => {
        clearTimeout(timer);
        resolve();
      };
      const waiter: Waiter = { recipient, admit };
      client.waiting ??= new Set();
      client.waiting.add(waiter);
      this.#turns.add(client);
    });
  }

  #remove(client: Client, waiter: Waiter): void {
    client.waiting!.delete(waiter);
    if (client.waiting!.size > 0) return;
    client.waiting = null;
    this.#turns.delete(client);
  }

  #admitNext(): void {
    // A client that is added again during the loop has another turn in it.
    for (const client of this.#turns) {
      if (this.#free === 0) return;
      const waiter: Waiter = client.waiting!.values().next().value!;
      if (!this.#mayRun(client, waiter.recipient)) continue;
      this.#turns.delete(client);
      this.#remove(client, waiter);
      if (client.waiting !== null) this.#turns.add(client);
      this.#start(client, waiter.recipient);
      waiter.admit();
    }
  }

  #refusal(recipient: Recipient | null): Problem {
    const reached = recipient && this.#options.unsent.limitReached(recipient);
    if (reached === null) this.timeouts++;
    this.#options.onLimit?.(SETTINGS[reached ?? "time"]);
    if (reached === null) return (this.#options.busy ?? connectionsBusy)();
    return reached === "address" ? addressReadsTooSlowly() : clientsReadTooSlowly();
  }
}

/** The settings of the limits. */
const SETTINGS = {
  time: "DB_POOL_TIMEOUT",
  address: "MAX_UNSENT_BYTES_PER_ADDRESS",
  total: "MAX_UNSENT_BYTES",
} as const;

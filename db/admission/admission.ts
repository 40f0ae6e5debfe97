import { type Problem, problem } from "../../problems/problem.ts";
import type { ByteBudget, Recipient } from "./byte-budget.ts";
import { FairQueue, QueueLimit } from "./fair-queue.ts";

export type AdmissionOptions = {
  /** The connections of the pool. */
  readonly slots: number;
  /** Maximum percentage of the slots that one client may hold; at least one slot. */
  readonly share: number;
  /** Maximum transactions that run at the same time and started less than SHORT_RUN ago. Default: the number of slots. */
  readonly short?: number;
  /** Milliseconds that a transaction waits before it is refused. */
  readonly timeout: number;
  /**
   * Maximum waiting transactions per slot; 0 for no limit. More may wait during the first second of a burst, and while each waits
   * less than SHORT_WAIT.
   */
  readonly queue: number;
  readonly budget: ByteBudget;
  /** Called with the name of the setting whose limit has refused a transaction. */
  onLimit?(setting: string): void;
  /** The error for a transaction that gets no slot in time. Default: "connections busy". */
  readonly busy?: "streams busy";
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
};

/** Maximum quick reads that share a connection. They run one after the other, so the last one waits for the others. */
const MAX_SHARED = 8;

/** Milliseconds for which a running transaction counts as short. */
export const SHORT_RUN = 16;

/** Permission to use one connection. */
export class Slot {
  readonly client: string;
  /** Milliseconds of the monotonic clock. */
  readonly startedAt: number;
  /** How many further quick reads may use the connection. Set to 0 when the reads are sent. */
  places: number;
  /** What the weights of further quick reads may add up to. */
  room: number;

  constructor(client: string, startedAt: number, weight: number | null) {
    this.client = client;
    this.startedAt = startedAt;
    this.places = weight === null ? 0 : MAX_SHARED - 1;
    this.room = 1 - (weight ?? 1);
  }
}

type Waiter = {
  /** Null for work that no request waits for. */
  readonly recipient: Recipient | null;
  readonly weight: number | null;
  admit(slot: Slot): void;
  refuse(): void;
};

/** The client name of all work that no request waits for. The limit on the share does not apply to it. */
const INTERNAL = "";

const nameOf = (recipient: Recipient | null) => recipient?.client ?? INTERNAL;

/** Milliseconds. More than `queue` may wait for each slot if they wait no longer than this. */
const SHORT_WAIT = 200;

/**
 * Decides which transaction runs next on a pool of connections:
 * - The client whose transactions have held connections for the least time comes first. Those of one client run in order.
 * - While a client holds its full share of the connections, other clients overtake it.
 * - At most `short` of the running transactions are short, that is, have run for less than SHORT_RUN.
 * - While the clients of a network hold more memory than they may (`byte-budget.ts`), they wait.
 * - Quick reads (`sharedReads` of Transactions) that are admitted together share a slot. The *weight* of each is its usual duration as a
 *   part of what all of them together may take; that of others is null.
 * - When more transactions arrive than the slots can run, those that would wait longest are refused at once. Otherwise all would
 *   wait longer and longer. Not refused are those of requests that have had a transaction: its work would be lost.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #share: number;
  /** The number of slots in use, by the client that was given them. */
  readonly #used = new Map<string, number>();
  /** The slots whose transaction counts as short, oldest first. Older ones are removed only when the set is full. */
  readonly #short = new Set<Slot>();
  readonly #maxShort: number;
  readonly #now: () => number;
  /** Admits more when the oldest short transaction has run for SHORT_RUN. */
  #timer: NodeJS.Timeout | null = null;
  /** The newest slot that quick reads may share. */
  #shared: Slot | null = null;
  readonly #queue = new FairQueue<Waiter>({
    isCounted: (_client, { recipient }) => recipient !== null && !recipient.isContinued,
  });
  readonly #limit: QueueLimit;
  #free: number;
  #done = 0;
  /** Transactions that were refused because they waited too long for a connection. */
  timeouts = 0;

  constructor(options: AdmissionOptions) {
    const { slots, share, queue, budget, short = slots, now = () => performance.now() } = options;
    this.#options = options;
    this.#free = slots;
    this.#maxShort = short;
    this.#now = now;
    this.#limit = new QueueLimit({ least: queue * slots, time: SHORT_WAIT, now });
    this.#share = Math.max(1, Math.floor((slots * share) / 100));
    budget.onReturned(() => this.#admitNext());
  }

  /** Transactions that wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Transactions that wait only because all slots are in use. */
  get waitingForSlot(): number {
    let waiting = 0;
    for (const [client, items] of this.#queue) {
      const { recipient } = items[0]!;
      const room = recipient === null ? items.length : this.#share - (this.#used.get(client) ?? 0);
      if (this.#isWithinBudget(recipient)) waiting += Math.max(0, Math.min(items.length, room));
    }
    return waiting;
  }

  /** Whether a further transaction of the client would be refused at once. */
  refuses(client: string): boolean {
    if (this.#queue.size === 0) return false;
    this.#refuseExcess();
    return this.#limit.isExceeded(this.#queue.size + 1, this.#done) && this.#queue.wouldExceed(client);
  }

  /**
   * Returns a slot if the transaction may run now, otherwise a promise of one, which rejects with Problem if the transaction is
   * refused. Several quick reads may receive the same slot and use it together: call `leave` once for each slot, not for each read.
   */
  enter(recipient: Recipient | null, weight: number | null = null): Slot | Promise<Slot> {
    if (recipient !== null) this.#options.budget.refuseTooLarge(recipient.bytes);
    if (!this.#queue.has(nameOf(recipient))) {
      if (this.#mayJoin(recipient, weight)) return this.#join(recipient, weight!);
      if (this.#mayStart(recipient)) return this.#start(recipient, weight);
    }
    return this.#wait(recipient, weight);
  }

  leave(slot: Slot): void {
    const { client } = slot;
    this.#short.delete(slot);
    const used = this.#used.get(client)! - 1;
    if (used === 0) this.#used.delete(client);
    else this.#used.set(client, used);
    this.#free++;
    this.#queue.use(client, this.#now() - slot.startedAt);
    this.#admitNext();
  }

  #mayStart(recipient: Recipient | null): boolean {
    if (this.#free === 0 || !this.#hasRoomForShort()) return false;
    if (recipient === null) return true;
    return (this.#used.get(recipient.client) ?? 0) < this.#share && this.#isWithinBudget(recipient);
  }

  #hasRoomForShort(): boolean {
    if (this.#short.size < this.#maxShort) return true;
    const now = this.#now();
    for (const slot of this.#short) {
      if (now - slot.startedAt < SHORT_RUN) break;
      this.#short.delete(slot);
    }
    return this.#short.size < this.#maxShort;
  }

  #start(recipient: Recipient | null, weight: number | null): Slot {
    const client = nameOf(recipient);
    const slot = new Slot(client, this.#now(), weight);
    this.#short.add(slot);
    if (weight !== null) this.#shared = slot;
    this.#free--;
    this.#used.set(client, (this.#used.get(client) ?? 0) + 1);
    return this.#admitted(recipient, slot);
  }

  #mayJoin(recipient: Recipient | null, weight: number | null): boolean {
    if (weight === null || this.#shared === null) return false;
    return this.#shared.places > 0 && this.#shared.room >= weight && this.#isWithinBudget(recipient);
  }

  #join(recipient: Recipient | null, weight: number): Slot {
    const slot = this.#shared!;
    slot.places--;
    slot.room -= weight;
    return this.#admitted(recipient, slot);
  }

  #admitted(recipient: Recipient | null, slot: Slot): Slot {
    this.#done++;
    recipient?.open(this.#options.budget);
    return slot;
  }

  /** Whether the memory of clients lets the recipient start: that of its network, and that of all. */
  #isWithinBudget(recipient: Recipient | null): boolean {
    return recipient === null || this.#limitReached(recipient) === null;
  }

  #limitReached({ network, bytes }: Recipient): "total" | "address" | null {
    return this.#options.budget.limitReached(network, bytes);
  }

  #wait(recipient: Recipient | null, weight: number | null): Promise<Slot> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#queue.remove(nameOf(recipient), waiter);
        this.#limit.decreased(this.#queue.size);
        reject(this.#refusal(recipient));
        // The client's next transaction may be for another address, whose limit is not reached: then it may run now.
        this.#admitNext();
      }, this.#options.timeout);
      const admit = (slot: Slot) => {
        clearTimeout(timer);
        resolve(slot);
      };
      const refuse = () => {
        clearTimeout(timer);
        reject(this.#refusal(recipient, "queue"));
      };
      const waiter: Waiter = { recipient, weight, admit, refuse };
      this.#queue.add(nameOf(recipient), waiter);
      this.#refuseExcess();
      this.#admitLater();
    });
  }

  /** Sets the timer if a slot is free, and transactions wait only because too many short ones run. */
  #admitLater(): void {
    if (this.#timer !== null || this.#free === 0 || this.#queue.size === 0 || this.#hasRoomForShort()) return;
    const [oldest] = this.#short;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#admitNext();
      },
      SHORT_RUN - (this.#now() - oldest!.startedAt),
    );
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
      const next = this.#queue.take(({ recipient }) => this.#mayStart(recipient));
      if (next === null) {
        this.#admitLater();
        return;
      }
      const { item } = next;
      item.admit(this.#start(item.recipient, item.weight));
      if (item.weight !== null) this.#admitJoining();
      this.#limit.decreased(this.#queue.size);
    }
  }

  #admitJoining(): void {
    while (this.#shared!.places > 0 && this.#queue.size > 0) {
      const next = this.#queue.take(({ recipient, weight }) => this.#mayJoin(recipient, weight));
      if (next === null) return;
      next.item.admit(this.#join(next.item.recipient, next.item.weight!));
    }
  }

  #refusal(recipient: Recipient | null, cause: "time" | "queue" = "time"): Problem {
    const reached = recipient && this.#limitReached(recipient);
    if (reached === null && cause === "time") this.timeouts++;
    this.#options.onLimit?.(LIMITS[reached ?? cause]);
    if (reached === null) return problem(cause === "queue" ? "overloaded" : (this.#options.busy ?? "connections busy"));
    return problem(reached === "address" ? "address reads too slowly" : "clients read too slowly");
  }
}

/** The names by which a metric counts the limits. */
const LIMITS = {
  time: "database_wait",
  queue: "database_queue",
  address: "address_memory",
  total: "CLIENT_MEMORY",
} as const;

import type { Logger } from "pino";
import { urlAt } from "../../config/postgres-url.ts";
import type { CallerLogin } from "../caller.ts";
import { within } from "../repeat.ts";
import type { Transactions } from "../transaction/transaction.ts";
import type { PrimaryPosition } from "./primary-position.ts";
import type { Lsn } from "./recent-writes.ts";
import { Replica } from "./replica.ts";

export type ReplicaSetOptions = {
  readonly urls: readonly string[];
  readonly primary: PrimaryPosition;
  /** Milliseconds. A replica that is further behind is not used. */
  readonly maxLag: number;
  /** Milliseconds for which a read waits for a replica. */
  readonly maxWait: number;
  /** Connection strings of the logins at the primary. */
  readonly logins: Readonly<Record<CallerLogin, string>>;
  /** New pools on the replica. */
  transactionsOf(login: CallerLogin, url: string): Transactions;
  readonly log: Pick<Logger, "info" | "warn">;
};

/** Called after each look at a replica. */
type Waiter = () => void;

/** The replicas: which one answers a read that must see a position. */
export class ReplicaSet {
  readonly all: readonly Replica[];
  readonly #options: ReplicaSetOptions;
  readonly #waiting = new Set<Waiter>();
  #next = 0;

  constructor(options: ReplicaSetOptions) {
    this.#options = options;
    this.all = options.urls.map((url) => this.#replicaAt(url));
  }

  /** Looks for the replicas in the background, again and again. */
  start(): void {
    for (const replica of this.all) replica.look(this.#isBusy);
  }

  get isUsable(): boolean {
    return this.all.some(({ fault }) => fault === null);
  }

  get transactions(): Transactions[] {
    return this.all.flatMap(({ transactions }) => Object.values(transactions));
  }

  /** The one that answers the fewest reads; of several, each in turn. Null if none has replayed this much. */
  choose(needed: Lsn): Replica | null {
    const { length } = this.all;
    let chosen: Replica | null = null;
    for (let i = 0; i < length; i++) {
      const replica = this.all[(this.#next + i) % length]!;
      if (replica.fault !== null || replica.replayed < needed) continue;
      if (chosen === null || replica.running < chosen.running) chosen = replica;
    }
    this.#next++;
    return chosen;
  }

  /** A replica that has replayed this much, within the time that a read waits; null if there is none. */
  wait(needed: Lsn): Promise<Replica | null> {
    return this.#waitFor(() => this.choose(needed), this.#options.maxWait);
  }

  /** Waits until every replica has replayed this much, but no longer than so many milliseconds. */
  async waitForAll(needed: Lsn, milliseconds: number): Promise<void> {
    const haveAll = () => (this.all.every(({ replayed }) => replayed >= needed) ? true : null);
    if (haveAll() === null) await this.#waitFor(haveAll, milliseconds);
  }

  /** What `find` returns after a look at a replica; null if it is null for so many milliseconds. */
  #waitFor<T>(find: () => T | null, milliseconds: number): Promise<T | null> {
    const { promise, resolve } = Promise.withResolvers<T>();
    const waiter = () => {
      const found = find();
      if (found !== null) resolve(found);
    };
    this.#waiting.add(waiter);
    for (const replica of this.all) if (replica.fault === null) replica.look(this.#isBusy);
    return within(milliseconds, promise).finally(() => this.#waiting.delete(waiter));
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((each) => each.close()));
  }

  readonly #isBusy = () => this.#waiting.size > 0;

  #replicaAt(url: string): Replica {
    const { logins, transactionsOf, primary, maxLag, log } = this.#options;
    const of = (login: CallerLogin) => transactionsOf(login, urlAt(url, logins[login]));
    return new Replica({
      name: new URL(url).host,
      url: urlAt(url, logins.data),
      transactions: { data: of("data"), admin: of("admin"), service: of("service") },
      primary,
      maxLag,
      onState: (replica, fault) => {
        if (fault === null) log.info({ replica }, "reads go to the replica");
        else log.warn({ replica }, `no reads go to the replica: ${fault}`);
      },
      onLook: () => {
        for (const waiter of this.#waiting) waiter();
      },
    });
  }
}

/** A position in the write-ahead log. */
export type Lsn = bigint;

/** What was written is unknown: no replica is known to have it. */
export const UNKNOWN: Lsn = 2n ** 64n;

type Write = { readonly lsn: Lsn; readonly until: number };

/** Clients whose writes are remembered at the same time, at most. */
const MAX_CLIENTS = 100_000;

export type RecentWritesOptions = {
  /** Milliseconds for which a write is remembered. */
  readonly milliseconds: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  readonly maxClients?: number;
};

/** The last write of each client, for a while: its reads must see it. */
export class RecentWrites {
  readonly #milliseconds: number;
  readonly #now: () => number;
  readonly #maxClients: number;
  /** In the order in which they expire. */
  readonly #writes = new Map<string, Write>();
  /** Stands for the clients that had to be forgotten early: it applies to all. */
  #forgotten: Write = { lsn: 0n, until: 0 };

  constructor({ milliseconds, now = () => performance.now(), maxClients = MAX_CLIENTS }: RecentWritesOptions) {
    this.#milliseconds = milliseconds;
    this.#now = now;
    this.#maxClients = maxClients;
  }

  /** Notes that the client has written, and that a replica has the write from `lsn` on. */
  add(client: string, lsn: Lsn): void {
    const now = this.#now();
    const known = this.#writes.get(client);
    const isLater = known === undefined || known.until <= now || lsn > known.lsn;
    this.#writes.delete(client);
    this.#writes.set(client, { lsn: isLater ? lsn : known.lsn, until: now + this.#milliseconds });
    for (const [oldest, write] of this.#writes) {
      const isExpired = write.until <= now;
      if (!isExpired && this.#writes.size <= this.#maxClients) break;
      this.#writes.delete(oldest);
      if (!isExpired && write.lsn > this.#forgotten.lsn) this.#forgotten = { lsn: write.lsn, until: write.until };
    }
  }

  /** From where on a replica has what the client has written; 0 if it has written nothing lately. */
  of(client: string): Lsn {
    const write = this.#writes.get(client);
    const { lsn, until } = this.#forgotten;
    const now = this.#now();
    const least = until > now ? lsn : 0n;
    return write !== undefined && write.until > now && write.lsn > least ? write.lsn : least;
  }
}

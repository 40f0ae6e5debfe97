import type pg from "pg";
import { walStream } from "../changes/position.ts";
import type { Lsn } from "./recent-writes.ts";

/** What the primary said, and when, on a monotonic clock. */
type Sample = { readonly lsn: Lsn; readonly at: number };

/** If a record ends with its page, the primary is at the end of the header of the next page, and the replica before it. */
const PAGE_HEADER = 40n;

const QUERY = `
  select (pg_current_wal_insert_lsn() - '0/0')::text as lsn, system_identifier::text as system, d.oid::text as database,
    ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int::text as timeline
  from pg_control_system(), pg_database as d where d.datname = current_database()`;

/** Where the write-ahead log of the primary ended lately: how far a replica is behind, in time. */
export class PrimaryPosition {
  readonly #pool: Pick<pg.Pool, "query">;
  readonly #keptFor: number;
  /** Oldest first. */
  #samples: Sample[] = [];
  /** The identifier of the server, which its replicas share; "" until it is known. */
  system = "";
  /** The name of its positions for clients; "" until it is known. */
  stream = "";

  /** Samples are kept for this many milliseconds. */
  constructor(pool: Pick<pg.Pool, "query">, keptFor: number) {
    this.#pool = pool;
    this.#keptFor = keptFor;
  }

  /** Rejects when the primary does not answer. */
  async sample(): Promise<void> {
    const at = performance.now();
    const { rows } = await this.#pool.query<Record<"lsn" | "system" | "database" | "timeline", string>>(QUERY);
    const { lsn, system, database, timeline } = rows[0]!;
    this.system = system;
    this.stream = walStream(system, timeline, database);
    this.add({ lsn: BigInt(lsn), at });
  }

  add(sample: Sample): void {
    this.#samples.push(sample);
    const old = sample.at - this.#keptFor;
    while (this.#samples.length > 2 && this.#samples[1]!.at < old) this.#samples.shift();
  }

  /** Milliseconds since a server that has replayed this much was level with the primary: 0 if it is, infinite if that is too long ago. */
  lagOf(replayed: Lsn, now: number): number {
    const last = this.#samples.at(-1);
    if (last === undefined) return Number.POSITIVE_INFINITY;
    const level = this.#samples.findLast(({ lsn }) => lsn <= replayed + PAGE_HEADER);
    if (level === last) return 0;
    return level === undefined ? Number.POSITIVE_INFINITY : now - level.at;
  }
}

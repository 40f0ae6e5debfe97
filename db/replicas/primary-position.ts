import type pg from "pg";
import { walStream } from "../changes/position.ts";
import type { Lsn } from "./recent-writes.ts";

/** What the primary said, and when, on a monotonic clock. */
type Sample = { readonly lsn: Lsn; readonly at: number };

/** If a record ends with its page, the primary is at the end of the header of the next page, and the replica before it. */
const PAGE_HEADER = 40n;

/** SQLSTATE of a missing right. */
const FORBIDDEN = "42501";

/** A record that changes nothing, and its position. It is flushed at once, and waits for no standby. */
const MARK = `
  set local synchronous_commit = 'local';
  select (pg_logical_emit_message(true, 'content', '') - '0/0')::text as lsn`;

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
  #marking: Promise<Lsn> | null = null;
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
    const stream = walStream(system, timeline, database);
    if (stream !== this.stream) {
      // After a failover, the log of the primary may end before that of the previous one.
      this.#samples = [];
      this.#marking = null;
    }
    this.stream = stream;
    this.add({ lsn: BigInt(lsn), at });
  }

  /** Writes to the log, once for all replicas that wait for it. Resolves to the position, which only a server that follows the primary reaches. */
  mark(): Promise<Lsn> {
    if (this.#marking !== null) return this.#marking;
    const marking = this.#mark().finally(() => {
      if (this.#marking === marking) this.#marking = null;
    });
    this.#marking = marking;
    return marking;
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

  async #mark(): Promise<Lsn> {
    try {
      const results = (await this.#pool.query(MARK)) as unknown as pg.QueryResult<{ lsn: string }>[];
      return BigInt(results.at(-1)!.rows[0]!.lsn);
    } catch (error) {
      if ((error as pg.DatabaseError).code !== FORBIDDEN) throw error;
      // The end of what others have written.
      await this.sample();
      return this.#samples.at(-1)!.lsn;
    }
  }
}

import type { ClientBase } from "pg";
import type { Logger } from "pino";

/** The first key of the advisory lock that every process of the service holds. The second is the number of its instance. */
const LOCK = 1_668_247_156;
/** The same for an instance with REDIS_URL. */
const SHARING_LOCK = LOCK + 1;

const TAKE = "select pg_try_advisory_lock_shared($1, $2)";
const LEAVE = "select pg_advisory_unlock_shared($1, $2)";
const COUNT = `
  select count(distinct l.objid)::int as others, count(*) filter (where l.classid = $1::bigint::oid)::int as "apart"
  from pg_locks as l
  where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.classid in ($1::bigint::oid, $2::bigint::oid) and l.objid <> $3::bigint::oid`;

type Counted = { readonly others: number; readonly apart: number };

export type InstancesOptions = {
  /** The number of this instance: all its processes have the same. From 1 to 2^31 - 1. */
  readonly number: number;
  /** Whether this process logs what it finds. Of several worker processes, the first does. */
  readonly logs: boolean;
  /** Whether the first look finds the version that this one replaces (TAKEOVER), so that it says nothing yet. */
  readonly replacesAnother: boolean;
  /** Whether the instance shares limits and messages with others that do so (REDIS_URL). */
  readonly shares: boolean;
  readonly log: Logger;
};

/**
 * The other instances that serve the database. Each holds an advisory lock on the connection that it listens on, so an
 * instance that ends in any way is gone at once, and nothing is written.
 */
export class Instances {
  readonly #options: InstancesOptions;
  #client: ClientBase | null = null;
  #isGone = false;
  #looks = 0;
  #others = 0;
  /** Whether one of them shares nothing. */
  #isApart = false;

  constructor(options: InstancesOptions) {
    this.#options = options;
  }

  /** What they do not share with this one, for the log and `/health`; null without others. */
  get fault(): string | null {
    if (this.#others === 0 || (this.#options.shares && !this.#isApart)) return null;
    const others = this.#others === 1 ? "another instance serves" : `${this.#others} other instances serve`;
    return `${others} this database: ${NOT_SHARED}`;
  }

  /** Counts them, on the connection that is kept. A database that does not allow it has none. */
  async look(client: ClientBase): Promise<void> {
    if (this.#isGone) return;
    try {
      if (this.#client !== client) await client.query(TAKE, this.#lock);
      this.#client = client;
      const values = [LOCK, SHARING_LOCK, this.#options.number];
      this.#found((await client.query<Counted>(COUNT, values)).rows[0]!);
    } catch (error) {
      this.#options.log.debug({ err: error }, "the other instances on the database cannot be counted");
    }
  }

  /** The instance hands over to another one, which is then alone. */
  async leave(): Promise<void> {
    this.#isGone = true;
    this.#others = 0;
    await this.#client?.query(LEAVE, this.#lock).catch(() => {});
  }

  get #lock(): number[] {
    const { shares, number } = this.#options;
    return [shares ? SHARING_LOCK : LOCK, number];
  }

  #found({ others, apart }: Counted): void {
    const { logs, replacesAnother, log } = this.#options;
    this.#looks++;
    if (replacesAnother && this.#looks === 1) return;
    const before = this.fault;
    this.#others = others;
    this.#isApart = apart > 0;
    if (!logs || (before === null) === (this.fault === null)) return;
    if (this.fault !== null) log.warn(this.fault);
    else log.info(others === 0 ? ALONE : SHARED);
  }
}

const ALONE = "this instance serves the database alone again";
const SHARED = "all instances that serve the database share limits and messages again";
const NOT_SHARED =
  "broadcasts and presences reach only the channels of the instance that received them, and RATE_LIMIT counts per instance, " +
  "unless each has the same REDIS_URL";

import type { ClientBase } from "pg";
import type { Logger } from "pino";

/** The first key of the advisory lock that every process of the service holds. The second is the number of its instance. */
const LOCK = 1_668_247_156;

const TAKE = "select pg_try_advisory_lock_shared($1, $2)";
const LEAVE = "select pg_advisory_unlock_shared($1, $2)";
const COUNT = `
  select count(distinct l.objid)::int as others
  from pg_locks as l
  where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.classid = $1::bigint::oid and l.objid <> $2::bigint::oid`;

export type InstancesOptions = {
  /** The number of this instance: all its processes have the same. From 1 to 2^31 - 1. */
  readonly number: number;
  /** Whether this process logs what it finds. Of several worker processes, the first does. */
  readonly logs: boolean;
  /** Whether the first look finds the version that this one replaces (TAKEOVER), so that it says nothing yet. */
  readonly replacesAnother: boolean;
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

  constructor(options: InstancesOptions) {
    this.#options = options;
  }

  /** What they do not share with this one, for the log and `/health`; null without others. */
  get fault(): string | null {
    if (this.#others === 0) return null;
    const others = this.#others === 1 ? "another instance serves" : `${this.#others} other instances serve`;
    return `${others} this database: ${NOT_SHARED}`;
  }

  /** Counts them, on the connection that is kept. A database that does not allow it has none. */
  async look(client: ClientBase): Promise<void> {
    if (this.#isGone) return;
    const values = [LOCK, this.#options.number];
    try {
      if (this.#client !== client) await client.query(TAKE, values);
      this.#client = client;
      this.#found((await client.query<{ others: number }>(COUNT, values)).rows[0]!.others);
    } catch (error) {
      this.#options.log.debug({ err: error }, "the other instances on the database cannot be counted");
    }
  }

  /** The instance hands over to another one, which is then alone. */
  async leave(): Promise<void> {
    this.#isGone = true;
    this.#others = 0;
    await this.#client?.query(LEAVE, [LOCK, this.#options.number]).catch(() => {});
  }

  #found(others: number): void {
    const { logs, replacesAnother, log } = this.#options;
    this.#looks++;
    if (replacesAnother && this.#looks === 1) return;
    const wasAlone = this.#others === 0;
    this.#others = others;
    if (!logs || wasAlone === (others === 0)) return;
    if (wasAlone) log.warn(this.fault!);
    else log.info("this instance serves the database alone again");
  }
}

const NOT_SHARED =
  "broadcasts and presences reach only the channels of the instance that received them, and RATE_LIMIT and the other limits on " +
  "clients count per instance";

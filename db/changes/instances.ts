import type pg from "pg";

/** The pause between the heartbeats of an instance. */
const HEARTBEAT_MILLISECONDS = 60_000;
/** The age of the last heartbeat at which an instance counts as dead. */
const DEAD_AFTER = "10 minutes";

/** SQLSTATE of a slot that is in use, and of one that does not exist. */
const IN_USE = "55006";
const MISSING = "42704";

/** Shows that the instance with a slot is alive, and drops the slots of dead ones. */
export class Instances {
  readonly #pool: pg.Pool;
  readonly #slot: string;
  readonly #onDropped: (slot: string) => void;
  #beatAt = 0;

  /** The login of `pool` is a member of changes_owner, and has the attribute REPLICATION. */
  constructor(pool: pg.Pool, slot: string, onDropped: (slot: string) => void) {
    this.#pool = pool;
    this.#slot = slot;
    this.#onDropped = onDropped;
  }

  /** A heartbeat, if one is due. */
  async beat(now = Date.now()): Promise<void> {
    if (now - this.#beatAt < HEARTBEAT_MILLISECONDS) return;
    this.#beatAt = now;
    await this.#asOwner(
      `insert into changes.instances (slot) values ('${this.#slot}') on conflict (slot) do update set seen_at = now()`,
    );
    const dead = await this.#asOwner<{ slot: string }>(
      `select slot from changes.instances where seen_at < now() - interval '${DEAD_AFTER}'`,
    );
    for (const { slot } of dead) await this.#drop(slot);
  }

  async #drop(slot: string): Promise<void> {
    try {
      await this.#pool.query("select pg_drop_replication_slot($1)", [slot]);
      this.#onDropped(slot);
    } catch (error) {
      const { code } = error as { code?: string };
      // Its instance is alive, although its heartbeat is not.
      if (code === IN_USE) return;
      if (code !== MISSING) throw error;
    }
    await this.#asOwner(`delete from changes.instances where slot = '${slot}'`);
  }

  /** Runs a statement as changes_owner, who does not have the attribute REPLICATION. */
  async #asOwner<R extends pg.QueryResultRow>(text: string): Promise<R[]> {
    const results = (await this.#pool.query(
      `set role changes_owner; ${text}; reset role`,
    )) as unknown as pg.QueryResult<R>[];
    return results[1]!.rows;
  }
}

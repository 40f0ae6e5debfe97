import { randomBytes } from "node:crypto";
import pg from "pg";
import { parseLsn, streamName } from "./position.ts";
import type { ReplicationConnection } from "./replication.ts";

/** A replication slot. The server keeps the write-ahead log that it has not acknowledged. */
export type ReplicationSlot = {
  readonly name: string;
  /** Whether the server drops it at the end of the connection. */
  readonly isTemporary: boolean;
};

/** What the slots of a database are called: `content_16401_web1`. Slots belong to the whole server. */
const PREFIX = "content";
/** Maximum length of the name of a slot. */
const MAX_NAME = 63;

/** The slot of an instance, or a temporary one if the instance has no name. `database` is the OID of the database. */
export function slotOf(database: number, instance: string): ReplicationSlot {
  if (instance !== "") return { name: `${PREFIX}_${database}_${instance}`.slice(0, MAX_NAME), isTemporary: false };
  const unique = `${process.pid}_${randomBytes(6).toString("hex")}`;
  return { name: `${PREFIX}_${database}_t_${unique}`, isTemporary: true };
}

/** The one slot of all processes that share what one of them reads of a publication. */
export function sharedSlotOf(database: number, publication: string): ReplicationSlot {
  return { name: `${PREFIX}_${database}_s_${streamName(publication)}`, isTemporary: false };
}

/** Another connection reads the slot: that of the version that this one replaces, or that of another instance with the same name. */
export class SlotTaken extends Error {
  constructor(name: string) {
    super(
      `the replication slot ${name} is in use: INSTANCE_ID must be unique among the instances on a database without REDIS_URL`,
    );
  }
}

/**
 * Creates the slot if it does not exist, or again if it is useless: `isUseless`, or the server has dropped write-ahead log that it
 * needs. Returns the position after which the slot has every change. Rejects with SlotTaken while another connection reads the slot, because that
 * one could still acknowledge later changes.
 */
export async function openSlot(
  connection: ReplicationConnection,
  { name, isTemporary }: ReplicationSlot,
  isUseless = false,
): Promise<bigint> {
  const [existing] = await connection.query<{ acknowledged: string; is_lost: boolean; is_taken: boolean | null }>(
    `select confirmed_flush_lsn - '0/0' as acknowledged, coalesce(wal_status, 'lost') = 'lost' as is_lost,
       active_pid <> pg_backend_pid() as is_taken
     from pg_replication_slots where slot_name = '${name}'`,
  );
  if (existing?.is_taken) throw new SlotTaken(name);
  if (existing && !existing.is_lost && !isUseless) return BigInt(existing.acknowledged);
  if (existing) await connection.query(`DROP_REPLICATION_SLOT ${name}`);
  const kind = isTemporary ? "TEMPORARY LOGICAL" : "LOGICAL";
  const failover = !isTemporary && (await hasFailoverSlots(connection)) ? ", FAILOVER" : "";
  const [created] = await connection.query<{ consistent_point: string }>(
    `CREATE_REPLICATION_SLOT ${name} ${kind} pgoutput (SNAPSHOT 'nothing'${failover})`,
  );
  return parseLsn(created!.consistent_point);
}

/** Whether standbys can have a copy of a slot, with which they continue after a failover: from PostgreSQL 17 on, on a primary. */
async function hasFailoverSlots(connection: ReplicationConnection): Promise<boolean> {
  const [server] = await connection.query<{ can_fail_over: boolean }>(
    "select current_setting('server_version_num')::int >= 170000 and not pg_is_in_recovery() as can_fail_over",
  );
  return server!.can_fail_over;
}

/** What the server says of a slot. */
export type SlotState = {
  /** The server keeps the write-ahead log from here on. */
  readonly acknowledged: bigint;
  /** The end of the write-ahead log. */
  readonly end: bigint;
  /** "lost": the server has dropped write-ahead log that the slot needs. Source: pg_replication_slots. */
  readonly walStatus: string;
  /** Whether the server keeps any amount of write-ahead log for slots. */
  readonly isUnlimited: boolean;
  /** Whether commits may wait for the reader of the slot. */
  readonly isSynchronous: boolean;
  /** Whether the primary removes rows of its catalog that a slot at this standby needs. */
  readonly lacksFeedback: boolean;
};

/** Rejects if the slot does not exist. */
export async function readSlot(pool: pg.Pool, name: string): Promise<SlotState> {
  const { rows } = await pool.query(
    `select confirmed_flush_lsn - '0/0' as acknowledged,
       case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0' as end,
       coalesce(wal_status, 'lost') as "walStatus",
       current_setting('max_slot_wal_keep_size') = '-1' as "isUnlimited",
       current_setting('synchronous_standby_names') ~ '\\*' and not pg_is_in_recovery() as "isSynchronous",
       pg_is_in_recovery() and current_setting('hot_standby_feedback') = 'off' as "lacksFeedback"
     from pg_replication_slots where slot_name = $1`,
    [name],
  );
  if (!rows[0]) throw new Error(`the replication slot ${name} does not exist`);
  const { acknowledged, end, ...state } = rows[0];
  return { acknowledged: BigInt(acknowledged), end: BigInt(end), ...state };
}

/** The pause between the heartbeats of an instance. */
const HEARTBEAT_MILLISECONDS = 60_000;
/** The age of the last heartbeat at which an instance counts as dead. */
const DEAD_AFTER = "10 minutes";

/** SQLSTATE of a slot that is in use, and of one that does not exist. */
const IN_USE = "55006";
const MISSING = "42704";

/** Shows that the instance with a slot is alive, and drops the slots of dead ones. */
export class SlotHeartbeats {
  readonly #pool: pg.Pool;
  readonly #slots: pg.Pool;
  readonly #slot: string;
  readonly #onDropped: (slot: string) => void;
  #beatAt = 0;

  /** The connections of `pool` have the role changes_owner, and those of `slots` are to the server of the slots. All have a login that may replicate. */
  constructor(pool: pg.Pool, slots: pg.Pool, slot: string, onDropped: (slot: string) => void) {
    this.#pool = pool;
    this.#slots = slots;
    this.#slot = slot;
    this.#onDropped = onDropped;
  }

  /** A heartbeat, if one is due. */
  async beat(now = Date.now()): Promise<void> {
    if (now - this.#beatAt < HEARTBEAT_MILLISECONDS) return;
    this.#beatAt = now;
    await this.#pool.query(
      "insert into changes.instances (slot) values ($1) on conflict (slot) do update set seen_at = now()",
      [this.#slot],
    );
    const { rows: dead } = await this.#pool.query<{ slot: string }>(
      `select slot from changes.instances where seen_at < now() - interval '${DEAD_AFTER}'`,
    );
    for (const { slot } of dead) await this.#drop(slot);
  }

  async #drop(slot: string): Promise<void> {
    try {
      // The role of the connection does not have the attribute REPLICATION.
      await this.#slots.query(`set role none; select pg_drop_replication_slot(${pg.escapeLiteral(slot)}); reset role`);
      this.#onDropped(slot);
    } catch (error) {
      const { code } = error as { code?: string };
      // Its instance is alive, although its heartbeats have stopped.
      if (code === IN_USE) return;
      if (code !== MISSING) throw error;
    }
    await this.#pool.query("delete from changes.instances where slot = $1", [slot]);
  }
}

/** A position that the stream had reached. `at` is milliseconds since 1970. */
type Sample = { readonly lsn: bigint; readonly at: number };

type AcknowledgementLimits = {
  /** Milliseconds. */
  readonly maxAge: number;
  /** Bytes of write-ahead log. */
  readonly maxBytes: bigint;
};

/**
 * Milliseconds between moves of a slot without a reader. For each move, Postgres reads the write-ahead log from the restart position
 * of the slot. It moves that position only every 15 s (LOG_SNAPSHOT_INTERVAL_MS in bgwriter.c), so more moves would free no more log.
 */
const MOVE_MILLISECONDS = 15_000;

/**
 * How far behind the stream a slot is acknowledged. The server keeps the write-ahead log after that position, so that a service
 * that was killed, or has lost its connection, reads again the changes that its clients may lack.
 */
export class Acknowledgement {
  readonly #limits: AcknowledgementLimits;
  #samples: Sample[] = [];
  #movedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: AcknowledgementLimits) {
    this.#limits = limits;
  }

  /** The stream has reached this position, which may precede an earlier one. Returns the position to acknowledge, or 0. */
  reach(lsn: bigint, now = Date.now()): bigint {
    const { maxAge, maxBytes } = this.#limits;
    this.#samples.push({ lsn, at: now });
    const isPast = ({ lsn: sampled, at }: Sample) => now - at > maxAge || lsn - sampled > maxBytes;
    // Keeps the newest mark that is past: its position may be acknowledged.
    while (this.#samples[1] && isPast(this.#samples[1])) this.#samples.shift();
    const [oldest] = this.#samples;
    if (!isPast(oldest!)) return 0n;
    return oldest!.lsn < lsn ? oldest!.lsn : lsn;
  }

  /** Whether a slot without a reader is to be moved now: true at most once in MOVE_MILLISECONDS. */
  isMoveDue(now = Date.now()): boolean {
    if (now - this.#movedAt < MOVE_MILLISECONDS) return false;
    this.#movedAt = now;
    return true;
  }
}

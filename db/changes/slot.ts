import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { ReplicationConnection } from "./replication.ts";

/** A replication slot. The server keeps the write-ahead log that it has not acknowledged. */
export type Slot = {
  readonly name: string;
  /** Whether the server drops it at the end of the connection. */
  readonly isTemporary: boolean;
};

/** What the slots of a database are called: `content_16401_web1`. Slots belong to the whole server. */
const PREFIX = "content";
/** Maximum length of the name of a slot. */
const MAX_NAME = 63;

/** The slot of an instance, or a temporary one if the instance has no name. `database` is the OID of the database. */
export function slotOf(database: number, instance: string): Slot {
  if (instance !== "") return { name: `${PREFIX}_${database}_${instance}`.slice(0, MAX_NAME), isTemporary: false };
  const unique = `${process.pid}_${randomBytes(6).toString("hex")}`;
  return { name: `${PREFIX}_${database}_t_${unique}`, isTemporary: true };
}

/**
 * Creates the slot if it does not exist, or again if it is useless: `isUseless`, or the server has dropped write-ahead log that it
 * needs. Returns the position after which the slot has every change. Rejects while another connection reads the slot, because that
 * one could still acknowledge later changes.
 */
export async function openSlot(
  connection: ReplicationConnection,
  { name, isTemporary }: Slot,
  isUseless = false,
): Promise<bigint> {
  const [existing] = await connection.query<{ acknowledged: string; is_lost: boolean; is_taken: boolean | null }>(
    `select confirmed_flush_lsn - '0/0' as acknowledged, coalesce(wal_status, 'lost') = 'lost' as is_lost,
       active_pid <> pg_backend_pid() as is_taken
     from pg_replication_slots where slot_name = '${name}'`,
  );
  if (existing?.is_taken)
    throw new Error(
      `the replication slot ${name} is in use: INSTANCE_ID must be unique among the instances on a database`,
    );
  if (existing && !existing.is_lost && !isUseless) return BigInt(existing.acknowledged);
  if (existing) await connection.query(`DROP_REPLICATION_SLOT ${name}`);
  const kind = isTemporary ? "TEMPORARY LOGICAL" : "LOGICAL";
  const [created] = await connection.query<{ consistent_point: string }>(
    `CREATE_REPLICATION_SLOT ${name} ${kind} pgoutput (SNAPSHOT 'nothing')`,
  );
  return parseLsn(created!.consistent_point);
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
};

/** Rejects if the slot does not exist. */
export async function readSlot(pool: pg.Pool, name: string): Promise<SlotState> {
  const { rows } = await pool.query(
    `select confirmed_flush_lsn - '0/0' as acknowledged, pg_current_wal_lsn() - '0/0' as end,
       coalesce(wal_status, 'lost') as "walStatus",
       current_setting('max_slot_wal_keep_size') = '-1' as "isUnlimited",
       current_setting('synchronous_standby_names') ~ '\\*' as "isSynchronous"
     from pg_replication_slots where slot_name = $1`,
    [name],
  );
  if (!rows[0]) throw new Error(`the replication slot ${name} does not exist`);
  const { acknowledged, end, ...state } = rows[0];
  return { acknowledged: BigInt(acknowledged), end: BigInt(end), ...state };
}

/** `"16/B374D848"` → 0x16B374D848n */
function parseLsn(text: string): bigint {
  const [high = "0", low = "0"] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

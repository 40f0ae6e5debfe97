import pg from "pg";
import { pause } from "../repeat.ts";
import { type Ancestors, parseLsn, walStream } from "./position.ts";
import type { ReplicationConnection } from "./replication.ts";
import { openSlot, type ReplicationSlot } from "./replication-slot.ts";
import type { Beginning } from "./source.ts";

export type ServerEnd = { readonly stream: string; readonly end: bigint };

/** The stream of the primary and the end of its log. */
export async function readPrimary(pool: pg.Pool): Promise<ServerEnd> {
  const { rows } = await pool.query<{ system: string; timeline: string; database: string; end: string }>(PRIMARY);
  const { system, timeline, database, end } = rows[0]!;
  return { stream: walStream(system, String(Number.parseInt(timeline, 16)), database), end: BigInt(end) };
}

/** The name of a file of the write-ahead log begins with the timeline. */
const PRIMARY = `
  select c.system_identifier::text as system, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline,
    d.oid::text as database, pg_current_wal_lsn() - '0/0'::pg_lsn as end
  from pg_control_system() as c, pg_database as d
  where d.datname = current_database()`;

/** Milliseconds between two attempts to help a standby make a slot. */
const HELP = 500;
/** SQLSTATE of a missing right. */
const FORBIDDEN = "42501";

/**
 * The server that decodes the log: the primary, or a standby. Queries go to the primary in any case: a standby may have a commit
 * before the primary shows its rows.
 */
export class SlotServer {
  readonly #primary: pg.Pool;
  readonly #standby: pg.Pool | null;

  constructor(primary: pg.Pool, standby: pg.Pool | null = null) {
    this.#primary = primary;
    this.#standby = standby;
  }

  /** Connections to the server that has the slot. */
  get pool(): pg.Pool {
    return this.#standby ?? this.#primary;
  }

  async close(): Promise<void> {
    await this.#standby?.end();
  }

  /** Opens the slot. A standby waits until the primary logs its running transactions, which it does by itself only when it writes. */
  async openSlot(connection: ReplicationConnection, slot: ReplicationSlot, isUseless = false): Promise<bigint> {
    if (this.#standby === null) return openSlot(connection, slot, isUseless);
    await this.#leavePrimary(connection, slot);
    const opened = new AbortController();
    const opening = openSlot(connection, slot, isUseless).finally(() => opened.abort());
    // It is awaited below.
    opening.catch(() => {});
    while (!opened.signal.aborted) {
      await pause(HELP, opened.signal);
      if (!opened.signal.aborted) await logTransactions(this.#primary).catch(() => {});
    }
    return opening;
  }

  /** Where the stream of the slot begins. */
  async readBeginning(
    connection: ReplicationConnection,
    slot: ReplicationSlot,
  ): Promise<Pick<Beginning, "start" | "live">> {
    const { rows } = await this.#primary.query<{ end: string }>(
      "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as end",
    );
    const start = await this.openSlot(connection, slot);
    return { start: { lsn: start, index: 0 }, live: { lsn: BigInt(rows[0]!.end), index: 0 } };
  }

  /** A promoted standby has a new timeline, whose history names the previous ones and the positions at which they were left. */
  async readStream(connection: ReplicationConnection): Promise<[stream: string, ancestors: Ancestors]> {
    const [server] = await connection.query<{ systemid: string; timeline: string | number }>("IDENTIFY_SYSTEM");
    const [database] = await connection.query<{ oid: string }>(
      "select oid::text from pg_database where datname = current_database()",
    );
    const { systemid } = server!;
    const timeline = String(server!.timeline);
    const named = (timeline: string) => walStream(systemid, timeline, database!.oid);
    await this.endOf(named(timeline));
    if (timeline === "1") return [named("1"), new Map()];
    // Without it, which a restored server may lack, positions of previous timelines are gaps.
    const [history] = await connection
      .query<{ content: string | Buffer }>(`TIMELINE_HISTORY ${timeline}`)
      .catch(() => [{ content: "" }]);
    const lines = String(history!.content).matchAll(/^(\d+)\t([0-9A-F]+\/[0-9A-F]+)/gm);
    return [named(timeline), new Map([...lines].map(([, before, end]) => [named(before!), parseLsn(end!)]))];
  }

  /** Of a standby: the end of the log of the primary, of which it must read the same stream. Null of a primary. */
  async endOf(stream: string): Promise<bigint | null> {
    if (this.#standby === null) return null;
    const primary = await readPrimary(this.#primary);
    if (primary.stream !== stream) throw new Error("the server of CHANGES_URL does not follow the primary (yet)");
    return primary.end;
  }

  /** The slot of the same name that the service had at the primary before would keep write-ahead log there for ever. */
  async #leavePrimary(connection: ReplicationConnection, { name }: ReplicationSlot): Promise<void> {
    const [server] = await connection.query<{ is_standby: boolean }>("select pg_is_in_recovery() as is_standby");
    const { rowCount } = await this.#primary.query("select from pg_replication_slots where slot_name = $1", [name]);
    if (!server!.is_standby || rowCount === 0) return;
    const drop = `select pg_drop_replication_slot(${pg.escapeLiteral(name)})`;
    await this.#primary.query(`set role none; ${drop}; reset role`).catch(({ message }: Error) => {
      throw new Error(`the primary has a replication slot ${name} too (${message}). A DBA can run there: ${drop}`);
    });
  }
}

/** Without the right to do so at once, it does so within 15 seconds if something is written. */
async function logTransactions(primary: pg.Pool): Promise<void> {
  await primary.query("select pg_log_standby_snapshot()").catch(async (error: { code?: string }) => {
    if (error.code !== FORBIDDEN) throw error;
    await primary.query("select pg_logical_emit_message(false, 'content', '')");
  });
}

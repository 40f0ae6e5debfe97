import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Position } from "./change.ts";
import { type Ancestors, parseLsn, walStream } from "./position.ts";
import { ReplicationConnection } from "./replication.ts";
import {
  Acknowledgement,
  Instances,
  openSlot,
  type ReplicationSlot,
  readSlot,
  type SlotState,
} from "./replication-slot.ts";
import type { Beginning, ChangeSink, ChangeSource, Mark, SourceHealth } from "./source.ts";
import { StreamDecoder } from "./stream-decoder.ts";
import type { LoggedTable } from "./types.ts";

/** The pause before the second attempt to connect; it doubles with each further one. */
const RECONNECT_MILLISECONDS = 100;
const MAX_RECONNECT_MILLISECONDS = 10_000;
/** The pause between acknowledgements and looks at the slot. */
const TICK_MILLISECONDS = 2000;
/** SQLSTATE of a publication that does not exist. */
const UNDEFINED = "42704";
/** How far the acknowledgement stays behind the stream, for clients that resume. */
const KEPT = { maxAge: 60_000, maxBytes: 67_108_864n };

export type LogicalSourceOptions = {
  /** A direct connection of a login with the attribute REPLICATION. */
  readonly connectionString: string;
  /** Connections of the same login (`changesPool`). */
  readonly pool: pg.Pool;
  readonly slot: ReplicationSlot;
  readonly publication: string;
  /** Whether the database has the table changes.instances. */
  readonly hasInstances: boolean;
  readonly onError: (error: Error) => void;
  readonly onWarning: (warning: string) => void;
  /** See StreamDecoder. */
  readonly onTable?: (logged: LoggedTable) => Promise<void> | null;
};

/**
 * Reads committed changes from the write-ahead log by logical decoding: writers pay nothing, and the order is that of the commits.
 * The replication slot is created in advance, because creating one waits until the running transactions end. A lost connection is
 * restored, and the slot sends again what has not been acknowledged.
 */
export class LogicalSource implements ChangeSource {
  readonly #options: LogicalSourceOptions;
  readonly #pool: pg.Pool;
  readonly #instances: Instances | null;
  readonly #warned = new Set<string>();
  readonly #acknowledgement = new Acknowledgement(KEPT);
  #connection: ReplicationConnection | null = null;
  #decoder: StreamDecoder | null = null;
  #slot: SlotState | null = null;
  /** The position to which the slot may be moved while it has no reader; 0 if unknown. */
  #movable = 0n;
  readonly hasLsns = true;
  /** Positions of different streams cannot be compared. "" before the first connection. */
  #stream = "";
  #ancestors: Ancestors = new Map();
  readonly #mark = new RestingMark();
  /** Why the last connection has failed; null if there is one. */
  #failure: string | null = "it has not connected yet";
  /** Whether the slot begins before the publication was created. Then the server cannot find it, and every attempt fails. */
  #isUseless = false;
  #sink: ChangeSink | null = null;
  /** Resolves when changes are wanted. */
  #wanted = Promise.withResolvers<void>();
  #finished: Promise<void> = Promise.resolve();
  /** The connection that was closed because changes are no longer wanted. */
  #rested: ReplicationConnection | null = null;
  readonly #closing = new AbortController();

  constructor(options: LogicalSourceOptions) {
    this.#options = options;
    const { pool, slot, hasInstances, onWarning } = options;
    this.#pool = pool;
    const onDropped = (name: string) =>
      onWarning(`the replication slot ${name} of an instance that is gone was dropped`);
    this.#instances = hasInstances && !slot.isTemporary ? new Instances(this.#pool, slot.name, onDropped) : null;
  }

  get health(): SourceHealth {
    const { slot } = this.#options;
    const state = this.#failure !== null ? "disconnected" : this.#decoder?.hasBegun ? "streaming" : "resting";
    return {
      mode: "logical",
      state,
      ...(this.#failure !== null && { reason: this.#failure }),
      slot: { name: slot.name, temporary: slot.isTemporary, ...(this.#slot && { wal: this.#slot.walStatus }) },
      lag: this.#slot && this.#decoder?.hasBegun ? this.#decoder.lagBehind(this.#slot.end) : { bytes: 0, seconds: 0 },
    };
  }

  get mark(): Mark | null {
    const { position } = this.#mark;
    return position && { stream: this.#stream, position };
  }

  start(): void {
    this.#finished = this.#run();
  }

  open(sink: ChangeSink): void {
    this.#sink = sink;
    this.#wanted.resolve();
  }

  rest(): void {
    this.#sink = null;
    this.#wanted = Promise.withResolvers();
    // A connection that has streamed cannot stream again.
    this.#rested = this.#connection;
    this.#connection?.destroy();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#wanted.resolve();
    await this.#connection?.close();
    await this.#finished;
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Connects, prepares the slot and streams it, again and again. */
  async #run(): Promise<void> {
    for (let pause = RECONNECT_MILLISECONDS; !this.#isClosed; pause = Math.min(2 * pause, MAX_RECONNECT_MILLISECONDS)) {
      const connection = new ReplicationConnection(this.#options.connectionString);
      const decoder = new StreamDecoder(this.#options.onTable ?? (() => null));
      this.#connection = connection;
      this.#decoder = decoder;
      try {
        await this.#serve(connection, decoder);
      } catch (error) {
        this.#failure = (error as Error).message;
        this.#isUseless = (error as { code?: string }).code === UNDEFINED;
        if (!this.#isClosed && connection !== this.#rested) this.#options.onError(error as Error);
      }
      // Otherwise it is closed by `close`, which waits for the server.
      if (!this.#isClosed) connection.destroy();
      if (decoder.hasBegun) pause = RECONNECT_MILLISECONDS;
      decoder.end();
      if (!this.#isClosed) await sleep(pause, null, { ref: false, signal: this.#closing.signal }).catch(() => {});
    }
  }

  /** Rejects with the error that ended the connection. */
  async #serve(connection: ReplicationConnection, decoder: StreamDecoder): Promise<void> {
    const { slot, publication } = this.#options;
    await connection.connect();
    await this.#instances?.beat();
    await openSlot(connection, slot, this.#isUseless);
    [this.#stream, this.#ancestors] = await readStream(connection);
    this.#failure = null;
    this.#movable = 0n;
    let isTicking = false;
    const tick = () => {
      if (isTicking) return;
      isTicking = true;
      this.#tick(connection, decoder)
        .catch((error: Error) => connection.fail(error))
        .finally(() => {
          isTicking = false;
        });
    };
    tick();
    const ticks = setInterval(tick, TICK_MILLISECONDS);
    ticks.unref();
    try {
      await Promise.race([this.#wanted.promise, connection.ended]);
      if (!this.#sink) throw new Error("the connection to the database was lost");
      // The reader would otherwise receive all that was written since the last move.
      await this.#moveSlot(connection);
      this.#mark.forget();
      const [stream, ancestors] = [this.#stream, this.#ancestors];
      decoder.start(this.#sink, this.#pool, { ...(await readBeginning(connection, slot)), stream, ancestors });
      await connection.stream(slot.name, publication, decoder);
    } finally {
      clearInterval(ticks);
    }
  }

  /** Acknowledges, and looks at the slot. Without readers, the slot is kept near the end of the log. */
  async #tick(connection: ReplicationConnection, decoder: StreamDecoder): Promise<void> {
    const { name } = this.#options.slot;
    await this.#instances?.beat();
    const slot = await readSlot(this.#pool, name);
    this.#slot = slot;
    this.#warnOf(slot);
    if (slot.walStatus === "lost")
      throw new Error(`the server has dropped write-ahead log that the slot ${name} needs`);
    if (!this.#sink) await this.#mark.look(this.#pool, slot.end);
    const reached = decoder.hasBegun ? decoder.reached : slot.end;
    // If synchronous_standby_names is *, commits wait for the acknowledgement of this connection too, so it must not stay behind.
    const lsn = slot.isSynchronous ? reached : this.#acknowledgement.reach(reached);
    if (decoder.hasBegun) connection.acknowledge(lsn);
    // While changes are wanted, the slot must not move: the position at which the stream begins has been read.
    if (decoder.hasBegun || this.#sink) return;
    this.#movable = lsn;
    if (slot.isSynchronous || this.#acknowledgement.isMoveDue()) await this.#moveSlot(connection);
  }

  /** Only while the slot has no reader. */
  async #moveSlot(connection: ReplicationConnection): Promise<void> {
    if (this.#slot === null || this.#movable <= this.#slot.acknowledged) return;
    const { name } = this.#options.slot;
    await connection.query(`select pg_replication_slot_advance('${name}', '0/0'::pg_lsn + ${this.#movable})`);
  }

  #warnOf({ walStatus, isUnlimited, isSynchronous }: SlotState): void {
    const { slot } = this.#options;
    const warnings: readonly (readonly [applies: boolean, text: string])[] = [
      [
        isUnlimited && !slot.isTemporary,
        "max_slot_wal_keep_size is not set: while this instance is stopped, the server keeps all write-ahead log for its replication slot. A DBA can run: alter system set max_slot_wal_keep_size = '10GB'; select pg_reload_conf()",
      ],
      [
        isSynchronous,
        "synchronous_standby_names is *, which includes this service: subscribers cannot resume after a restart",
      ],
      [walStatus === "unreserved", `the server is about to drop write-ahead log that the slot ${slot.name} needs`],
    ];
    for (const [applies, text] of warnings) {
      if (applies && !this.#warned.has(text)) this.#options.onWarning(text);
      if (applies) this.#warned.add(text);
      else this.#warned.delete(text);
    }
  }
}

/** Where the stream of the slot begins. */
async function readBeginning(
  connection: ReplicationConnection,
  slot: ReplicationSlot,
): Promise<Pick<Beginning, "start" | "live">> {
  const [log] = await connection.query<{ end: string }>("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as end");
  const start = await openSlot(connection, slot);
  return { start: { lsn: start, index: 0 }, live: { lsn: BigInt(log!.end), index: 0 } };
}

/** A promoted standby has a new timeline, whose history names the previous ones and the positions at which they were left. */
async function readStream(connection: ReplicationConnection): Promise<[stream: string, ancestors: Ancestors]> {
  const [server] = await connection.query<{ systemid: string; timeline: string | number }>("IDENTIFY_SYSTEM");
  const [database] = await connection.query<{ oid: string }>(
    "select oid::text from pg_database where datname = current_database()",
  );
  const { systemid } = server!;
  const timeline = String(server!.timeline);
  const named = (timeline: string) => walStream(systemid, timeline, database!.oid);
  if (timeline === "1") return [named("1"), new Map()];
  // Without it, which a restored server may lack, positions of previous timelines are gaps.
  const [history] = await connection
    .query<{ content: string | Buffer }>(`TIMELINE_HISTORY ${timeline}`)
    .catch(() => [{ content: "" }]);
  const lines = String(history!.content).matchAll(/^(\d+)\t([0-9A-F]+\/[0-9A-F]+)/gm);
  return [named(timeline), new Map([...lines].map(([, before, end]) => [named(before!), parseLsn(end!)]))];
}

/** A position, and the first transaction that certainly began after it. */
type Candidate = { readonly lsn: bigint; readonly next: bigint };

/**
 * Finds a position of the write-ahead log up to which queries see every change, while the log is not decoded and no change has a
 * position. A commit is in the log before queries see it, so a position is used when every transaction that began before it has ended.
 */
class RestingMark {
  #candidate: Candidate | null = null;
  #position: Position | null = null;

  /** Queries see every change up to here. Null if there is none yet. */
  get position(): Position | null {
    return this.#position;
  }

  forget(): void {
    this.#candidate = null;
    this.#position = null;
  }

  /** `end` is the end of the log, read before this call. */
  async look(pool: pg.Pool, end: bigint): Promise<void> {
    const { rows } = await pool.query<{ oldest: string; next: string }>(
      `select pg_snapshot_xmin(pg_current_snapshot())::text as oldest, pg_snapshot_xmax(pg_current_snapshot())::text as next`,
    );
    const { oldest, next } = rows[0]!;
    this.#candidate ??= { lsn: end, next: BigInt(next) };
    if (BigInt(oldest) < this.#candidate.next) return;
    this.#position = { lsn: this.#candidate.lsn, index: 0 };
    this.#candidate = null;
  }
}

import type pg from "pg";
import { every, pause } from "../repeat.ts";
import type { Election } from "./election.ts";
import type { Ancestors } from "./position.ts";
import { ReplicationConnection, type StreamHandler } from "./replication.ts";
import {
  Acknowledgement,
  type ReplicationSlot,
  readSlot,
  SlotHeartbeats,
  type SlotState,
  SlotTaken,
} from "./replication-slot.ts";
import { SlotServer } from "./slot-server.ts";
import type { Beginning } from "./source.ts";

/** The pause before the second attempt to connect; it doubles with each further one. */
const RECONNECT_MILLISECONDS = 100;
const MAX_RECONNECT_MILLISECONDS = 10_000;
/** The pause between acknowledgements and looks at the slot. */
const TICK_MILLISECONDS = 2000;
/** The server ends an elected connection that is idle for long. */
const SIGN_OF_LIFE = "select 1";
/** SQLSTATE of a publication that does not exist. */
const UNDEFINED = "42704";
/** How far the acknowledgement stays behind the stream, for clients that resume. */
const KEPT = { maxAge: 60_000, maxBytes: 67_108_864n };

/** Commits would wait for this service, and it waits until queries see them. Without an acknowledgement the server does not count on it. */
const SYNCHRONOUS =
  "synchronous_standby_names has *, which includes this service, and commits would wait for it for ever: name the standbys instead";

export type SlotReaderOptions = {
  /** A direct connection of a login with the attribute REPLICATION, to the server that has the slot. */
  readonly connectionString: string;
  /** Connections to the primary (`changesPool`). */
  readonly pool: pg.Pool;
  /** Connections to the server of the slot if that may be a standby. They are closed with the reader. */
  readonly standby?: pg.Pool | null;
  readonly slot: ReplicationSlot;
  readonly publication: string;
  /** Whether the database has the table changes.instances. */
  readonly hasInstances: boolean;
  readonly onError: (error: Error) => void;
  readonly onWarning: (warning: string) => void;
  /** Which of several processes reads the slot. */
  readonly election?: Election;
  /** Settings of the connection. */
  readonly settings?: readonly string[];
};

/** Who wants the stream of a slot, and what is done with it. */
export type SlotUser = {
  /** Changes are wanted: the slot must not move, because the position at which the stream begins may have been read. */
  readonly isWanted: boolean;
  /** Resolves when changes are wanted, or `signal` is aborted. */
  untilWanted(signal: AbortSignal): Promise<void>;
  /** The handler of the stream that begins now. */
  open(beginning: Beginning & { readonly ancestors: Ancestors }): StreamHandler | Promise<StreamHandler>;
  /** Called regularly with the end of the log while changes are not wanted. */
  look(end: bigint): Promise<void>;
};

/**
 * Streams a replication slot while its changes are wanted. The slot is created in advance, because creating one waits until the
 * running transactions end. A lost connection is restored, and the slot sends again what has not been acknowledged.
 */
export class SlotReader {
  readonly #options: SlotReaderOptions;
  readonly #user: SlotUser;
  readonly #server: SlotServer;
  readonly #heartbeats: SlotHeartbeats | null;
  readonly #warned = new Set<string>();
  readonly #acknowledgement = new Acknowledgement(KEPT);
  #connection: ReplicationConnection | null = null;
  #handler: StreamHandler | null = null;
  #slot: SlotState | null = null;
  #end: bigint | null = null;
  /** The position to which the slot may be moved while it has no reader; 0 if unknown. */
  #movable = 0n;
  /** Positions of different streams cannot be compared. "" before the first connection. */
  #stream = "";
  #ancestors: Ancestors = new Map();
  /** Why the last connection has failed; null if there is one. */
  #failure: string | null = "it has not connected yet";
  /** Whether the slot begins before the publication was created. Then the server cannot find it, and every attempt fails. */
  #isUseless = false;
  #finished: Promise<void> = Promise.resolve();
  /** The connection that was closed because changes are no longer wanted. */
  #rested: ReplicationConnection | null = null;
  readonly #closing = new AbortController();

  constructor(options: SlotReaderOptions, user: SlotUser) {
    this.#options = options;
    this.#user = user;
    const { pool, standby, slot, hasInstances, onWarning } = options;
    this.#server = new SlotServer(pool, standby);
    const onDropped = (name: string) =>
      onWarning(`the replication slot ${name} of an instance that is gone was dropped`);
    this.#heartbeats =
      hasInstances && !slot.isTemporary ? new SlotHeartbeats(pool, this.#server.pool, slot.name, onDropped) : null;
  }

  /** Why it is not connected; null if it is. */
  get failure(): string | null {
    return this.#failure;
  }

  get stream(): string {
    return this.#stream;
  }

  get isStreaming(): boolean {
    return this.#handler?.hasBegun === true;
  }

  /** The state of the slot for `/health`. */
  get slot() {
    const { name, isTemporary } = this.#options.slot;
    return { name, temporary: isTemporary, ...(this.#slot && { wal: this.#slot.walStatus }) };
  }

  /** The end of the log; null before the first look at it. */
  get end(): bigint | null {
    return this.#end;
  }

  start(): void {
    this.#finished = this.#run();
  }

  /** Ends the stream without an error, because changes are no longer wanted. */
  rest(): void {
    // A connection that has streamed cannot stream again.
    this.#rested = this.#connection;
    this.#connection?.destroy();
  }

  /** Ends the stream with this error. It begins again at what was acknowledged. */
  fail(error: Error): void {
    this.#connection?.fail(error);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#connection?.close();
    await this.#finished;
    await this.#server.close();
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Connects, prepares the slot and streams it, again and again. */
  async #run(): Promise<void> {
    for (let wait = RECONNECT_MILLISECONDS; !this.#isClosed; wait = Math.min(2 * wait, MAX_RECONNECT_MILLISECONDS)) {
      const { connectionString, settings, election } = this.#options;
      await election?.untilFree(this.#closing.signal);
      if (this.#isClosed) return;
      const connection = new ReplicationConnection(connectionString, settings);
      this.#connection = connection;
      try {
        await this.#serve(connection);
        wait = RECONNECT_MILLISECONDS;
      } catch (error) {
        this.#failure = (error as Error).message;
        this.#isUseless = (error as { code?: string }).code === UNDEFINED;
        if (!this.#isClosed && connection !== this.#rested) this.#report(error as Error, wait);
      }
      // Otherwise it is closed by `close`, which waits for the server.
      if (!this.#isClosed) connection.destroy();
      if (this.isStreaming) wait = RECONNECT_MILLISECONDS;
      this.#handler?.end();
      this.#handler = null;
      if (!this.#isClosed) await pause(wait, this.#closing.signal);
    }
  }

  /** While a version replaces another one, the slot is taken for some seconds: only after the longest pause is it a fault. */
  #report(error: Error, wait: number): void {
    if (!(error instanceof SlotTaken)) this.#options.onError(error);
    else if (wait === MAX_RECONNECT_MILLISECONDS && !this.#warned.has(error.message)) {
      this.#warned.add(error.message);
      this.#options.onWarning(error.message);
    }
  }

  /** Rejects with the error that ended the connection. Resolves if another process has been elected. */
  async #serve(connection: ReplicationConnection): Promise<void> {
    const { slot, publication, election } = this.#options;
    await connection.connect();
    if (election && !(await election.take(connection))) return;
    await this.#heartbeats?.beat();
    [this.#stream, this.#ancestors] = await this.#server.readStream(connection);
    await this.#server.openSlot(connection, slot, this.#isUseless);
    this.#failure = null;
    this.#movable = 0n;
    const ticks = every(
      TICK_MILLISECONDS,
      () => this.#tick(connection),
      (error) => connection.fail(error),
    );
    ticks.now();
    const waiting = new AbortController();
    connection.ended.then(() => waiting.abort());
    try {
      await this.#user.untilWanted(waiting.signal);
      if (waiting.signal.aborted || !this.#user.isWanted) throw new Error("the connection to the database was lost");
      // The reader would otherwise receive all that was written since the last move.
      await this.#moveSlot(connection);
      const [stream, ancestors] = [this.#stream, this.#ancestors];
      const beginning = await this.#server.readBeginning(connection, slot);
      this.#handler = await this.#user.open({ ...beginning, stream, ancestors });
      await connection.stream(slot.name, publication, this.#handler);
    } finally {
      void ticks.stop();
    }
  }

  /** Acknowledges, and looks at the slot. Without readers, the slot is kept near the end of the log. */
  async #tick(connection: ReplicationConnection): Promise<void> {
    const { name } = this.#options.slot;
    // A stream has signs of life of its own, and ends before the next query is run.
    if (this.#options.election && this.#handler === null) await connection.query(SIGN_OF_LIFE);
    await this.#heartbeats?.beat();
    const slot = await readSlot(this.#server.pool, name);
    this.#slot = slot;
    this.#end = (await this.#server.endOf(this.#stream)) ?? slot.end;
    this.#warnOf(slot);
    if (slot.isSynchronous) throw new Error(SYNCHRONOUS);
    if (slot.walStatus === "lost")
      throw new Error(`the server has dropped write-ahead log that the slot ${name} needs`);
    if (!this.#user.isWanted) await this.#user.look(slot.end);
    const handler = this.isStreaming ? this.#handler : null;
    const reached = handler?.reached ?? slot.end;
    const lsn = this.#acknowledgement.reach(reached);
    if (handler) connection.acknowledge(lsn);
    // While changes are wanted, the slot must not move: the position at which the stream begins has been read.
    if (handler || this.#user.isWanted) return;
    this.#movable = lsn;
    if (this.#acknowledgement.isMoveDue()) await this.#moveSlot(connection);
  }

  /** Only while the slot has no reader. */
  async #moveSlot(connection: ReplicationConnection): Promise<void> {
    if (this.#slot === null || this.#movable <= this.#slot.acknowledged) return;
    const { name } = this.#options.slot;
    await connection.query(`select pg_replication_slot_advance('${name}', '0/0'::pg_lsn + ${this.#movable})`);
  }

  #warnOf({ walStatus, isUnlimited, lacksFeedback }: SlotState): void {
    const { slot } = this.#options;
    const warnings: readonly (readonly [applies: boolean, text: string])[] = [
      [
        isUnlimited && !slot.isTemporary,
        "max_slot_wal_keep_size is not set: while this instance is stopped, the server keeps all write-ahead log for its replication slot. A DBA can run: alter system set max_slot_wal_keep_size = '10GB'; select pg_reload_conf()",
      ],
      [
        lacksFeedback,
        "hot_standby_feedback is off at the standby of CHANGES_URL: when the primary vacuums its catalog, the replication slot is lost, and subscribers get a gap",
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

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { Acknowledgement } from "./acknowledgement.ts";
import type { Beginning, ChangeSink, ChangeSource } from "./feed.ts";
import { streamName } from "./position.ts";
import { Reading } from "./reading.ts";
import { ReplicationConnection } from "./replication.ts";
import { openSlot, type Slot } from "./slot.ts";

/** The publication of the tables whose changes are sent (db/schema/changes/publication.sql). */
export const PUBLICATION = "content_changes";

/** The pause before the second attempt to connect; it doubles with each further one. */
const RECONNECT_MILLISECONDS = 100;
const MAX_RECONNECT_MILLISECONDS = 10_000;
/** The pause between acknowledgements. */
const ACKNOWLEDGE_MILLISECONDS = 2000;
/** How far behind the stream it is acknowledged. */
const KEPT = { maxAge: 60_000, maxBytes: 67_108_864n };

export type LogicalSourceOptions = {
  /** A direct connection of a login with the attribute REPLICATION. */
  readonly connectionString: string;
  readonly slot: Slot;
  readonly onError: (error: Error) => void;
};

/**
 * Reads committed changes from the write-ahead log by logical decoding: writers pay nothing, and the order is that of the commits.
 * The replication slot is created in advance, because that waits until the running transactions end. A lost connection is
 * restored, and the slot sends again what it has not acknowledged.
 */
export class LogicalSource implements ChangeSource {
  readonly #options: LogicalSourceOptions;
  readonly #pool: pg.Pool;
  readonly #acknowledgement = new Acknowledgement(KEPT);
  #connection: ReplicationConnection | null = null;
  #sink: ChangeSink | null = null;
  /** Resolves when changes are wanted. */
  #wanted = Promise.withResolvers<void>();
  #finished: Promise<void> = Promise.resolve();
  /** The connection that was closed because changes are no longer wanted. */
  #rested: ReplicationConnection | null = null;
  readonly #closing = new AbortController();

  constructor(options: LogicalSourceOptions) {
    this.#options = options;
    const { connectionString, onError } = options;
    this.#pool = new pg.Pool({ connectionString, max: 1, application_name: "content-service changes" });
    this.#pool.on("error", onError);
    this.#pool.on("connect", (client) => client.on("error", onError));
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
    // A connection streams only once.
    this.#rested = this.#connection;
    this.#connection?.destroy();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#wanted.resolve();
    await this.#connection?.close();
    await this.#finished;
    await this.#pool.end();
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Connects, prepares the slot and streams it, again and again. */
  async #run(): Promise<void> {
    for (let pause = RECONNECT_MILLISECONDS; !this.#isClosed; pause = Math.min(2 * pause, MAX_RECONNECT_MILLISECONDS)) {
      const connection = new ReplicationConnection(this.#options.connectionString);
      this.#connection = connection;
      const reading = new Reading(connection, this.#acknowledgement);
      try {
        await this.#serve(connection, reading);
      } catch (error) {
        if (!this.#isClosed && connection !== this.#rested) this.#options.onError(error as Error);
      }
      // Otherwise it is closed by `close`, which waits for the server.
      if (!this.#isClosed) connection.destroy();
      reading.end();
      if (reading.hasBegun) pause = RECONNECT_MILLISECONDS;
      if (!this.#isClosed) await sleep(pause, null, { ref: false, signal: this.#closing.signal }).catch(() => {});
    }
  }

  /** Rejects with the error that ended the connection. */
  async #serve(connection: ReplicationConnection, reading: Reading): Promise<void> {
    const { slot } = this.#options;
    await connection.connect();
    await openSlot(connection, slot);
    const advancing = setInterval(() => void this.#advance(connection), ACKNOWLEDGE_MILLISECONDS);
    advancing.unref();
    await Promise.race([this.#wanted.promise, connection.ended]).finally(() => clearInterval(advancing));
    if (!this.#sink) throw new Error("the connection to the database was lost");
    const beginning = await readBeginning(connection, slot);
    reading.start(this.#sink, this.#pool, beginning);
    await connection.stream(slot.name, PUBLICATION, reading);
  }

  /** Without readers, the slot is kept near the end of the log. */
  async #advance(connection: ReplicationConnection): Promise<void> {
    const { name } = this.#options.slot;
    try {
      const [row] = await connection.query<{ lsn: string }>("select pg_current_wal_lsn() - '0/0'::pg_lsn as lsn");
      const lsn = this.#acknowledgement.reach(BigInt(row!.lsn));
      await connection.query(
        `select pg_replication_slot_advance(slot_name, '0/0'::pg_lsn + ${lsn})
         from pg_replication_slots where slot_name = '${name}' and confirmed_flush_lsn < '0/0'::pg_lsn + ${lsn}`,
      );
    } catch {
      connection.destroy();
    }
  }
}

/** Where the stream of the slot begins. */
async function readBeginning(connection: ReplicationConnection, slot: Slot): Promise<Beginning> {
  const start = await openSlot(connection, slot);
  const [server] = await connection.query<{ systemid: string; timeline: number }>("IDENTIFY_SYSTEM");
  const [database] = await connection.query<{ lsn: string; oid: string }>(
    `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as lsn, oid::text from pg_database
     where datname = current_database()`,
  );
  const stream = streamName("logical", server!.systemid, String(server!.timeline), database!.oid);
  return { start: { lsn: start, index: 0 }, live: { lsn: BigInt(database!.lsn), index: 0 }, stream };
}

import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { cancelRequest } from "../cancellation.ts";
import { type Change, type ChangeSink, type ChangeSource, FeedInterrupted } from "./feed.ts";
import { type DecodedTable, type LogicalMessage, PgOutputDecoder, POSTGRES_EPOCH, type Tuple } from "./pgoutput.ts";
import { Visibility } from "./visibility.ts";

/** The publication of the tables whose changes are sent (db/schema/changes/publication.sql). */
export const PUBLICATION = "content_changes";

const CONNECT_MILLISECONDS = 10_000;
/** The pause before the second attempt to connect; it doubles with each further one. */
const RECONNECT_MILLISECONDS = 500;
const MAX_RECONNECT_MILLISECONDS = 30_000;
/** How long a closing connection waits until the server has dropped its slot. */
const CLOSE_MILLISECONDS = 5000;
/** The pause between status updates. They free write-ahead log, and notice a server that has disappeared. */
const STATUS_MILLISECONDS = 5000;
/** How long a subscription waits until changes are streamed. */
const OPEN_MILLISECONDS = 8000;

export type LogicalSourceOptions = {
  /** A direct connection of a login with the attribute REPLICATION. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * Reads committed changes from the write-ahead log by logical decoding: writers pay nothing, and the order is that of the commits.
 * The replication slot is created in advance, because that waits until the running transactions end. It is temporary, so that
 * a service that is gone never makes the server keep write-ahead log.
 */
export class LogicalSource implements ChangeSource {
  readonly #options: LogicalSourceOptions;
  readonly #pool: pg.Pool;
  #connection: Promise<ReplicationConnection> | null = null;
  /** The connection of the newest attempt. */
  #newest: ReplicationConnection | null = null;
  #sink: ChangeSink | null = null;
  #closed = false;

  constructor(options: LogicalSourceOptions) {
    this.#options = options;
    const { connectionString, onError } = options;
    this.#pool = new pg.Pool({ connectionString, max: 1, application_name: "content-service changes" });
    this.#pool.on("error", onError);
    this.#pool.on("connect", (client) => client.on("error", onError));
  }

  /** Connects in the background; a failed or lost connection is restored. */
  start(): void {
    this.#connection = this.#connect();
  }

  async open(sink: ChangeSink): Promise<void> {
    this.#sink = sink;
    const controller = new AbortController();
    const tooLate = sleep(OPEN_MILLISECONDS, null, { signal: controller.signal, ref: false }).then(
      () => Promise.reject(new FeedInterrupted("changes are not available at the moment")),
      () => {},
    );
    const streaming = this.#connection!.then((connection) => this.#stream(connection, sink));
    await Promise.race([streaming, tooLate]).finally(() => controller.abort());
  }

  rest(): void {
    this.#sink = null;
    // A connection streams only once.
    void this.#connection?.then((connection) => connection.destroy());
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await Promise.all([this.#newest?.close(), this.#pool.end()]);
  }

  async #stream(connection: ReplicationConnection, sink: ChangeSink): Promise<void> {
    try {
      await connection.stream((change, bytes) => sink.receive(change, bytes));
    } catch (error) {
      this.#options.onError(error as Error);
      connection.destroy();
      throw new FeedInterrupted("changes are not available at the moment");
    }
  }

  /** Resolves when a connection exists, after any number of attempts. */
  async #connect(): Promise<ReplicationConnection> {
    for (let pause = RECONNECT_MILLISECONDS; ; pause = Math.min(2 * pause, MAX_RECONNECT_MILLISECONDS)) {
      const visibility = new Visibility(this.#pool);
      const { connectionString } = this.#options;
      const connection = new ReplicationConnection(connectionString, visibility, () => this.#reconnect());
      this.#newest = connection;
      try {
        await connection.start();
        return connection;
      } catch (error) {
        if (this.#closed) return connection;
        connection.destroy();
        this.#options.onError(error as Error);
        await sleep(pause, null, { ref: false });
        if (this.#closed) return connection;
      }
    }
  }

  #reconnect(): void {
    if (this.#closed) return;
    this.#connection = this.#connect();
    this.#sink?.interrupt();
    this.#sink = null;
  }
}

type Receive = (change: Change, bytes: number) => void;

/** One replication connection and its slot. It first keeps the slot near the end of the log, and then streams from it. */
class ReplicationConnection {
  readonly #config: pg.ClientConfig;
  readonly #client: pg.Client;
  readonly #slot = `content_${process.pid}_${randomBytes(6).toString("hex")}`;
  readonly #decoder = new PgOutputDecoder();
  readonly #visibility: Visibility;
  readonly #onLost: () => void;
  /** Messages that arrived while queries did not see the current transaction yet; null if they do. */
  #waiting: Buffer[] | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isConnected = false;
  #isStarted = false;
  #isStreaming = false;
  /** Whether the server has sent anything since the last status update. */
  #isAlive = true;
  /** Changes up to this position have been received. */
  #received = 0n;
  /** Transactions that were committed before this position precede the first subscription. */
  #start = 0n;
  #isBeforeStart = false;

  /** `onLost` is called once, when a connection that was started has ended. */
  constructor(connectionString: string, visibility: Visibility, onLost: () => void) {
    this.#visibility = visibility;
    this.#onLost = onLost;
    this.#config = {
      connectionString,
      application_name: "content-service changes",
      connectionTimeoutMillis: CONNECT_MILLISECONDS,
      keepAlive: true,
    };
    this.#client = new pg.Client({ ...this.#config, replication: "database" } as pg.ClientConfig);
    this.#client.on("error", () => {});
    this.#client.on("end", () => this.#handleEnd());
  }

  async start(): Promise<void> {
    await this.#client.connect();
    this.#isConnected = true;
    await this.#client.query(`CREATE_REPLICATION_SLOT ${this.#slot} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
    this.#isStarted = true;
    this.#timer = setInterval(() => void this.#tick(), STATUS_MILLISECONDS);
    this.#timer.unref();
  }

  /** Calls back for each change that is committed after this call. Resolves when that is certain. */
  async stream(receive: Receive): Promise<void> {
    if (this.#isStreaming) return;
    this.#isStreaming = true;
    const { rows } = await this.#client.query("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as lsn");
    this.#start = BigInt(rows[0].lsn);
    const connection = connectionOf(this.#client);
    connection.on("copyData", ({ chunk }) => this.#read(chunk, receive));
    const started = new Promise<void>((resolve) => connection.once("replicationStart", resolve));
    const ended = this.#client.query(
      `START_REPLICATION SLOT ${this.#slot} LOGICAL 0/0 (proto_version '1', publication_names '${PUBLICATION}')`,
    );
    // It ends with the connection, whose end is handled.
    ended.catch(() => {});
    await Promise.race([started, ended]);
  }

  /** Resolves when the server has dropped the slot. */
  async close(): Promise<void> {
    const connection = connectionOf(this.#client);
    if (!this.#isConnected || connection.stream.destroyed) return this.destroy();
    // The server may still create the slot, and wait for other transactions to end.
    if (!this.#isStarted) await cancelRequest(this.#config, this.#client);
    const timer = setTimeout(() => connection.stream.destroy(), CLOSE_MILLISECONDS);
    const closed = new Promise<void>((resolve) => connection.stream.once("close", () => resolve()));
    connection.end();
    await closed;
    clearTimeout(timer);
  }

  destroy(): void {
    connectionOf(this.#client).stream.destroy();
  }

  #handleEnd(): void {
    clearInterval(this.#timer);
    if (this.#isStarted) this.#onLost();
    this.#isStarted = false;
  }

  async #tick(): Promise<void> {
    if (!this.#isAlive) return this.destroy();
    this.#isAlive = false;
    if (this.#isStreaming) return this.#sendStatus(true);
    const advance = `select pg_replication_slot_advance('${this.#slot}', pg_current_wal_lsn())`;
    await this.#client.query(advance).catch(() => this.destroy());
    this.#isAlive = true;
  }

  /** Reads one message of the streaming replication protocol: w holds data, k is a keepalive. */
  #read(chunk: Buffer, receive: Receive): void {
    this.#isAlive = true;
    if (chunk[0] !== 0x77) {
      if (chunk[17] === 1) this.#sendStatus(false);
    } else if (this.#waiting) {
      // A copy, because pg uses the buffer again.
      this.#waiting.push(Buffer.from(chunk));
    } else this.#decode(chunk, receive);
  }

  #decode(chunk: Buffer, receive: Receive): void {
    const message = this.#decoder.decode(chunk, 25);
    if (message) this.#handle(message, chunk.length, receive);
    if (message?.kind === "begin" && !this.#isBeforeStart && !this.#visibility.sees(message.xid))
      void this.#waitFor(message.xid, receive);
  }

  /** Reads on when queries see the transaction, because subscribers query its rows. */
  async #waitFor(xid: number, receive: Receive): Promise<void> {
    const { stream } = connectionOf(this.#client);
    const waiting: Buffer[] = [];
    this.#waiting = waiting;
    stream.pause();
    try {
      await this.#visibility.wait(xid);
    } catch {
      return this.destroy();
    }
    this.#waiting = null;
    if (!this.#isStarted) return;
    for (let i = 0; i < waiting.length; i++) {
      this.#decode(waiting[i]!, receive);
      // The next transaction waits too, with the messages after it.
      if (this.#waiting) return void (this.#waiting as Buffer[]).push(...waiting.slice(i + 1));
    }
    stream.resume();
  }

  #handle(message: LogicalMessage, bytes: number, receive: Receive): void {
    if (message.kind === "begin") this.#isBeforeStart = message.commitLsn < this.#start;
    else if (message.kind === "commit") this.#received = message.endLsn;
    else if (message.kind !== "truncate" && !this.#isBeforeStart) {
      const change = changeOf(message);
      if (change) receive(change, bytes);
    }
  }

  /** Source: PostgreSQL documentation, "Streaming Replication Protocol", Standby status update. */
  #sendStatus(wantsReply: boolean): void {
    const status = Buffer.alloc(34);
    status.write("r");
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(this.#received, at);
    status.writeBigInt64BE(BigInt(Date.now() - POSTGRES_EPOCH) * 1000n, 25);
    status[33] = wantsReply ? 1 : 0;
    connectionOf(this.#client).sendCopyFromChunk(status);
  }
}

type CopyConnection = {
  readonly stream: Socket;
  sendCopyFromChunk(chunk: Buffer): void;
  end(): void;
  on(event: "copyData", listener: (message: { chunk: Buffer }) => void): void;
  once(event: "replicationStart", listener: () => void): void;
};

const connectionOf = (client: pg.Client) => (client as unknown as { connection: CopyConnection }).connection;

const OPERATIONS = { insert: "INSERT", update: "UPDATE", delete: "DELETE" } as const;

/** Returns null for an update that has changed nothing. */
function changeOf(message: Exclude<LogicalMessage, { kind: "begin" | "commit" | "truncate" }>): Change | null {
  const { kind, table, old } = message;
  if (kind === "update" && old && message.new.every((value, i) => value === old[i])) return null;
  const { schema, name } = table;
  return { schema, table: name, operation: OPERATIONS[kind], row: rowOf(table, message.new ?? old!) };
}

function rowOf({ columns }: DecodedTable, values: Tuple): Change["row"] {
  const row: Record<string, string | null> = Object.create(null);
  for (const [i, value] of values.entries()) if (value !== undefined) row[columns[i]!.name] = value;
  return row;
}

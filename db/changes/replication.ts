import type { Socket } from "node:net";
import type pg from "pg";
import { TEXT_SETTINGS } from "../text-settings.ts";
import { cancelRequest } from "../wire/connection.ts";
import { PrimaryClient } from "../wire/primary.ts";
import { POSTGRES_EPOCH } from "./pgoutput.ts";

const CONNECT_MILLISECONDS = 10_000;
/** How long a closing connection waits until the server has dropped its temporary slot. */
const CLOSE_MILLISECONDS = 5000;
/** The pause between status updates. The server closes a connection without them (`wal_sender_timeout`). */
const STATUS_MILLISECONDS = 1000;
/** Milliseconds after which a silent server counts as gone. */
const SILENCE_MILLISECONDS = 15_000;

/** How every value is written, whatever the settings of the server and the login are. */
const FORMAT = [...TEXT_SETTINGS.map((setting) => setting.join("=")), "TimeZone=UTC"];

/** Receives what the server streams, in order. While a promise that it returns is pending, nothing more is received. */
export type StreamHandler = {
  readonly hasBegun: boolean;
  /** Everything before this position has been handled, and may be acknowledged. */
  readonly reached: bigint;
  /** The server has begun to stream. */
  begin(): void;
  /** The message of the output plugin begins at `DATA_START` of `chunk`, which is valid until the next call. */
  data(chunk: Buffer): Promise<void> | null;
  /** The server has sent everything up to this position. */
  reach(lsn: bigint): void;
  /** The stream has ended. */
  end(): void;
};

export const DATA_START = 25;

/**
 * A connection that runs commands, and then streams a replication slot once. It sends status updates while its reader is
 * busy, too.
 * Source: PostgreSQL documentation, "Streaming Replication Protocol".
 */
export class ReplicationConnection {
  /** Resolves when the connection has ended, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #config: pg.ClientConfig;
  readonly #client: pg.Client;
  #handler: StreamHandler | null = null;
  /** What arrived while the handler was busy; null if it is not. */
  #waiting: Buffer[] | null = null;
  #acknowledged = 0n;
  #heardAt = Date.now();
  #timer: NodeJS.Timeout | undefined;
  #isConnected = false;
  #isQuerying = false;
  /** Why the stream was ended. */
  #failure: Error | null = null;

  constructor(connectionString: string, settings: readonly string[] = []) {
    this.#config = {
      connectionString,
      application_name: "content-service changes",
      connectionTimeoutMillis: CONNECT_MILLISECONDS,
      keepAlive: true,
      options: [...FORMAT, ...settings].map((setting) => `-c ${setting}`).join(" "),
    };
    this.#client = new PrimaryClient({ ...this.#config, replication: "database" } as pg.ClientConfig);
    this.ended = new Promise((resolve) => this.#client.once("end", () => resolve()));
  }

  async connect(): Promise<void> {
    await this.#client.connect();
    this.#isConnected = true;
  }

  /** Runs one command or statement. The protocol of replication connections has no parameters. */
  async query<R extends pg.QueryResultRow>(text: string): Promise<R[]> {
    this.#isQuerying = true;
    const { rows } = await this.#client.query<R>(text).finally(() => {
      this.#isQuerying = false;
    });
    return rows;
  }

  /** Streams the changes that the slot has not acknowledged. Rejects with the error that ends it. */
  async stream(slot: string, publication: string, handler: StreamHandler): Promise<void> {
    this.#handler = handler;
    const connection = this.#connection;
    connection.on("copyData", ({ chunk }) => this.#read(chunk));
    connection.once("replicationStart", () => {
      this.#heardAt = Date.now();
      this.#timer = setInterval(() => this.#tick(), STATUS_MILLISECONDS);
      this.#timer.unref();
      handler.begin();
    });
    const options = [`proto_version '1'`, `publication_names '${publication}'`, `messages 'true'`];
    const text = `START_REPLICATION SLOT ${slot} LOGICAL 0/0 (${options.join(", ")})`;
    try {
      await this.#client.query(text);
    } catch (error) {
      throw this.#failure ?? error;
    } finally {
      clearInterval(this.#timer);
    }
  }

  /** The server may forget the changes before this position. */
  acknowledge(lsn: bigint): void {
    if (lsn > this.#acknowledged) this.#acknowledged = lsn;
  }

  /** Resolves when the connection is closed and the server has dropped its temporary slot. */
  async close(): Promise<void> {
    const { stream } = this.#connection;
    if (!this.#isConnected || stream.destroyed) return this.destroy();
    // The server may be creating a slot, and wait for other transactions to end.
    if (this.#isQuerying) await cancelRequest(this.#config, this.#client);
    if (stream.destroyed) return;
    const timer = setTimeout(() => stream.destroy(), CLOSE_MILLISECONDS);
    const closed = new Promise<void>((resolve) => stream.once("close", () => resolve()));
    this.#connection.end();
    // A paused socket would not notice its end.
    stream.resume();
    await closed;
    clearTimeout(timer);
  }

  destroy(): void {
    this.#connection.stream.destroy();
  }

  get #connection(): CopyConnection {
    return (this.#client as unknown as { connection: CopyConnection }).connection;
  }

  #read(chunk: Buffer): void {
    this.#heardAt = Date.now();
    // A copy, because pg uses the buffer again.
    if (this.#waiting) this.#waiting.push(Buffer.from(chunk));
    else {
      const busy = this.#handle(chunk);
      if (busy) void this.#pause(busy);
    }
  }

  /** A message is data (w) or a keepalive (k), which may ask for a status update. */
  #handle(chunk: Buffer): Promise<void> | null {
    if (chunk[0] === 0x77) return this.#handler!.data(chunk);
    this.#handler!.reach(chunk.readBigUInt64BE(1));
    if (chunk[17] === 1) this.#sendStatus(false);
    return null;
  }

  /** Stops reading until the handler is ready. The server then stops sending, so that memory stays bounded. */
  async #pause(busy: Promise<void>): Promise<void> {
    const { stream } = this.#connection;
    const waiting: Buffer[] = [];
    this.#waiting = waiting;
    stream.pause();
    try {
      await busy;
      for (const chunk of waiting) await this.#handle(chunk);
    } catch (error) {
      return this.fail(error as Error);
    }
    this.#waiting = null;
    this.#heardAt = Date.now();
    stream.resume();
  }

  #tick(): void {
    const isSilent = this.#waiting === null && Date.now() - this.#heardAt > SILENCE_MILLISECONDS;
    // A server that still runs replies to it.
    if (isSilent) this.fail(new Error("the database does not respond"));
    else this.#sendStatus(true);
  }

  /** Ends the connection with this error. */
  fail(error: Error): void {
    this.#failure = error;
    this.destroy();
  }

  #sendStatus(wantsReply: boolean): void {
    const status = Buffer.alloc(34);
    status.write("r");
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(this.#acknowledged, at);
    status.writeBigInt64BE(BigInt(Date.now() - POSTGRES_EPOCH) * 1000n, 25);
    status[33] = wantsReply ? 1 : 0;
    this.#connection.sendCopyFromChunk(status);
  }
}

type CopyConnection = {
  readonly stream: Socket;
  sendCopyFromChunk(chunk: Buffer): void;
  end(): void;
  on(event: "copyData", listener: (message: { chunk: Buffer }) => void): void;
  once(event: "replicationStart", listener: () => void): void;
};

import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import pg from "pg";
import protocol from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import { withoutStacks } from "../../problems/stackless.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import { PrimaryClient } from "./primary.ts";

const DATA_ROW = 0x44; // "D"
const COMMAND_COMPLETE = 0x43; // "C"
const BIND_COMPLETE = 0x32; // "2"
const READY_FOR_QUERY = 0x5a; // "Z"
const HEADER = 5; // one byte of type, four of length
const FIRST_FIELD = HEADER + 6; // two bytes for the number of fields, four for the length of the first

/** The messages ReadyForQuery by their status: idle, in a transaction, in a failed one. */
const READY: Readonly<Record<number, object>> = Object.fromEntries(
  ["I", "T", "E"].map((status) => [status.charCodeAt(0), { name: "readyForQuery", length: HEADER, status }]),
);

/** One row as received: a view on each field's bytes, null for NULL. */
export type RawRow = (Buffer | null)[];

/**
 * A connection whose rows stay bytes: bodies that Postgres has built are passed on without decoding.
 * pg-protocol handles all other messages.
 */
class RawConnection extends pg.Connection {
  /** Maximum bytes of the result of one batch; each batch resets `received`. */
  maxResultBytes = Number.POSITIVE_INFINITY;
  received = 0;
  /** Counts the bytes of the current batch. */
  recipient: Recipient | null = null;
  /** Receives the fields of a stream of rows with one field each, instead of the query. The bytes may be overwritten afterwards. */
  onField: ((field: Buffer) => void) | null = null;
  #stream: Duplex | null = null;
  readonly #others = new EventEmitter();
  #parsed: { readonly name: string } | null = null;
  /** An incomplete message, or the header that contains its length; `#have` bytes have been received. */
  #partial: Buffer | null = null;
  #have = 0;

  attachListeners(stream: Duplex): void {
    this.#stream = stream;
    protocol.parse(this.#others as never, (message) => {
      this.#parsed = message;
    });
    stream.on("data", (chunk: Buffer) => this.receive(chunk));
  }

  /** Processes received bytes; the chunk may be overwritten afterwards. */
  receive(chunk: Buffer): void {
    if (!this.#stream) return;
    let at = this.#partial ? this.#complete(chunk) : 0;
    while (this.#stream && chunk.length - at >= HEADER) {
      const length = lengthOf(chunk, at);
      if (chunk.length - at < length) break;
      if (this.#count(length)) this.#take(chunk.subarray(at, at + length), true);
      at += length;
    }
    if (this.#stream && at < chunk.length) this.#keep(chunk, at);
  }

  /** Completes the incomplete message; returns how many bytes of the chunk belong to it. */
  #complete(chunk: Buffer): number {
    let at = 0;
    while (this.#partial && at < chunk.length) {
      const copied = chunk.copy(this.#partial, this.#have, at);
      at += copied;
      this.#have += copied;
      if (this.#have < this.#partial.length) break;
      const message = this.#partial;
      const length = lengthOf(message, 0);
      this.#partial = null;
      if (message.length === HEADER && !this.#count(length)) break;
      if (message.length === length) this.#take(message, false);
      else this.#begin(message, 0, length);
    }
    return at;
  }

  #keep(chunk: Buffer, at: number): void {
    const isLengthKnown = chunk.length - at >= HEADER;
    if (!isLengthKnown) this.#begin(chunk, at, HEADER);
    else if (this.#count(lengthOf(chunk, at))) this.#begin(chunk, at, lengthOf(chunk, at));
  }

  #begin(bytes: Buffer, at: number, length: number): void {
    this.#partial = Buffer.allocUnsafe(length);
    this.#have = bytes.copy(this.#partial, 0, at);
  }

  /** Counts a message for the current batch, before memory is allocated for it. False if the result is too large. */
  #count(length: number): boolean {
    this.received += length;
    this.recipient?.add(length);
    if (this.received <= this.maxResultBytes) return true;
    this.#refuse();
    return false;
  }

  /** Processes a whole message. Rows are copied from a borrowed chunk, because their receiver keeps them. */
  #take(message: Buffer, isBorrowed: boolean): void {
    const [type] = message;
    if (type === DATA_ROW && this.onField) {
      this.onField(message.subarray(FIRST_FIELD));
    } else if (type === DATA_ROW) {
      this.emit("dataRow", { name: "dataRow", fields: fieldsOf(isBorrowed ? Buffer.from(message) : message, HEADER) });
    } else if (type === COMMAND_COMPLETE) {
      this.emit("commandComplete", {
        name: "commandComplete",
        text: message.toString("latin1", HEADER, message.length - 1),
      });
    } else if (type === READY_FOR_QUERY) {
      this.emit("readyForQuery", READY[message[HEADER]!]);
    } else if (type !== BIND_COMPLETE) {
      this.#parse(message);
    }
  }

  /** Leaves a whole message to pg-protocol. The stack of an error, which takes longer than the rest, would only name the parser. */
  #parse(message: Buffer): void {
    withoutStacks(() => this.#others.emit("data", message));
    const { name } = this.#parsed!;
    this.emit(name === "error" ? "errorMessage" : name, this.#parsed);
  }

  /** Destroys the connection: to use it again, the rest of the result would have to be read. */
  #refuse(): void {
    const stream = this.#stream;
    this.#stream = null;
    this.#partial = null;
    this.emit("error", problem("result too large", { bytes: this.maxResultBytes }));
    stream?.destroy();
  }
}

const lengthOf = (bytes: Buffer, at: number) => 1 + bytes.readUInt32BE(at + 1);

function fieldsOf(bytes: Buffer, start: number): RawRow {
  const fields: RawRow = new Array(bytes.readInt16BE(start));
  let at = start + 2;
  for (let i = 0; i < fields.length; i++) {
    const length = bytes.readInt32BE(at);
    at += 4;
    if (length < 0) {
      fields[i] = null;
      continue;
    }
    fields[i] = bytes.subarray(at, at + length);
    at += length;
  }
  return fields;
}

export type RawClientConfig = pg.ClientConfig & { readonly maxResultBytes?: number };

/** Bytes that a socket reads at once, always into the same buffer. */
const READ_BYTES = 65_536;

/** `pg.Client` on a raw connection, for `transaction.ts` only: rows of ordinary queries are Buffers too. */
export class RawClient extends PrimaryClient {
  constructor(config: RawClientConfig = {}) {
    super(config);
    // After super(): the TLS options may be part of the connection string, which pg.Client parses.
    const client = this as unknown as { ssl: unknown; sslNegotiation: string; connection: pg.Connection };
    const { ssl, sslNegotiation } = client;
    // With TLS this socket receives encrypted bytes.
    const stream = ssl
      ? undefined
      : () => readingInto(Buffer.allocUnsafeSlow(READ_BYTES), (chunk) => connection.receive(chunk));
    const connection = new RawConnection({ ...config, ssl, sslNegotiation, stream } as pg.ConnectionConfig);
    if (config.maxResultBytes) connection.maxResultBytes = config.maxResultBytes;
    client.connection = connection;
  }
}

/** A socket that reads into one buffer, instead of allocating one per read: a large result takes hundreds of reads. */
function readingInto(buffer: Buffer, receive: (chunk: Buffer) => void): Socket {
  const callback = (length: number) => {
    receive(buffer.subarray(0, length));
    return true;
  };
  return new Socket({ onread: { buffer, callback } });
}

/** pg reports an error at once, but accepts the next query only after the ReadyForQuery that follows: "drain". */
export function untilReady(client: pg.Client): Promise<void> {
  return new Promise((resolve) => {
    const ready = () => {
      client.off("drain", ready);
      client.off("end", ready);
      resolve();
    };
    client.on("drain", ready);
    client.on("end", ready);
  });
}

/** Whether the connection is to a pooler, which makes up the process id that a connection is opened with. */
export async function isPooled(client: pg.Client): Promise<boolean> {
  const { processID } = client as unknown as { processID: number };
  const { rows } = await client.query("select pg_catalog.pg_backend_pid()::text as pid");
  return Number(String(rows[0].pid)) !== processID;
}

/** The used part of AbortSignal, so that a lighter object can replace it. */
export type CancelSignal = {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
};

/** Maximum time that a cancel request may take. */
const CANCEL_MILLISECONDS = 5000;

/** Sends a cancel request for `client` on a separate connection; resolves when it has been sent. */
export function cancelRequest(config: pg.ClientConfig, client: pg.ClientBase): Promise<void> {
  const { processID, secretKey, host, port } = client as pg.Client & { processID: number; secretKey: number };
  const canceller = new pg.Client(config) as unknown as {
    connection: pg.Connection & {
      connect(at: number | string, host?: string): void;
      cancel(pid: number, key: number): void;
    };
  };
  const { connection } = canceller;
  // A transaction waits for this too, before it releases the cancelled connection.
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_MILLISECONDS);
  const sent = new Promise<void>((resolve) => {
    connection.on("connect", () => connection.cancel(processID, secretKey));
    connection.on("error", () => resolve());
    connection.on("end", () => resolve());
    if (host.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
  return sent.finally(() => clearTimeout(timer));
}

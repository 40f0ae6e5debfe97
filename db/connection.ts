import { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";
import pg from "pg";
import protocol from "pg-protocol";
import { ApiError, resultTooLarge } from "./errors.ts";

const DATA_ROW = 0x44; // "D"
const HEADER = 5; // one byte of type, four of length

/** One row as it came over the wire: a view on each field's bytes, null for NULL. */
export type RawRow = (Buffer | null)[];

/**
 * A connection whose rows stay bytes: bodies that Postgres has finished are passed on without being decoded.
 * All other messages go through pg-protocol unchanged.
 */
class RawConnection extends pg.Connection {
  /** Bytes that one batch may be answered with; its batch sets `received` back. */
  maxResultBytes = Number.POSITIVE_INFINITY;
  received = 0;

  attachListeners(stream: Duplex): void {
    const others = new EventEmitter();
    protocol.parse(others as never, (message) => {
      this.emit(message.name === "error" ? "errorMessage" : message.name, message);
    });

    // A message may come in many chunks: they are collected until `need` bytes are there and joined once.
    let chunks: Buffer[] = [];
    let have = 0;
    let need = HEADER;
    stream.on("data", (chunk: Buffer) => {
      this.received += chunk.length;
      if (this.received > this.maxResultBytes) return this.#refuse(stream);
      chunks.push(chunk);
      have += chunk.length;
      if (have < need) return;

      const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks, have);
      let at = 0;
      need = HEADER;
      while (have - at >= HEADER) {
        const length = 1 + bytes.readUInt32BE(at + 1);
        if (have - at < length) {
          need = length;
          break;
        }
        if (bytes[at] === DATA_ROW) this.emit("dataRow", { name: "dataRow", fields: fieldsOf(bytes, at + HEADER) });
        else others.emit("data", bytes.subarray(at, at + length));
        at += length;
      }
      chunks = at < have ? [bytes.subarray(at)] : [];
      have -= at;
    });
  }

  /** The rest would have to be read to use the connection again: it is given up. */
  #refuse(stream: Duplex): void {
    stream.removeAllListeners("data");
    this.emit("error", new ApiError(resultTooLarge(this.maxResultBytes)));
    stream.destroy();
  }
}

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

/** `pg.Client` on a raw connection; rows of ordinary queries are Buffers too, so it serves `transaction.ts` only. */
export class RawClient extends pg.Client {
  constructor(config: RawClientConfig = {}) {
    super(config);
    // Not before: what is asked of TLS may stand in the connection string, which pg.Client reads.
    const client = this as unknown as { ssl: unknown; sslNegotiation: string; connection: pg.Connection };
    const { ssl, sslNegotiation } = client;
    const connection = new RawConnection({ ...config, ssl, sslNegotiation } as pg.ConnectionConfig);
    if (config.maxResultBytes) connection.maxResultBytes = config.maxResultBytes;
    client.connection = connection;
  }
}

import type { Duplex } from "node:stream";

const PARSE = 0x50; // "P"
const BIND = 0x42; // "B"
const DESCRIBE = 0x44; // "D"
const EXECUTE = 0x45; // "E"
const CLOSE = 0x43; // "C"
const FLUSH = 0x48; // "H"
const SYNC = 0x53; // "S"
const STATEMENT = 0x53; // "S"
const PORTAL = 0x50; // "P"

/** The length of a null value. */
const NULL = -1;

const FIRST_BYTES = 16_384;
/** A larger buffer is handed over instead of copied. */
const MAX_KEPT_BYTES = 65_536;
/** Up to this length, the maximum size of the UTF-8 is reserved: counting the bytes would take as long as writing them. */
const MAX_UNCOUNTED = 1024;

/** A part of a value of this size is sent as it is, instead of copied. */
const MIN_SENT = 65_536;

/**
 * Collects messages to Postgres in one buffer, so that they are sent with one write. Large parts of values are between two buffers.
 * Source: PostgreSQL docs, "Message Formats".
 */
export class MessageWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;
  /** What comes before the buffer. */
  #before: Buffer[] = [];
  /** The bytes of the present message in `#before`, and which of them has its length. */
  #sent = 0;
  #first = 0;

  /** Postgres infers the types of the parameters. */
  parse(name: string, text: string): void {
    const start = this.#begin(PARSE);
    this.#cString(name);
    this.#cString(text);
    this.#int16(0);
    this.#end(start);
  }

  /** Parameters are sent as text; results are text or binary. */
  bind(name: string, values: readonly (string | readonly Buffer[] | null)[], binary: boolean, portal = ""): void {
    const start = this.#begin(BIND);
    this.#cString(portal);
    this.#cString(name);
    this.#int16(0);
    this.#int16(values.length);
    for (const value of values) this.#value(value);
    this.#int16(1);
    this.#int16(binary ? 1 : 0);
    this.#end(start);
  }

  /** Asks for the names and types of the columns of a bound statement. */
  describe(portal = ""): void {
    const start = this.#begin(DESCRIBE);
    this.#byte(PORTAL);
    this.#cString(portal);
    this.#end(start);
  }

  /** Fetches the next rows of a bound statement, at most `rows`; 0 fetches all. */
  execute(portal = "", rows = 0): void {
    const start = this.#begin(EXECUTE);
    this.#cString(portal);
    this.#int32(rows);
    this.#end(start);
  }

  close(name: string): void {
    const start = this.#begin(CLOSE);
    this.#byte(STATEMENT);
    this.#cString(name);
    this.#end(start);
  }

  flush(): void {
    this.#end(this.#begin(FLUSH));
  }

  sync(): void {
    this.#end(this.#begin(SYNC));
  }

  /** Returns the messages written since the last call, in parts. */
  take(): readonly Buffer[] {
    if (this.#before.length === 0) return [this.#takeBuffer()];
    const all = [...this.#before, this.#takeBuffer()];
    this.#before = [];
    return all;
  }

  #takeBuffer(): Buffer {
    const written = this.#bytes.subarray(0, this.#at);
    this.#at = 0;
    if (this.#bytes.length <= MAX_KEPT_BYTES) return Buffer.from(written);
    this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
    return written;
  }

  /** Returns the position of the length, which `#end` fills in. */
  #begin(type: number): number {
    this.#byte(type);
    const start = this.#at;
    this.#int32(0);
    this.#first = this.#before.length;
    this.#sent = 0;
    return start;
  }

  #end(start: number): void {
    const buffer = this.#before[this.#first] ?? this.#bytes;
    buffer.writeInt32BE(this.#sent + this.#at - start, start);
  }

  #value(value: string | readonly Buffer[] | null): void {
    if (value === null) this.#int32(NULL);
    else if (typeof value === "string") {
      const start = this.#at;
      this.#int32(0);
      this.#text(value);
      this.#bytes.writeInt32BE(this.#at - start - 4, start);
    } else this.#parts(value);
  }

  #parts(parts: readonly Buffer[]): void {
    this.#int32(parts.reduce((sum, { length }) => sum + length, 0));
    for (const part of parts)
      if (part.length < MIN_SENT) this.#copy(part);
      else {
        const written = this.#bytes.subarray(0, this.#at);
        this.#before.push(written, part);
        this.#sent += written.length + part.length;
        this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
        this.#at = 0;
      }
  }

  #cString(text: string): void {
    this.#text(text);
    this.#byte(0);
  }

  #text(text: string): void {
    this.#reserve(text.length <= MAX_UNCOUNTED ? text.length * 3 : Buffer.byteLength(text));
    this.#at += this.#bytes.write(text, this.#at);
  }

  #copy(bytes: Buffer): void {
    this.#reserve(bytes.length);
    this.#at += bytes.copy(this.#bytes, this.#at);
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#at++] = value;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#bytes[this.#at++] = value >> 8;
    this.#bytes[this.#at++] = value;
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
  }

  #reserve(size: number): void {
    const needed = this.#at + size;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

/** Writes the parts together. */
export function writeAll(stream: Pick<Duplex, "write" | "cork" | "uncork">, parts: readonly Buffer[]): void {
  if (parts.length === 1) {
    stream.write(parts[0]!);
    return;
  }
  stream.cork();
  for (const part of parts) stream.write(part);
  stream.uncork();
}

import type { Duplex } from "node:stream";
import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import { INVALID_TEXT, isInputFault, isOfChangedType, notePrepared } from "../errors.ts";
import type { RawRow } from "./connection.ts";

/** A text, or its UTF-8 in one or more parts. */
export type Value = string | readonly Buffer[] | null;

/** One SQL statement. Its values are already text, so that converting them cannot fail between two messages. */
export type Statement = {
  readonly text: string;
  readonly values: readonly Value[];
  /** Requests binary results: only for columns of type json and text, whose bytes are the same and arrive faster. */
  readonly binary?: boolean;
  /** Fetches the first rows only. The others are fetched from the portal, which exists until the transaction ends. */
  readonly portal?: Portal;
  /** Requests the columns of the result. */
  readonly isDescribed?: boolean;
  /** The context of its errors that have none from Postgres, as if a function had raised them. */
  readonly context?: string;
};

type Portal = { readonly name: string; readonly rows: number };

/**
 * `rowCount` is the count in the command tag: rows selected, inserted, updated or deleted. `isSuspended`: the portal may have
 * more rows. `columns` are those of a statement that asks for them and returns rows.
 */
export type Result = {
  readonly rows: RawRow[];
  rowCount: number;
  isSuspended?: true;
  columns?: readonly ResultColumn[];
};

/** `type` is the OID of its type. */
export type ResultColumn = { readonly name: string; readonly type: number };

/** A statement and the name that it is prepared as; a statement with the name "" is not kept. */
export type NamedStatement = Statement & {
  readonly name: string;
  /** Whether it belongs to callers without credentials, who have a small share of the prepared statements. */
  readonly isAnonymous?: boolean;
};

/** The part of pg's connection that a query uses; pg has no public type for it. */
type Wire = {
  stream: Pick<Duplex, "write" | "cork" | "uncork" | "destroy">;
  prepared?: PreparedStatements;
  received?: number;
  recipient?: Recipient | null;
};

export type BatchOptions = {
  /** Maximum prepared statements per connection, when the batch is sent. */
  readonly preparation: { readonly max: number };
  /** Whether the limit on the size of a result is lifted. */
  readonly unlimitedResult?: boolean;
  /** Counts the bytes of the result. */
  readonly recipient?: Recipient | null;
  /** Called as each statement completes, before the others have; `index` is its position. */
  readonly onCompleted?: ((index: number) => void) | undefined;
};

/**
 * Several statements before one Sync: Postgres runs them as one implicit transaction, which is committed when
 * ReadyForQuery arrives, and rolls all of them back when one fails. A `Submittable` of pg's client.
 */
export class Batch {
  readonly results: Result[];
  #statements: readonly NamedStatement[];
  #options: BatchOptions;
  #done: ((error: DatabaseError | Error | null) => void) | null;
  #wire: Wire | undefined;
  #undo: (Undo | null)[] = [];
  /** The index of the statement that Postgres is executing. */
  #current = 0;
  /** A batch that is written together with this one. */
  #next: Batch | null = null;
  #client: Pick<pg.Client, "query"> | null = null;
  #isWritten = false;
  #isDiscarded = false;
  /** Whether it has ended without an error. */
  isCommitted = false;

  constructor(
    statements: readonly NamedStatement[],
    options: BatchOptions,
    done: (error: DatabaseError | Error | null) => void,
  ) {
    this.#statements = statements;
    this.#options = options;
    this.#done = done;
    this.results = statements.map(() => ({ rows: [], rowCount: 0 }));
  }

  /**
   * Sends `next` with the same write, so that it runs whether this batch fails or not, without another round trip. `next` is
   * queued on `client`, the client of this batch, when this batch begins.
   */
  followedBy(next: Batch, client: Pick<pg.Client, "query">): void {
    this.#next = next;
    this.#client = client;
  }

  /** Ignores the rows that have not arrived. */
  discard(): void {
    this.#isDiscarded = true;
  }

  submit(wire: Wire): null {
    wire.recipient = this.#isDiscarded ? null : (this.#options.recipient ?? null);
    wire.received = this.#options.unlimitedResult ? Number.NEGATIVE_INFINITY : 0;
    if (!this.#isWritten) {
      for (let batch: Batch | null = this; batch !== null; batch = batch.#next) batch.#write(wire);
      writeAll(wire.stream, messages.take());
    }
    if (this.#next !== null) this.#client!.query(this.#next as never);
    return null;
  }

  #write(wire: Wire): void {
    wire.prepared ??= new PreparedStatements(messages);
    this.#wire = wire;
    this.#isWritten = true;
    const { prepared } = wire;
    const { preparation, onCompleted } = this.#options;
    const reportsEach = onCompleted !== undefined;
    try {
      for (const statement of this.#statements) {
        const name = preparation.max === 0 ? "" : statement.name;
        this.#undo.push(prepared.prepare(name, statement, preparation.max));
        const { portal } = statement;
        messages.bind(name, statement.values, statement.binary === true, portal?.name);
        if (statement.isDescribed) messages.describe(portal?.name);
        messages.execute(portal?.name, portal?.rows);
        // Without a Flush Postgres sends its messages only after the Sync.
        if (reportsEach) messages.flush();
      }
      messages.sync();
    } catch (error) {
      // Discards what was written: it would be sent with the next batch, which belongs to another request.
      messages.take();
      throw error;
    }
  }

  handleDataRow({ fields }: { fields: RawRow }): void {
    if (!this.#isDiscarded) this.results[this.#current]!.rows.push(fields);
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.results[this.#current]!.rowCount = Number(/\d+$/.exec(text)?.[0] ?? 0);
    this.#options.onCompleted?.(this.#current);
    this.#current++;
  }

  handleEmptyQuery(): void {
    this.#current++;
  }

  handleError(error: DatabaseError): void {
    if (isInputFault(error)) error.code = INVALID_TEXT;
    const prepared = this.#wire?.prepared;
    // Postgres skipped the statements after the failed one.
    while (this.#undo.length > this.#current + 1) this.#undo.pop()?.();
    const failed = this.#statements[this.#current];
    if (failed && failed.name !== "" && this.#undo[this.#current] === null) notePrepared(error);
    if (failed?.context) error.where ??= failed.context;
    if (failed) prepared?.doubt(failed.name);
    // 26000, no such statement: a pooler switched the server connection, or DEALLOCATE was executed.
    // After a change of a type, other statements may have it too, and a repetition would meet them one by one.
    if (error.code === "26000" || isOfChangedType(error)) prepared?.doubtAll();
    this.#finish(error);
  }

  // The transaction is committed only now: a deferred constraint fails after the last CommandComplete.
  handleReadyForQuery(): void {
    this.isCommitted = this.#done !== null;
    this.#finish(null);
  }

  // COPY FROM STDIN consumes the Sync that follows it: the connection cannot be used again.
  handleCopyInResponse(wire: Wire): void {
    this.#finish(problem("internal error", { cause: new Error("COPY FROM STDIN is not supported") }));
    wire.stream.destroy();
  }

  handleRowDescription({ fields }: { readonly fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.results[this.#current]!.columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
  }
  handleCopyData(): void {}

  handlePortalSuspended(): void {
    this.results[this.#current]!.isSuspended = true;
    this.#current++;
  }

  #finish(error: DatabaseError | Error | null): void {
    const done = this.#done;
    this.#done = null;
    if (this.#wire) {
      this.#wire.recipient = null;
      this.#wire.received = Number.NEGATIVE_INFINITY;
    }
    done?.(error);
  }
}

/** Undoes a change of the list if Postgres has not processed the message. */
export type Undo = () => void;

/** The part of the prepared statements that all callers without credentials share. */
const ANONYMOUS_PART = 1 / 5;

/**
 * Characters of all prepared statements, for each statement that a connection may have. The plans of a statement take about 70 bytes in
 * PostgreSQL for each of its characters.
 */
const CHARACTERS_PER_STATEMENT = 1000;

/** The statements that one connection has prepared. They survive a rollback. */
export class PreparedStatements {
  readonly #messages: MessageWriter;
  readonly #known: PreparedList;
  readonly #anonymous: PreparedList;

  /** The messages that prepare and close statements are added to `messages`. */
  constructor(messages: MessageWriter) {
    this.#messages = messages;
    this.#known = new PreparedList(messages);
    this.#anonymous = new PreparedList(messages);
  }

  /** Writes the statement unless the connection has prepared it. */
  prepare(name: string, { text, isAnonymous }: ToPrepare, max: number): Undo | null {
    if (name === "") {
      this.#messages.parse(name, text);
      return null;
    }
    return isAnonymous
      ? this.#anonymous.prepare(name, text, Math.ceil(max * ANONYMOUS_PART))
      : this.#known.prepare(name, text, max);
  }

  doubt(name: string): void {
    this.#known.doubt(name);
    this.#anonymous.doubt(name);
  }

  doubtAll(): void {
    this.#known.doubtAll();
    this.#anonymous.doubtAll();
  }
}

/** `isAnonymous`: whether it belongs to callers without credentials, who have a small share of the prepared statements. */
type ToPrepare = { readonly text: string; readonly isAnonymous?: boolean };

/** `isCertain`: whether the statement certainly exists. */
type Prepared = { isCertain: boolean; readonly length: number };

/**
 * Prepared statements by name, the least recently used first. After an error it is uncertain whether the failed statement exists, so it
 * is closed, which never fails, before it is parsed again.
 */
class PreparedList {
  readonly #messages: MessageWriter;
  readonly #statements = new Map<string, Prepared>();
  #characters = 0;

  constructor(messages: MessageWriter) {
    this.#messages = messages;
  }

  prepare(name: string, text: string, max: number): Undo | null {
    const known = this.#statements.get(name);
    if (known) this.#statements.delete(name);
    const statement = known ?? { isCertain: false, length: text.length };
    this.#statements.set(name, statement);
    if (known?.isCertain) return null;

    statement.isCertain = true;
    const closed: [string, Prepared][] = [];
    if (known) this.#messages.close(name);
    else {
      this.#characters += text.length;
      while (this.#isFull(max)) closed.push(this.#closeOldest());
    }
    this.#messages.parse(name, text);
    return () => {
      if (known) known.isCertain = false;
      else this.#remove(name);
      for (const [other, statement] of closed) {
        this.#statements.set(other, statement);
        this.#characters += statement.length;
      }
    };
  }

  doubt(name: string): void {
    const statement = this.#statements.get(name);
    if (statement) statement.isCertain = false;
  }

  doubtAll(): void {
    for (const statement of this.#statements.values()) statement.isCertain = false;
  }

  /** The newest statement always fits. */
  #isFull(max: number): boolean {
    const { size } = this.#statements;
    return size > 1 && (size > max || this.#characters > max * CHARACTERS_PER_STATEMENT);
  }

  #closeOldest(): [string, Prepared] {
    const oldest = this.#statements.entries().next().value!;
    this.#remove(oldest[0]);
    this.#messages.close(oldest[0]);
    return oldest;
  }

  #remove(name: string): void {
    this.#characters -= this.#statements.get(name)?.length ?? 0;
    this.#statements.delete(name);
  }
}

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

/** Messages are taken in the turn of the event loop in which they are written. */
const messages = new MessageWriter();

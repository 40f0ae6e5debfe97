import type pg from "pg";
import { comparePositions, type Position } from "./position.ts";
import { QuerySnapshot } from "./query-snapshot.ts";
import { DATA_START, type StreamHandler } from "./replication.ts";
import { DESCRIBED_AGAIN, type Entry, LENGTH_BYTES, type SharedLog } from "./shared-log.ts";
import type { Beginning } from "./source.ts";
import { SCHEMA_CHANGED } from "./stream-decoder.ts";

/** A transaction is stored in parts of about so many bytes. */
const PART = 262_144;
/** The stream is held back while so many bytes have not been stored. */
const MAX_WAITING = 1_048_576;
/** Milliseconds between two entries that only say how far the log was read. */
const REACH_INTERVAL = 1000;

const PREFIX = Buffer.from(`${SCHEMA_CHANGED}\0`);

export type LogWriterOptions = {
  readonly log: SharedLog;
  readonly pool: pg.Pool;
  readonly beginning: Pick<Beginning, "start" | "stream">;
  /** A larger row is not stored: it is a gap. */
  readonly maxBytes: number;
  /** Called once. The stream must begin again. */
  onFailure(error: Error | "lost"): void;
  onEnd(): void;
};

/** Stores the stream of a slot in the log that processes share. Entries have whole transactions, or parts of one. */
export class LogWriter implements StreamHandler {
  hasBegun = false;
  readonly #options: LogWriterOptions;
  readonly #snapshot: QuerySnapshot;
  #reached: bigint;
  /** The end of the last entry that was cut. */
  #cutAt: Position;
  /** Where the next entry begins: later than `#cutAt` after a gap. */
  #base: Position;
  /** The position after the last message. */
  #position: Position;
  #frames: Buffer[] = [];
  #bytes = 0;
  /** The numbers of the transactions of the next entry. */
  #xids: number[] = [];
  /** The transaction that is being read. */
  #transaction: { readonly lsn: bigint; readonly xid: number; readonly begin: Buffer } | null = null;
  /** Whether the rest of the transaction is left out. */
  #isLeftOut = false;
  /** The description of each table, and those that the server has sent since the last change of the table. */
  readonly #tables = new Map<number, Buffer>();
  readonly #fresh = new Set<number>();
  /** The tables that the next entry describes. */
  readonly #described = new Set<number>();
  #storing: Promise<void> | null = null;
  #reachedAt = 0;
  #isEnded = false;

  constructor(options: LogWriterOptions) {
    this.#options = options;
    this.#snapshot = new QuerySnapshot(options.pool);
    const { start } = options.beginning;
    this.#reached = start.lsn;
    this.#cutAt = start;
    this.#base = start;
    this.#position = start;
  }

  /** Everything before this position is stored. */
  get reached(): bigint {
    return this.#reached;
  }

  begin(): void {
    this.hasBegun = true;
  }

  end(): void {
    this.#isEnded = true;
    this.#options.onEnd();
  }

  /** Between transactions the server says how far it has read. */
  reach(lsn: bigint): void {
    if (this.#transaction !== null) return;
    if (lsn > this.#position.lsn) this.#position = { lsn, index: 0 };
    if (Date.now() - this.#reachedAt < REACH_INTERVAL) return;
    this.#reachedAt = Date.now();
    this.#store();
  }

  data(chunk: Buffer): Promise<void> | null {
    const message = chunk.subarray(DATA_START);
    switch (String.fromCharCode(message[0]!)) {
      case "B":
        this.#begin(message);
        break;
      case "C":
        this.#commit(message);
        break;
      case "R":
        this.#tables.set(message.readUInt32BE(1), Buffer.from(message));
        this.#fresh.add(message.readUInt32BE(1));
        break;
      case "I":
      case "U":
      case "D":
        this.#add(message, [message.readUInt32BE(1)], 1);
        break;
      case "T": {
        const tables = Array.from({ length: message.readUInt32BE(1) }, (_, i) => message.readUInt32BE(6 + 4 * i));
        this.#add(message, tables, tables.length);
        break;
      }
      case "M":
        // After flags and an LSN.
        if (message.subarray(10, 10 + PREFIX.length).equals(PREFIX)) this.#add(message, [], 1);
    }
    if (this.#bytes >= PART) this.#store();
    return this.#bytes < MAX_WAITING || this.#storing === null ? null : this.#storing;
  }

  #begin(message: Buffer): void {
    const begin = frameOf(message);
    this.#transaction = { lsn: message.readBigUInt64BE(1), xid: message.readUInt32BE(17), begin };
    this.#position = { lsn: this.#transaction.lsn, index: 0 };
    this.#isLeftOut = false;
    this.#push(begin);
    this.#xids.push(this.#transaction.xid);
  }

  #commit(message: Buffer): void {
    this.#push(frameOf(message));
    this.#position = { lsn: message.readBigUInt64BE(10), index: 0 };
    this.#transaction = null;
    // What precedes the gap is not stored either: it may be in the same entry.
    if (this.#isLeftOut) this.#drop(this.#position);
    this.#store();
  }

  /** Adds a message that counts as so many changes, after the descriptions of its tables. */
  #add(message: Buffer, tables: readonly number[], count: number): void {
    // A message outside of a transaction has no position.
    if (this.#transaction === null || this.#isLeftOut) return;
    this.#isLeftOut = message.length > this.#options.maxBytes;
    if (this.#isLeftOut) return;
    for (const table of tables) this.#describe(table);
    this.#push(frameOf(message));
    this.#position = { lsn: this.#position.lsn, index: this.#position.index + count };
  }

  #describe(table: number): void {
    const isFresh = this.#fresh.delete(table);
    if (!isFresh && this.#described.has(table)) return;
    const frame = frameOf(this.#tables.get(table)!);
    if (!isFresh) frame[LENGTH_BYTES] = DESCRIBED_AGAIN;
    this.#push(frame);
    this.#described.add(table);
  }

  #push(frame: Buffer): void {
    this.#frames.push(frame);
    this.#bytes += frame.length;
  }

  /** The next entry begins here. */
  #drop(base: Position): void {
    this.#frames = [];
    this.#bytes = 0;
    this.#described.clear();
    this.#xids = [];
    this.#base = base;
    if (this.#transaction === null) return;
    this.#push(this.#transaction.begin);
    this.#xids.push(this.#transaction.xid);
  }

  /** One entry is stored after the other. Meanwhile, what arrives is collected for the next one. */
  #store(): void {
    this.#storing ??= this.#storeAll()
      .catch((error: Error) => this.#fail(error))
      .finally(() => {
        this.#storing = null;
        // What has arrived since the last look.
        if (this.#isDue() && !this.#isEnded) this.#store();
      });
  }

  async #storeAll(): Promise<void> {
    for (let after = this.#cutAt; this.#isDue() && !this.#isEnded; after = this.#cutAt) {
      const entry: Entry = { base: this.#base, end: this.#position, data: Buffer.concat(this.#frames, this.#bytes) };
      const xids = this.#xids;
      this.#cutAt = entry.end;
      this.#drop(entry.end);
      // Readers query the rows of a change, so it is stored when queries see its transaction.
      for (const xid of xids) await this.#snapshot.wait(xid);
      const { log, beginning } = this.#options;
      if ((await log.append(beginning.stream, entry, after)) === "lost") return this.#fail("lost");
      if (entry.end.index === 0) this.#reached = entry.end.lsn;
    }
  }

  #isDue(): boolean {
    if (this.#transaction === null) return comparePositions(this.#position, this.#cutAt) > 0;
    return this.#bytes >= PART && !this.#isLeftOut && comparePositions(this.#position, this.#base) > 0;
  }

  #fail(error: Error | "lost"): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#options.onFailure(error);
  }
}

/** A copy of the message, after its length. */
function frameOf(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + message.length);
  frame.writeUInt32BE(message.length);
  message.copy(frame, LENGTH_BYTES);
  return frame;
}

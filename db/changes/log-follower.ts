import type pg from "pg";
import { pause } from "../repeat.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { comparePositions, laterOf, type Position } from "./position.ts";
import { DESCRIBED, DESCRIBED_AGAIN, type Entry, type Found, LENGTH_BYTES, type SharedLog } from "./shared-log.ts";
import type { ChangeSink } from "./source.ts";
import { StreamDecoder } from "./stream-decoder.ts";

/** Milliseconds between two looks for the stream before it is found, and afterwards, */
const SEARCH = 50;
const LOOK = 1000;
/** and between two attempts. */
const PAUSE = 200;
/** Milliseconds without a process that reads the write-ahead log, after which nothing is received. */
const MAX_SILENCE = 5000;
/** An entry that so many attempts cannot decode is a gap. */
const MAX_ATTEMPTS = 5;

const UNREAD =
  "no process with this REDIS_URL reads the write-ahead log: all processes on the database must have the same REDIS_URL";

/** Bytes at the end of the write-ahead log that the server may keep to itself for some time: they have no commit. */
const UNFLUSHED = 16_384n;

export type LogFollowerOptions = {
  readonly log: SharedLog;
  readonly pool: pg.Pool;
  readonly sink: ChangeSink;
  readonly onTable: (table: DescribedTable) => Promise<boolean> | null;
  readonly onError: (error: Error) => void;
  /** Changes are received from now on. */
  onBegin(): void;
};

/** Decodes what another process, or this one, stores in the log that processes share. */
export class LogFollower {
  readonly #options: LogFollowerOptions;
  readonly #stopping = new AbortController();
  #found: Found | null = null;
  #foundAt = Date.now();
  /** Why nothing is found; null if a process reads. */
  #failure: string | null = "it has not connected yet";
  #decoder: StreamDecoder | null = null;
  /** The stream that is decoded, and up to where. */
  #stream = "";
  #decoded: Position | null = null;
  /** What was committed up to here precedes every subscription: they wait until it is decoded, so that it is no gap for them. */
  #replayed: Position | null = null;

  constructor(options: LogFollowerOptions) {
    this.#options = options;
  }

  get hasBegun(): boolean {
    return this.#decoder?.hasBegun === true;
  }

  get failure(): string | null {
    return this.#failure;
  }

  get reader(): string | null {
    return this.#failure === null ? this.#found!.reader : null;
  }

  /** Bytes of the write-ahead log that are stored and not decoded yet. */
  get behind(): number {
    return this.#found && this.#decoded ? Math.max(0, Number(this.#found.top.lsn - this.#decoded.lsn)) : 0;
  }

  lagBehind(end: bigint) {
    return this.hasBegun ? this.#decoder!.lagBehind(end) : { bytes: 0, seconds: 0 };
  }

  /** Resolves when it has stopped. */
  async run(): Promise<void> {
    await Promise.all([this.#look(), this.#follow()]);
    this.#forget();
  }

  stop(): void {
    this.#stopping.abort();
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  #pause(milliseconds: number): Promise<unknown> {
    return pause(milliseconds, this.#stopping.signal);
  }

  /** Says that changes are wanted, also while what was read is not decoded because readers are slow. */
  async #look(): Promise<void> {
    while (!this.#isStopped) {
      await this.#options.log.want().then(
        (found) => this.#find(found),
        (error: Error) => this.#miss(error.message),
      );
      await this.#pause(this.#found === null ? SEARCH : LOOK);
    }
  }

  #find(found: Found | null): void {
    if (found === null) this.#miss(UNREAD);
    else {
      this.#found = found;
      this.#foundAt = Date.now();
      this.#failure = null;
    }
  }

  /** Another process is elected within this time. */
  #miss(failure: string): void {
    if (Date.now() - this.#foundAt < MAX_SILENCE) return;
    this.#failure = failure;
    this.#decoder?.end();
  }

  async #follow(): Promise<void> {
    while (!this.#isStopped) {
      if (this.#found === null) {
        await this.#pause(SEARCH);
        continue;
      }
      if (this.#found.stream !== this.#stream) {
        this.#forget();
        this.#stream = this.#found.stream;
        this.#decoded = null;
        this.#replayed = laterOf(this.#found.top, { lsn: this.#found.live - UNFLUSHED, index: 0 });
      }
      try {
        const entries = await this.#options.log.read(this.#stream, this.#decoded);
        for (const entry of entries) await this.#take(entry);
        // All is replayed, or a process reads again.
        if (this.#isLive && this.#failure === null && !this.hasBegun && !this.#isStopped) this.#decoder?.begin();
      } catch {
        await this.#pause(PAUSE);
      }
    }
  }

  get #isLive(): boolean {
    return this.#decoded !== null && comparePositions(this.#decoded, this.#replayed!) >= 0;
  }

  async #take(entry: Entry): Promise<void> {
    if (this.#decoded && comparePositions(entry.base, this.#decoded) > 0) this.#forget();
    for (let attempt = 1; attempt <= MAX_ATTEMPTS && !this.#isStopped; attempt++) {
      this.#decoder ??= await this.#begin(entry.base);
      const error = await this.#decode(entry, this.#decoder).catch((error: Error) => error);
      if (!error) break;
      this.#options.onError(error);
      this.#forget();
      await this.#pause(PAUSE);
    }
    if (!this.#isStopped) this.#decoded = entry.end;
  }

  /** What comes next begins anew: what is missing before it is a gap. */
  #forget(): void {
    this.#decoder?.end();
    this.#decoder = null;
  }

  async #begin(base: Position): Promise<StreamDecoder> {
    const { pool, sink, onTable, onBegin } = this.#options;
    const { stream, ancestors } = this.#found!;
    const { rows } = await pool.query<{ end: string }>("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as end");
    // The sink may have forgotten this source, and would take its position for the latest one.
    if (this.#isStopped) throw new Error("stopped");
    const decoder = new StreamDecoder(onTable, true);
    decoder.start(sink, pool, { start: base, live: { lsn: BigInt(rows[0]!.end), index: 0 }, stream, ancestors });
    decoder.begin(!this.#isLive);
    onBegin();
    return decoder;
  }

  /** Rejects if the entry is malformed, or the database does not respond. */
  async #decode({ base, end, data }: Entry, decoder: StreamDecoder): Promise<void> {
    for (let at = 0; at < data.length && !this.#isStopped; ) {
      const isFirst = at === 0;
      const start = at + LENGTH_BYTES;
      const length = data.readUInt32BE(at);
      at = start + length;
      if (at > data.length) throw new RangeError("an entry in REDIS_URL is not one of the service");
      if (data[start] === DESCRIBED_AGAIN) {
        if (decoder.knows(data.readUInt32BE(start + 1))) continue;
        data[start] = DESCRIBED;
      }
      const busy = decoder.take(data, start, length);
      // Awaiting each message would take longer than to decode it.
      if (busy) await busy;
      if (isFirst && base.index > 0) decoder.continueAt(base.index);
    }
    if (end.index === 0 && !this.#isStopped) decoder.reach(end.lsn);
  }
}

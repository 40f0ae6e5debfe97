import { setTimeout as sleep } from "node:timers/promises";
import { type Change, comparePositions, laterOf, type Position } from "./change.ts";
import { parseStart, type Start, textOfStart } from "./position.ts";
import { ChangeReader } from "./reader.ts";
import { ORIGIN, Ring } from "./ring.ts";

/** Where a source begins to send changes. */
export type Beginning = {
  /** Every change after this position will be sent, and possibly earlier ones again. */
  readonly start: Position;
  /** The end of the log at this moment: readers that name no position start here. */
  readonly live: Start;
  /** Names the order of the positions. Positions of different streams cannot be compared. */
  readonly stream: string;
};

/** Receives what a source reads. */
export type ChangeSink = {
  /** Called after each connection. */
  begin(beginning: Beginning): void;
  /** `bytes` is the approximate size of the change. */
  receive(change: Change, bytes: number): void;
  /** There is no further change up to this position. */
  reach(position: Position): void;
  /** Resolves when the sink can receive more; null if it can. */
  room(): Promise<void> | null;
  /** DDL was committed between the changes. Resolves when the next change can be received. */
  changeSchema(): Promise<void>;
  /** No change is received until the next beginning. */
  lose(): void;
};

/** Where committed changes are read. */
export interface ChangeSource {
  /** Prepares in the background. */
  start(): void;
  /** Sends changes to the sink, and restores lost connections. */
  open(sink: ChangeSink): void;
  /** Stops sending changes, until the next `open`. */
  rest(): void;
  close(): Promise<void>;
}

/** Changes cannot be read at the moment. */
export class FeedUnavailable extends Error {}

export type ChangeFeedOptions = {
  /** Null if changes cannot be read. */
  readonly source: ChangeSource | null;
  /** Maximum size in bytes of the changes that are kept. */
  readonly maxBytes: number;
  /** Milliseconds that `open` waits. */
  readonly openTimeout?: number;
};

export type ReadOptions = {
  /** By default, the changes that are committed from now on are read. */
  readonly since?: Start | undefined;
  /** For the reader of one client: instead of holding back the stream when it reads slowly, it gets a FeedGap. */
  readonly mayFallBehind?: boolean;
};

/** Milliseconds that changes are kept, and that the source is read after the last reader has ended. */
const MAX_AGE = 300_000;
const OPEN_TIMEOUT = 8000;
/** The stream is held back when a reader has more than this share of the ring before it. */
const MAX_UNREAD = 1 / 4;

/**
 * The committed changes of rows, in commit order. The source is read only while there are readers. The latest changes are kept,
 * and each reader has a position in them.
 */
export class ChangeFeed implements ChangeSink {
  readonly #source: ChangeSource | null;
  readonly #maxUnread: number;
  readonly #openTimeout: number;
  readonly #ring: Ring;
  readonly #readers = new Set<ChangeReader>();
  readonly #schemaListeners: (() => Promise<void>)[] = [];
  #isOpen = false;
  #live: Start = ORIGIN;
  #stream = "";
  /** Resolved while changes are received. */
  #beginning = Promise.withResolvers<void>();
  #isLive = false;
  /** Resolved when the readers have taken enough. */
  #room: PromiseWithResolvers<void> | null = null;
  #isWaking = false;
  #restTimer: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor({ source, maxBytes, openTimeout = OPEN_TIMEOUT }: ChangeFeedOptions) {
    this.#openTimeout = openTimeout;
    this.#source = source;
    this.#ring = new Ring(maxBytes, MAX_AGE);
    this.#maxUnread = maxBytes * MAX_UNREAD;
    source?.start();
  }

  /** The number of readers. */
  get readers(): number {
    return this.#readers.size;
  }

  /** Every change up to here has been received. */
  get head(): Position {
    return this.#ring.end;
  }

  /** Resolves when every later commit will be received. Rejects with FeedUnavailable if that takes too long. */
  async open(): Promise<void> {
    if (!this.#source) throw new FeedUnavailable("this service does not read changes");
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#source.open(this);
    }
    this.#restSoon();
    if (this.#isLive) return;
    const waiting = new AbortController();
    const tooLate = sleep(this.#openTimeout, "too late", { signal: waiting.signal, ref: false }).catch(() => null);
    const result = await Promise.race([this.#beginning.promise, tooLate]).finally(() => waiting.abort());
    if (result === "too late") throw new FeedUnavailable("changes are not available at the moment: try again");
  }

  /** A new reader. The feed must be open. Throws FeedGap if changes since then are no longer kept. */
  read({ since, mayFallBehind = false }: ReadOptions = {}): ChangeReader {
    if (!this.#isOpen) throw new FeedUnavailable("changes are not read at the moment");
    const reader = new ChangeReader(this.#ring, {
      since: since ?? laterOf<Start>(this.#live, this.#ring.end),
      mayFallBehind,
      onTaken: (taker) => this.#follow(taker),
    });
    this.#readers.add(reader);
    clearTimeout(this.#restTimer);
    return reader;
  }

  /** The text of a position, for clients. */
  textOf(start: Start): string {
    return textOfStart(start, this.#stream);
  }

  /** The start that `textOf` has written; null if it is malformed. That of another stream precedes everything that is kept. */
  startOf(text: string): Start | null {
    const parsed = parseStart(text);
    if (!parsed) return null;
    return parsed.stream === this.#stream ? parsed.start : { lsn: -1n, index: 0 };
  }

  /** Calls back when DDL is committed between two changes. The later one is received when the promise is resolved. */
  onSchemaChange(listener: () => Promise<void>): void {
    this.#schemaListeners.push(listener);
  }

  close(): Promise<void> {
    for (const reader of [...this.#readers]) reader.close();
    clearTimeout(this.#restTimer);
    this.#closed ??= this.#source?.close() ?? Promise.resolve();
    return this.#closed;
  }

  begin({ start, live, stream }: Beginning): void {
    const isContinued = stream === this.#stream && comparePositions(start, this.#ring.end) <= 0;
    if (!isContinued) {
      this.#ring.restart(start);
      this.#stream = stream;
      this.#live = live;
    }
    this.#isLive = true;
    this.#beginning.resolve();
    this.#wakeSoon();
  }

  receive(change: Change, bytes: number): void {
    // After a lost connection, the source sends some changes again.
    if (comparePositions(change.position, this.#ring.end) <= 0) return;
    let needed = this.#ring.next;
    for (const { mayFallBehind, next } of this.#readers) if (!mayFallBehind && next < needed) needed = next;
    this.#ring.add(change, bytes, needed);
    this.#wakeSoon();
  }

  reach(position: Position): void {
    this.#ring.reach(position);
  }

  room(): Promise<void> | null {
    if (!this.#isFull()) return null;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  async changeSchema(): Promise<void> {
    await Promise.all(this.#schemaListeners.map((listener) => listener()));
  }

  lose(): void {
    if (!this.#isLive) return;
    this.#isLive = false;
    this.#beginning = Promise.withResolvers();
  }

  #isFull(): boolean {
    for (const { mayFallBehind, unread } of this.#readers) if (!mayFallBehind && unread > this.#maxUnread) return true;
    return false;
  }

  #follow(reader: ChangeReader): void {
    if (reader.isClosed) {
      this.#readers.delete(reader);
      this.#restSoon();
    }
    if (!this.#room || this.#isFull()) return;
    this.#room.resolve();
    this.#room = null;
  }

  /** Wakes the readers once for all changes of one read of the socket. */
  #wakeSoon(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    queueMicrotask(() => {
      this.#isWaking = false;
      for (const reader of this.#readers) reader.wake();
    });
  }

  #restSoon(): void {
    clearTimeout(this.#restTimer);
    if (this.#readers.size > 0) return;
    this.#restTimer = setTimeout(() => this.#rest(), MAX_AGE);
    this.#restTimer.unref();
  }

  #rest(): void {
    this.#isOpen = false;
    this.lose();
    this.#source?.rest();
    this.#stream = "";
    this.#ring.restart(ORIGIN);
  }
}

import { problem } from "../../problems/problem.ts";
import type { TableName } from "../catalog/catalog.ts";
import { within } from "../repeat.ts";
import type { Change } from "./change.ts";
import { type LostChanges, NOTHING_LOST } from "./lost-changes.ts";
import type { Mark, Position, Start } from "./position.ts";
import { comparePositions, isIn, laterOf, parseStartIn, startAfter, textOfStart } from "./position.ts";
import type { Publication } from "./publication.ts";
import { ChangeReader, type ReadOptions } from "./reader.ts";
import { ORIGIN, Ring } from "./ring.ts";
import type { Beginning, ChangeSink, ChangeSource, SourceHealth } from "./source.ts";
import { type FoundSource, NOT_READ, SourceSearch, type SourceSearchOptions } from "./source-search.ts";

const unavailable = (message: string) => problem("changes unavailable", { message });

export type ChangeFeedOptions = {
  /** Null if changes cannot be read. */
  readonly source: ChangeSource | null;
  /** The tables whose changes are read; null for those of a publication that a DBA manages. */
  readonly publication?: Publication | null;
  /** Looks for the source while there is none. */
  readonly search?: SourceSearchOptions;
  /** Maximum size in bytes of the changes that are kept. */
  readonly maxBytes: number;
  /** Milliseconds that `open` waits. */
  readonly openTimeout: number;
};

/** Milliseconds that changes are kept, and that the source is read after the last reader has ended. */
const MAX_AGE = 300_000;
/** Maximum number of running transactions in a position, which is sent in a header. */
const MAX_RUNNING = 200;
/** The stream is held back while a reader has more than this share of the ring left to read. */
const MAX_UNREAD = 1 / 4;

/**
 * The committed changes of rows, in commit order. The source is read only while there are readers. The latest changes are kept,
 * and each reader has a position in them.
 */
export class ChangeFeed implements ChangeSink {
  readonly #search: SourceSearch | undefined;
  #source: ChangeSource | null = null;
  #publication: Publication | null = null;
  readonly #maxUnread: number;
  readonly #openTimeout: number;
  readonly #ring: Ring;
  readonly #readers = new Set<ChangeReader>();
  readonly #deliveries: { readonly size: number }[] = [];
  readonly #schemaListeners: (() => Promise<void>)[] = [];
  readonly #lossListeners: ((recreated: ReadonlySet<string>) => void)[] = [];
  readonly #received = { INSERT: 0, UPDATE: 0, DELETE: 0, TRUNCATE: 0 };
  /** How often changes have been missed. */
  #gaps = 0;
  #isOpen = false;
  #live: Start = ORIGIN;
  #stream = "";
  #ancestors: NonNullable<Beginning["ancestors"]> = new Map();
  /** Resolved while changes are received. */
  #beginning = Promise.withResolvers<void>();
  #isLive = false;
  /** Resolved when the readers have taken enough. */
  #capacity: PromiseWithResolvers<void> | null = null;
  #isWaking = false;
  #restTimer: NodeJS.Timeout | undefined;
  published: Promise<void> | undefined; // Resolves when the publication has been read once.
  #closed: Promise<void> | undefined;

  constructor({ source, publication, search, maxBytes, openTimeout }: ChangeFeedOptions) {
    this.#openTimeout = openTimeout;
    this.#ring = new Ring(maxBytes, MAX_AGE);
    this.#maxUnread = maxBytes * MAX_UNREAD;
    if (source) this.#connect({ source, publication: publication ?? null });
    if (search) this.#search = new SourceSearch(search, (found) => this.#connect(found));
  }

  /** The number of subscriptions to changes, of all interfaces. */
  get subscriptions(): number {
    return this.#deliveries.reduce((sum, { size }) => sum + size, 0);
  }

  /** Counts the subscriptions of an interface. */
  count(delivery: { readonly size: number }): void {
    this.#deliveries.push(delivery);
  }

  /** Why changes are not read, for operators; null if they are. */
  get missing(): string | null {
    return this.#source ? null : (this.#search?.reason ?? NOT_READ);
  }

  /** For `/health`. */
  get health() {
    if (!this.#source) return { state: "unavailable", reason: this.missing! };
    const { since } = this.#ring;
    return {
      ...this.#source.health,
      subscriptions: this.subscriptions,
      readers: this.#readers.size,
      ring: {
        changes: this.#ring.next - this.#ring.oldest,
        bytes: this.#ring.bytes,
        seconds: since === null ? 0 : (Date.now() - since) / 1000,
      },
      ...this.counts,
      ...(this.#publication && { publication: this.#publication.health }),
    };
  }

  /** Changes received, and how often changes have been missed. */
  get counts() {
    return { received: this.#received, gaps: this.#gaps };
  }

  /** The state of the source; null without one. */
  get source(): SourceHealth | null {
    return this.#source?.health ?? null;
  }

  /** To be called after DDL: publishes the tables that callers may now read. */
  followSchema(): void {
    this.#publication?.soon();
    this.#search?.soon();
  }

  /** What a subscriber to the table does not receive whose policies and filter read these columns. */
  async lostChanges(table: TableName, read: ReadonlySet<string>): Promise<LostChanges> {
    if (!this.#source) await this.#search?.now();
    if (!this.#source) return { all: NOT_READ, deletes: null };
    return this.#publication?.lostChanges(table, read) ?? NOTHING_LOST;
  }

  /** The same as far as it is known, and a call when it may have changed; changes of the tables `recreated` have been missed. */
  knownLosses: Publication["knownLosses"] = (...of) => this.#publication?.knownLosses(...of) ?? NOTHING_LOST;
  onLosses = (listener: (recreated: ReadonlySet<string>) => void) => void this.#lossListeners.push(listener);

  /** A change could not be delivered: earlier positions are gaps from now on. */
  miss: Publication["published"]["miss"] = (...change) => this.#publication?.published.miss(...change);

  /** Resolves when every later commit will be received. Rejects with Problem if that takes too long. */
  async open(): Promise<void> {
    if (!this.#source) throw unavailable(NOT_READ);
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#source.open(this);
    }
    this.#restSoon();
    await this.published;
    if (this.#isLive) return;
    const begun = this.#beginning.promise.then(() => true);
    if (!(await within(this.#openTimeout, begun)))
      throw unavailable("changes are not available at the moment: try again");
  }

  /** A new reader, which begins now without `since`. The feed must be open. Throws `feedGap` if changes since then are not kept, or of `tables` were missed. */
  read({ since, tables = [], mayFallBehind = false }: ReadOptions = {}): ChangeReader {
    if (!this.#isOpen) throw unavailable("changes are not read at the moment");
    if (since) for (const table of tables) this.#publication?.refuseMissed(table, since);
    // A table may have been published after what has arrived so far.
    const now = [this.#live, this.#ring.end, ...(this.#publication?.startsOf(tables) ?? [])].reduce(laterOf);
    const onTaken = (taker: ChangeReader) => this.#follow(taker);
    const reader = new ChangeReader(this.#ring, { since: since ?? now, mayFallBehind, onTaken });
    this.#readers.add(reader);
    clearTimeout(this.#restTimer);
    return reader;
  }

  /** The text of a position, for clients. */
  textOf = (start: Start, stream = this.#stream): string =>
    textOfStart({ ...start, published: this.#publication?.published.textAt(start) ?? start.published }, stream);

  /** Read it before a query, and pass it to `startAfter`; null if the position of the query cannot be known. */
  get mark(): Mark | null {
    if (this.#stream === "") return this.#source?.resting.mark ?? null;
    return { stream: this.#stream, position: this.#ring.end };
  }

  /** The text of the position of a query, for clients; on a replica with what it had replayed. Null if too many transactions were running. */
  textAfter(mark: Mark, snapshot: string, replayed: bigint | null = null): string | null {
    const start = startAfter(mark, snapshot, replayed);
    return start.snapshot!.running.size > MAX_RUNNING ? null : this.textOf(start, mark.stream);
  }

  /** The start that `textOf` has written; null if it is malformed. A start in another stream precedes all kept changes. */
  startOf(text: string): Start | null {
    return parseStartIn(this.#stream, this.#ancestors, text);
  }

  /** Calls back when DDL is committed between two changes. The later one waits for the promise of `listener`. */
  onSchemaChange(listener: () => Promise<void>): void {
    this.#schemaListeners.push(listener);
  }

  close(): Promise<void> {
    for (const reader of [...this.#readers]) reader.close();
    clearTimeout(this.#restTimer);
    this.#closed ??= Promise.resolve(this.#search?.close())
      .then(() => Promise.all([this.#publication?.close(), this.#source?.close()]))
      .then(() => {});
    return this.#closed;
  }

  begin({ start, live, stream, ancestors = new Map(), isReplay = false }: Beginning): void {
    if (!isIn(stream, ancestors, this.#stream, this.#ring.end) || comparePositions(start, this.#ring.end) > 0) {
      if (this.#stream !== "" && (!isReplay || this.#readers.size > 0)) this.#gaps += 1;
      this.#ring.restart(start);
      this.#live = live;
    }
    this.#stream = stream;
    this.#ancestors = ancestors;
    if (!isReplay) {
      this.#isLive = true;
      this.#beginning.resolve();
    }
    this.#wakeSoon();
  }

  receive(change: Change, bytes: number): void {
    // After a lost connection, the source sends some changes again.
    if (comparePositions(change.position, this.#ring.end) <= 0) return;
    let needed = this.#ring.next;
    for (const { mayFallBehind, next } of this.#readers) if (!mayFallBehind && next < needed) needed = next;
    this.#ring.add(change, bytes, needed);
    this.#received[change.operation] += 1;
    this.#wakeSoon();
  }

  reach(position: Position): void {
    this.#ring.reach(position);
  }

  waitForCapacity(): Promise<void> | null {
    if (!this.#isFull()) return null;
    this.#capacity ??= Promise.withResolvers();
    return this.#capacity.promise;
  }

  async changeSchema(): Promise<void> {
    await Promise.all(this.#schemaListeners.map((listener) => listener()));
  }

  lose(): void {
    if (!this.#isLive) return;
    this.#isLive = false;
    this.#beginning = Promise.withResolvers();
  }

  #connect({ source, publication }: FoundSource): void {
    this.#source = source;
    this.#publication = publication;
    publication?.onTables((recreated) => {
      for (const listener of this.#lossListeners) listener(recreated);
    });
    source.start();
    this.published = publication?.start();
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
    if (!this.#capacity || this.#isFull()) return;
    this.#capacity.resolve();
    this.#capacity = null;
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

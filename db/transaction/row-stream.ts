import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { Problem, problem } from "../../problems/problem.ts";
import { isLost, isStalePlan } from "../errors.ts";
import { Batch, type BatchOptions, MessageWriter, type NamedStatement, type Result } from "../wire/batch.ts";
import { type CancelSignal, untilReady } from "../wire/connection.ts";
import { REPLAYED, replayedIn } from "./identity.ts";
import type { FrameOptions, RunOptions } from "./run-options.ts";

/** The portal of the rows. Its first row arrives with the opening statements, so that their errors arrive before a response. */
export const ROWS_PORTAL = { name: "rows", rows: 1 } as const;

const FIRST_FETCH = 100;
const MAX_FETCH = 10_000;
/** The target size of a fetch in bytes: large enough that the cost of its round trip hardly matters. */
const FETCH_BYTES = 262_144;

/** A connection that is lent for a transaction of several round trips. */
export type Lease = {
  readonly client: pg.Client;
  /** Begin the transaction and run its statements, one of which has the portal `ROWS_PORTAL`. */
  readonly statements: readonly NamedStatement[];
  /** Called with an error that the database has raised before the first row. */
  readonly onFailure: (error: DatabaseError) => void;
  /** Commit or roll back. */
  readonly end: readonly NamedStatement[];
  readonly options: BatchOptions;
  /** Notes an error for which the opening statements are repeated. */
  examine(error: DatabaseError): Promise<void>;
  /** Called when the transaction has ended, or may have. */
  onEnded(): Promise<void>;
  /** Cancels what the connection executes. */
  cancel(): Promise<void>;
  /** Returns the connection to the pool; with an error it is closed. */
  release(broken: Error | undefined): void;
};

export type StreamOptions = FrameOptions &
  StreamLimits &
  Pick<RunOptions, "reading" | "isRead" | "onReplayed"> & { readonly onConnected?: () => void };

/** A stream of rows, and the results of the statements that opened it. */
export type OpenedStream = { readonly results: readonly Result[]; readonly stream: RowStream };

type StreamLimits = {
  /** Milliseconds that the transaction may take; 0 means no limit. */
  readonly timeout: number;
  readonly signal: CancelSignal;
};

/**
 * Rows of a statement that are read while they are used, in one transaction: Postgres produces them only as fast as `next` is
 * called. `close` must follow.
 */
export class RowStream {
  readonly #lease: Lease;
  readonly #limits: StreamLimits;
  readonly #deadline: number;
  readonly #buffers = new RowBuffers();
  #first: Buffer | null = null;
  /** The number of rows in the completed fetches. */
  rows = 0;
  #fetch: Fetch | null = null;
  #size = FIRST_FETCH;
  #isComplete = false;
  #isClosed = false;
  #broken: Error | undefined;

  constructor(lease: Lease, limits: StreamLimits) {
    this.#lease = lease;
    this.#limits = limits;
    this.#deadline = limits.timeout === 0 ? Number.POSITIVE_INFINITY : performance.now() + limits.timeout;
  }

  /** What the server has replayed, before the transaction begins; null if it is no replica. */
  async replayed(): Promise<bigint | null> {
    return replayedIn({ results: await this.#run([REPLAYED]) }, 0);
  }

  /** Runs the opening statements and returns their results. Rejects with pg's DatabaseError. */
  async open(): Promise<Result[]> {
    const { statements, cancel, onFailure } = this.#lease;
    const { signal } = this.#limits;
    let cancelled: Promise<void> | undefined;
    const onAbort = () => {
      cancelled = cancel();
    };
    signal.addEventListener("abort", onAbort);
    try {
      return this.#keepFirst(await this.#runOpening(statements));
    } catch (error) {
      if (!this.#broken && !signal.aborted && !(error instanceof Problem)) onFailure(error as DatabaseError);
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
      if (cancelled) await cancelled;
    }
  }

  #runOpening(statements: readonly NamedStatement[]): Promise<Result[]> {
    return this.#run(statements).catch(async (error) => {
      if (!isStalePlan(error)) throw error;
      await this.#lease.client.query("rollback");
      await this.#lease.examine(error);
      return this.#run(statements);
    });
  }

  #keepFirst(results: Result[]): Result[] {
    const { statements } = this.#lease;
    const { rows, isSuspended = false } = results[statements.findIndex(({ portal }) => portal)]!;
    this.#first = rows[0]?.[0] ?? null;
    this.rows = rows.length;
    this.#isComplete = !isSuspended;
    return results;
  }

  /** The next rows, one after another, valid until the next call; null when all rows have been returned and the transaction has been committed. */
  async next(): Promise<Buffer | null> {
    const { signal, timeout } = this.#limits;
    if (signal.aborted) throw signal.reason;
    if (performance.now() > this.#deadline) throw problem("stream too long", { seconds: timeout / 1000 });
    if (this.#first) {
      const row = this.#first;
      this.#first = null;
      return row;
    }
    if (this.#isComplete) {
      await this.#end();
      return null;
    }
    return this.#take();
  }

  /** Ends the transaction, if it is open, and returns the connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { client, cancel, release, onEnded } = this.#lease;
    if (this.#fetch && !this.#fetch.isOver) {
      // A cancel request affects whatever the connection executes: the next statement must wait for it.
      await Promise.all([cancel(), this.#fetch.discard()]);
    }
    if (!this.#broken) await client.query("rollback").catch((error) => this.#keepLoss(error));
    if (this.#broken) await onEnded();
    release(this.#broken);
  }

  async #take(): Promise<Buffer> {
    const { client } = this.#lease;
    if (this.#fetch === null) {
      this.#fetch = new Fetch(client, this.#size, this.#buffers);
      client.query(this.#fetch as never);
    }
    const fetch = this.#fetch;
    const cancelled = () => fetch.wake();
    this.#limits.signal.addEventListener("abort", cancelled);
    try {
      const rows = await fetch.take();
      if (this.#limits.signal.aborted) throw this.#limits.signal.reason;
      if (!fetch.isOver) return rows;
      this.#isComplete = fetch.isComplete;
      this.rows += fetch.count;
      this.#size = Math.max(1, Math.min(MAX_FETCH, this.#size * 4, Math.round(FETCH_BYTES / fetch.rowBytes)));
      this.#fetch = null;
      return rows;
    } catch (error) {
      this.#keepLoss(error as Error);
      throw error;
    } finally {
      this.#limits.signal.removeEventListener("abort", cancelled);
    }
  }

  async #end(): Promise<void> {
    await this.#run(this.#lease.end);
    this.#isClosed = true;
    await this.#lease.onEnded();
    this.#lease.release(undefined);
  }

  #run(statements: readonly NamedStatement[]): Promise<Result[]> {
    const { client, options } = this.#lease;
    return new Promise((resolve, reject) => {
      const batch: Batch = new Batch(statements, options, (error) => {
        if (!error) {
          resolve(batch.results);
          return;
        }
        this.#keepLoss(error);
        if (this.#broken) reject(error);
        else untilReady(client).then(() => reject(error));
      });
      client.query(batch as never);
    });
  }

  #keepLoss(error: Error): void {
    if (error !== this.#limits.signal.reason && isLost(error as DatabaseError)) this.#broken = error;
  }
}

/** When this many bytes have been received, the socket is paused until they are taken, so that Postgres waits. */
const MAX_WAITING_BYTES = 65_536;
/** With room for the rows of one more read of the socket, which may arrive after the pause. */
const BUFFER_BYTES = 2 * MAX_WAITING_BYTES;

/** Collects rows in two buffers in turn, so that a stream allocates nothing: one is filled while the other is sent. */
class RowBuffers {
  #filling = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #sent = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #length = 0;

  get isFull(): boolean {
    return this.#length >= MAX_WAITING_BYTES;
  }

  add(field: Buffer): void {
    const length = this.#length + field.length;
    if (length > this.#filling.length) this.#grow(length);
    field.copy(this.#filling, this.#length);
    this.#length = length;
  }

  /** The rows that were added, valid until the next call. */
  take(): Buffer {
    const taken = this.#filling.subarray(0, this.#length);
    // A buffer that was needed for one large row is not kept.
    const isUsual = this.#sent.length === BUFFER_BYTES;
    const next = isUsual ? this.#sent : Buffer.allocUnsafeSlow(BUFFER_BYTES);
    this.#sent = this.#filling;
    this.#filling = next;
    this.#length = 0;
    return taken;
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(length, this.#filling.length * 2));
    this.#filling.copy(larger, 0, 0, this.#length);
    this.#filling = larger;
  }
}

/** The part of pg's connection that a fetch uses; pg has no public type for it. */
type Wire = {
  readonly stream: { write(bytes: Buffer): void; pause(): void; resume(): void };
  received: number;
  recipient: null;
  onField: ((field: Buffer) => void) | null;
};

const messages = new MessageWriter();

/** Fetches the next rows of the portal. A `Submittable` of pg's client. */
class Fetch {
  isOver = false;
  /** Whether the portal has no more rows. */
  isComplete = false;
  readonly #client: pg.Client;
  readonly #size: number;
  readonly #buffers: RowBuffers;
  #wire: Wire | null = null;
  #bytes = 0;
  /** Rows received so far. */
  count = 0;
  #isDiscarding = false;
  #error: Error | null = null;
  #ready: Promise<void> | null = null;
  #wake: (() => void) | null = null;

  constructor(client: pg.Client, size: number, buffers: RowBuffers) {
    this.#client = client;
    this.#size = size;
    this.#buffers = buffers;
  }

  /** Average bytes of a row. */
  get rowBytes(): number {
    return Math.max(1, this.#bytes / Math.max(1, this.count));
  }

  /** The rows that have been received: at least MAX_WAITING_BYTES, or all. Rejects if the statement fails. */
  async take(): Promise<Buffer> {
    if (!this.isOver && !this.#buffers.isFull) await this.#progress();
    if (this.#ready) await this.#ready;
    if (this.#error) throw this.#error;
    return this.#buffers.take();
  }

  /** Resolves when the statement has ended. Its rows are dropped. */
  async discard(): Promise<void> {
    this.#isDiscarding = true;
    while (!this.isOver) await this.#progress();
    if (this.#ready) await this.#ready;
  }

  wake(): void {
    this.#wake?.();
  }

  #progress(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#wire?.stream.resume();
    });
  }

  submit(wire: Wire): null {
    this.#wire = wire;
    // What is sent to the client is counted where it is sent.
    wire.recipient = null;
    wire.received = 0;
    const add = (field: Buffer) => this.#add(wire, field);
    wire.onField = add;
    messages.execute(ROWS_PORTAL.name, this.#size);
    messages.sync();
    for (const part of messages.take()) wire.stream.write(part);
    return null;
  }

  #add(wire: Wire, field: Buffer): void {
    // The limit of a result applies to each row.
    wire.received = 0;
    if (this.#isDiscarding) return;
    this.count++;
    this.#bytes += field.length;
    this.#buffers.add(field);
    if (!this.#buffers.isFull) return;
    wire.stream.pause();
    this.wake();
  }

  handleCommandComplete(): void {
    this.isComplete = true;
  }

  handleError(error: DatabaseError): void {
    this.#error = error;
    if (!isLost(error)) this.#ready = untilReady(this.#client);
    this.#end();
  }

  handleReadyForQuery(): void {
    this.#end();
  }

  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleRowDescription(): void {}
  handleEmptyQuery(): void {}
  handleCopyInResponse(): void {}
  handleCopyData(): void {}

  #end(): void {
    this.isOver = true;
    if (this.#wire) this.#wire.onField = null;
    // The connection is used again. Without one, the connection was lost before the statement was sent.
    this.#wire?.stream.resume();
    this.wake();
  }
}

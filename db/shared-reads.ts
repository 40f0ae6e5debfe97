import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Span } from "../telemetry/span.ts";
import { MAX_SHARED, type Slot } from "./admission.ts";
import { Batch, type Result } from "./batch.ts";
import { UNKNOWN_CODE } from "./catalog/code.ts";
import { cancelRequest, untilReady } from "./connection.ts";
import { ApiError, isLost, isStalePlan } from "./errors.ts";
import { type ExecutionOptions, failureOf, type Work } from "./execution.ts";
import type { PooledConnection } from "./pool.ts";
import type { Recipient } from "./unsent-bytes.ts";

/** A transaction that only reads, and was quick until now. */
type Read = {
  readonly work: Work;
  /** When it was requested, on the clock of `performance.now()`. */
  readonly asked: number;
  resolve(results: Result[]): void;
  reject(error: unknown): void;
};

export type SharedReadsOptions = Pick<ExecutionOptions, "onSync" | "onEnd" | "onStatementTimeout" | "release"> & {
  readonly pool: pg.ClientConfig;
  /** Milliseconds. Only quicker reads share a connection. Those that wait four times as long are run again on other connections. */
  readonly limit: number;
  /** A slot for a read that is run again alone. */
  enter(recipient: Recipient | null): Promise<Slot>;
  /** A clean connection. If it fails, it has given the slot back. */
  connect(slot: Slot): PooledConnection | Promise<PooledConnection>;
  /** Notes that a transaction has a connection. False if its client has gone: it is not sent. */
  connected(work: Work, asked: number): boolean;
  /** Runs a read on this connection alone, and releases both. */
  runOn(connection: PooledConnection, slot: Slot, work: Work): Promise<Result[]>;
};

/**
 * Sends quick reads that share a slot on one connection, with one write. Each is a transaction with the identity of its own caller,
 * and fails alone. A read that another one on the connection may have affected is run again, alone on a connection.
 */
export class SharedReads {
  readonly #options: SharedReadsOptions;
  /** A new array for each turn: a map would keep what it has held until a full garbage collection. */
  #waiting: { readonly slot: Slot; readonly reads: Read[] }[] = [];
  /** Reads that were sent together with others. */
  count = 0;

  constructor(options: SharedReadsOptions) {
    this.#options = options;
  }

  /** Resolves and rejects as `Transactions.run` does. The reads of a slot that come in one turn of the event loop are sent together. */
  run(work: Work, slot: Slot, asked: number): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.#send());
      const read = { work, asked, resolve, reject };
      const group = this.#waiting.find((each) => each.slot === slot);
      if (group === undefined) this.#waiting.push({ slot, reads: [read] });
      else group.reads.push(read);
    });
  }

  #send(): void {
    const groups = this.#waiting;
    this.#waiting = [];
    for (const { slot } of groups) slot.places = 0;
    for (const { slot, reads } of groups) this.#sendTogether(slot, reads);
  }

  #sendTogether(slot: Slot, reads: Read[]): void {
    const connection = this.#options.connect(slot);
    if (!(connection instanceof Promise)) {
      this.#sendOn(connection, slot, reads);
      return;
    }
    const fail = (error: unknown) => {
      for (const { reject } of reads) reject(error);
    };
    connection.then((opened) => this.#sendOn(opened, slot, reads), fail);
  }

  #sendOn(connection: PooledConnection, slot: Slot, reads: Read[]): void {
    const sent = reads.filter(({ work, asked, reject }) => {
      const isWanted = this.#options.connected(work, asked);
      if (!isWanted) reject(work.signal!.reason);
      return isWanted;
    });
    if (sent.length === 0) {
      this.#options.release(connection, slot, undefined);
    } else if (sent.length === 1) {
      const [{ work, resolve, reject }] = sent as [Read];
      this.#options.runOn(connection, slot, work).then(resolve, reject);
    } else {
      this.count += sent.length;
      new SharedConnection(connection, slot, this.#options).send(sent);
    }
  }
}

/** A read on a shared connection. */
type Sent = {
  /** Null when it is run again on another connection: then this result is ignored. */
  read: Read | null;
  readonly batch: Batch;
  readonly span: Span | undefined;
  readonly onAbort: () => void;
};

/** Several reads on one connection. Their results arrive in order. */
class SharedConnection {
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
  readonly #options: SharedReadsOptions;
  /** Those that have not ended; the database executes the first. */
  #sent: Sent[] = [];
  readonly #start = performance.now();
  /** When the first of `#sent` began. */
  #since = this.#start;
  #hasFailed = false;
  #timer: NodeJS.Timeout | undefined;
  #cancelled: Promise<unknown> | null = null;

  constructor(connection: PooledConnection, slot: Slot, options: SharedReadsOptions) {
    this.#connection = connection;
    this.#slot = slot;
    this.#options = options;
  }

  send(reads: readonly Read[]): void {
    const { client } = this.#connection;
    this.#sent = reads.map((read) => this.#prepare(read));
    for (let i = 1; i < reads.length; i++) this.#sent[i - 1]!.batch.followedBy(this.#sent[i]!.batch, client);
    const { code } = reads[0]!.work;
    // After a new catalog, a connection that was used with an older one is cleaned before its next use.
    this.#connection.codeWhenUsed = reads.every(({ work }) => work.code === code) ? code : UNKNOWN_CODE;
    // If this process was paused, results may be waiting: they are read before setImmediate calls back.
    const late = () => setImmediate(() => this.#moveWaiting());
    this.#timer = setTimeout(late, MAX_SHARED * this.#options.limit);
    try {
      client.query(this.#sent[0]!.batch as never);
    } catch (error) {
      // Nothing was sent. The read that cannot be written fails when it is alone.
      this.#lose(error as Error);
    }
  }

  #prepare(read: Read): Sent {
    const { work } = read;
    const onAbort = () => this.#cancelUnwanted();
    work.signal?.addEventListener("abort", onAbort);
    this.#options.onSync();
    const batch: Batch = new Batch(work.statements, work.batchOptions, (error) => {
      if (this.#sent[0] === sent) this.#end(sent, error as DatabaseError | null);
    });
    const sent: Sent = { read, batch, span: work.startTrip?.(), onAbort };
    return sent;
  }

  /** The first read has ended. */
  #end(sent: Sent, error: DatabaseError | null): void {
    const { read, batch, span } = sent;
    const now = performance.now();
    read?.work.pace?.add(now - this.#since);
    this.#since = now;
    // The result is too large, and the connection was cut off: this concerns the first read only.
    const isRefused = (error as Error | null) instanceof ApiError;
    if (error !== null && isLost(error) && !isRefused) {
      this.#lose(error);
      return;
    }
    this.#sent.shift();
    detach(sent);
    if (error !== null) span?.fail(error.message);
    span?.end();
    const isDisturbed = error !== null && (this.#hasFailed || isStalePlan(error));
    this.#hasFailed ||= error !== null;
    const settle = () => {
      if (read === null) return;
      if (isDisturbed) this.#runAgain(read);
      else this.#settle(read, batch, error);
    };
    if (isRefused) {
      this.#lose(error!);
      settle();
    } else if (this.#sent.length === 0) {
      this.#release(error, settle);
    } else {
      settle();
      if (this.#sent[0]!.read === null) this.#timer!.refresh();
      else this.#cancelUnwanted();
    }
  }

  /** The connection cannot be used again. */
  #lose(error: Error): void {
    const sent = this.#sent;
    this.#sent = [];
    clearTimeout(this.#timer);
    this.#options.release(this.#connection, this.#slot, error);
    for (const each of sent) {
      const { read, span } = each;
      detach(each);
      span?.fail(error.message);
      span?.end();
      if (read !== null) this.#runAgain(read);
    }
  }

  /** The first read takes longer than expected: those behind it are run again. If its result is not needed, it is cancelled. */
  #moveWaiting(): void {
    const [first, ...waiting] = this.#sent;
    for (const sent of waiting) {
      const { read } = sent;
      detach(sent);
      sent.read = null;
      sent.batch.discard();
      if (read !== null) this.#runAgain(read);
    }
    if (first?.read === null) this.#cancelFirst();
    else this.#cancelUnwanted();
  }

  #settle({ work, resolve, reject }: Read, batch: Batch, error: DatabaseError | null): void {
    const { signal, first, last } = work;
    this.#options.onEnd((performance.now() - this.#start) / 1000, work);
    const problem = error && failureOf(error, work, this.#options);
    if (signal?.aborted) reject(signal.reason);
    else if (problem) reject(problem);
    else resolve(batch.results.slice(first, last));
  }

  /**
   * Runs a read again, alone. After an error the connection may lack statements that the failed read was to prepare; after its loss
   * the outcome is unknown, which does not matter to a read.
   */
  #runAgain({ work, resolve, reject }: Read): void {
    const { enter, connect, runOn, release } = this.#options;
    const { signal, recipient } = work;
    const run = async () => {
      if (signal?.aborted) throw signal.reason;
      const slot = await enter(recipient);
      const connection = await connect(slot);
      if (!signal?.aborted) return runOn(connection, slot, work);
      release(connection, slot, undefined);
      throw signal.reason;
    };
    run().then(resolve, reject);
  }

  /** Releases the connection once it can be used again, and settles the last read. */
  #release(error: DatabaseError | null, settle: () => void): void {
    clearTimeout(this.#timer);
    const release = () => {
      this.#options.release(this.#connection, this.#slot, undefined);
      settle();
    };
    if (error === null && this.#cancelled === null) release();
    else Promise.all([error && untilReady(this.#connection.client), this.#cancelled]).then(release);
  }

  /** Cancels the first read if its client has gone, unless another waits. */
  #cancelUnwanted(): void {
    const isUnwanted = ({ read }: Sent) => read === null || read.work.signal?.aborted;
    if (this.#sent[0]?.read && this.#sent.every(isUnwanted)) this.#cancelFirst();
  }

  /** A cancel request affects whatever the connection executes when it arrives: here the first read or another unwanted one. */
  #cancelFirst(): void {
    const cancelled = cancelRequest(this.#options.pool, this.#connection.client);
    this.#cancelled = Promise.all([this.#cancelled, cancelled]);
  }
}

const detach = ({ read, onAbort }: Sent) => read?.work.signal?.removeEventListener("abort", onAbort);

import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { Problem } from "../../problems/problem.ts";
import type { Span } from "../../telemetry/span.ts";
import { MAX_SHARED, type Slot } from "../admission/admission.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import { isLost, isStalePlan } from "../errors.ts";
import { Batch, type Result } from "../wire/batch.ts";
import { cancelRequest, untilReady } from "../wire/connection.ts";
import { type ExecutionOptions, failureOf, replayedIn, type Work } from "./execution.ts";
import type { PooledConnection } from "./pool.ts";

/** One statement that only reads, with its settings, and was quick until now. */
export type Read = {
  readonly work: Work;
  /** When it was requested, on the clock of `performance.now()`. */
  readonly asked: number;
  resolve(results: Result[]): void;
  reject(error: unknown): void;
};

export type SharedConnectionOptions = Pick<ExecutionOptions, "onSync" | "onEnd" | "onStatementTimeout" | "release"> & {
  readonly pool: pg.ClientConfig;
  /** Milliseconds. Only quicker reads share a connection. Those that wait four times as long are run again on other connections. */
  readonly limit: number;
  /** A slot for a read that is run again alone. */
  enter(recipient: Recipient | null): Promise<Slot>;
  /** A clean connection. If it fails, it has given the slot back. */
  connect(slot: Slot): PooledConnection | Promise<PooledConnection>;
  /** Runs a read on this connection alone, and releases both. */
  runOn(connection: PooledConnection, slot: Slot, work: Work): Promise<Result[]>;
};

/** Where the result of a read is expected from: this connection only, or another one too. The first result counts. */
type State = "here" | "waits for another" | "elsewhere" | "settled";

/** A read on a shared connection, in a transaction of its own. */
type Sent = {
  readonly read: Read;
  readonly span: Span | undefined;
  readonly onAbort: () => void;
  readonly batch: Batch;
  state: State;
};

const isSettled = ({ state }: Sent) => state === "settled";
const isNeeded = ({ state }: Sent) => state === "here" || state === "waits for another";
const isAborted = ({ read }: Sent) => read.work.signal?.aborted ?? false;

/**
 * Several reads on one connection. Their transactions end in order. A read that the error of another one may have affected is run again
 * on this connection after the others.
 */
export class SharedConnection {
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
  readonly #options: SharedConnectionOptions;
  /** Those that have not ended; the database executes the first. */
  #sent: Sent[] = [];
  /** The reads to run again. */
  #disturbed: Sent[] = [];
  readonly #start = performance.now();
  /** When the first of `#sent` began. */
  #since = this.#start;
  #hasFailed = false;
  #timer: NodeJS.Timeout | undefined;
  #cancelled: Promise<unknown> | null = null;

  constructor(connection: PooledConnection, slot: Slot, options: SharedConnectionOptions) {
    this.#connection = connection;
    this.#slot = slot;
    this.#options = options;
  }

  send(reads: readonly Read[]): void {
    const { client } = this.#connection;
    this.#sent = reads.map((each) => this.#prepare(each));
    for (let i = 1; i < this.#sent.length; i++) this.#sent[i - 1]!.batch.followedBy(this.#sent[i]!.batch, client);
    // If this process was paused, results may be waiting: they are read before setImmediate calls back.
    const late = () => setImmediate(() => this.#runElsewhere());
    this.#timer = setTimeout(late, MAX_SHARED * this.#options.limit);
    try {
      client.query(this.#sent[0]!.batch as never);
    } catch (error) {
      // Nothing was sent. The read that cannot be written fails when it is alone.
      this.#lose(error as Error);
    }
  }

  #prepare(read: Read): Sent {
    this.#options.onSync();
    const { statements, batchOptions, signal, startTrip } = read.work;
    const batch = new Batch(statements, batchOptions, (error) => {
      if (this.#sent[0] === sent) this.#end(sent, error as DatabaseError | null);
    });
    const onAbort = () => this.#cancelUnwanted();
    signal?.addEventListener("abort", onAbort);
    const sent: Sent = { read, span: startTrip?.(), onAbort, batch, state: "here" };
    return sent;
  }

  /** The first transaction has ended. */
  #end(sent: Sent, error: DatabaseError | null): void {
    const now = performance.now();
    sent.read.work.pace?.add(now - this.#since);
    this.#since = now;
    // The result is too large, and the connection was cut off: this concerns the first transaction only.
    const isRefused = (error as Error | null) instanceof Problem;
    if (error !== null && isLost(error) && !isRefused) {
      this.#lose(error);
      return;
    }
    this.#sent.shift();
    endSpan(sent, error);
    const isDisturbed = error !== null && !isRefused && (this.#hasFailed || this.#cancelled !== null);
    this.#hasFailed ||= error !== null;
    if (isDisturbed) this.#disturbed.push(sent);
    const settle = () => {
      if (isDisturbed) return;
      if (error !== null && isStalePlan(error)) this.#runAlone(sent);
      else this.#settle(sent, error);
    };
    if (isRefused) {
      this.#lose(error!);
      settle();
    } else if (this.#sent.length === 0) {
      this.#finish(error, settle);
    } else {
      settle();
      if (isNeeded(this.#sent[0]!)) this.#cancelUnwanted();
      else this.#timer!.refresh();
    }
  }

  /** The connection cannot be used again. */
  #lose(error: Error): void {
    const sent = this.#sent;
    this.#sent = [];
    clearTimeout(this.#timer);
    this.#options.release(this.#connection, this.#slot, error);
    for (const each of sent) endSpan(each, error);
    for (const each of [...this.#disturbed.splice(0), ...sent]) this.#runAlone(each);
  }

  /**
   * The first transaction takes longer than expected: the reads behind it are run on other connections. If it is not needed any more, it
   * is cancelled.
   */
  #runElsewhere(): void {
    const [first, ...waiting] = this.#sent;
    if (first === undefined) return;
    for (const each of [...this.#disturbed, ...waiting]) this.#runAlone(each);
    if (isNeeded(first)) this.#cancelUnwanted();
    else this.#cancelFirst();
  }

  #settle(sent: Sent, error: DatabaseError | null): void {
    if (isSettled(sent) || (error !== null && sent.state !== "here")) return;
    close(sent);
    const { work, resolve, reject } = sent.read;
    this.#options.onEnd((performance.now() - this.#start) / 1000, work);
    const problem = error && failureOf(error, work, this.#options);
    if (isAborted(sent)) reject(work.signal!.reason);
    else if (problem) reject(problem);
    else {
      work.onReplayed?.(replayedIn(sent.batch, work.settingsAt));
      resolve([sent.batch.results[work.first]!]);
    }
  }

  /**
   * Runs a read again, on another connection. After an error the connection may lack statements that the failed read was to prepare;
   * after its loss the outcome is unknown, which does not matter to a read.
   */
  #runAlone(sent: Sent): void {
    if (sent.state !== "here") return;
    sent.state = "waits for another";
    const { enter, connect, runOn, release } = this.#options;
    const { work, resolve, reject } = sent.read;
    const { signal, recipient } = work;
    const run = async () => {
      if (signal?.aborted) throw signal.reason;
      const slot = await enter(recipient);
      const connection = await connect(slot);
      if (isSettled(sent) || signal?.aborted) {
        release(connection, slot, undefined);
        throw signal?.reason;
      }
      sent.state = "elsewhere";
      this.#checkNeeded();
      return runOn(connection, slot, work);
    };
    const settle = (settled: () => void) => {
      if (isSettled(sent)) return;
      close(sent);
      settled();
      this.#checkNeeded();
    };
    const refuse = (error: unknown) => {
      const isPending = this.#disturbed.includes(sent) || this.#sent.includes(sent);
      // There is no other connection: its result is still expected from this one.
      if (sent.state === "waits for another" && isPending && !isAborted(sent)) sent.state = "here";
      else settle(() => reject(error));
    };
    run().then((results) => settle(() => resolve(results)), refuse);
  }

  /** A read is run, or has its result, on another connection. */
  #checkNeeded(): void {
    for (const each of this.#sent) if (isSettled(each)) each.batch.discard();
    if (this.#sent.length > 0 && !isNeeded(this.#sent[0]!)) this.#timer!.refresh();
  }

  /** All transactions have ended: the connection is used again once it can be. */
  #finish(error: DatabaseError | null, settle: () => void): void {
    clearTimeout(this.#timer);
    if (error === null && this.#cancelled === null) {
      this.#releaseOrRepeat();
      settle();
      return;
    }
    // The results are complete: they do not wait for a cancel request.
    if (error === null) settle();
    Promise.all([error && untilReady(this.#connection.client), this.#cancelled]).then(() => {
      this.#releaseOrRepeat();
      if (error !== null) settle();
    });
  }

  /** Of repeated reads, the first is not disturbed again: they become fewer. */
  #releaseOrRepeat(): void {
    const repeated = this.#disturbed.splice(0).filter(isNeeded);
    for (const each of repeated) close(each);
    const [aborted, wanted] = [repeated.filter(isAborted), repeated.filter((each) => !isAborted(each))];
    const reads = wanted.map(({ read }) => read);
    if (reads.length === 0) this.#options.release(this.#connection, this.#slot, undefined);
    else new SharedConnection(this.#connection, this.#slot, this.#options).send(reads);
    for (const { read } of aborted) read.reject(read.work.signal!.reason);
  }

  /** Cancels the first transaction if a client has gone, unless another read waits for it. */
  #cancelUnwanted(): void {
    const [first] = this.#sent;
    if (first === undefined || isSettled(first) || !isAborted(first)) return;
    if (!this.#sent.some((each) => each.state === "here" && !isAborted(each))) this.#cancelFirst();
  }

  /** A cancel request affects whatever the connection executes when it arrives: here the first transaction or another unwanted one. */
  #cancelFirst(): void {
    const cancelled = cancelRequest(this.#options.pool, this.#connection.client);
    this.#cancelled = Promise.all([this.#cancelled, cancelled]);
  }
}

function close(sent: Sent): void {
  sent.state = "settled";
  sent.read.work.signal?.removeEventListener("abort", sent.onAbort);
}

function endSpan({ span }: Sent, error: Error | null): void {
  if (error !== null) span?.fail(error.message);
  span?.end();
}

import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Span } from "../../telemetry/span.ts";
import { MAX_SHARED, type Slot } from "../admission/admission.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import { type Code, UNKNOWN_CODE } from "../catalog/code.ts";
import { isLost, isStalePlan } from "../errors.ts";
import { Problem } from "../problems/problem.ts";
import { Batch, type NamedStatement, type Result } from "../wire/batch.ts";
import { cancelRequest, untilReady } from "../wire/connection.ts";
import { type ExecutionOptions, failureOf, type Work } from "./execution.ts";
import { joinReads, type Read, transactionsOf } from "./joined-reads.ts";
import type { PooledConnection } from "./pool.ts";

export type SharedConnectionOptions = Pick<ExecutionOptions, "onSync" | "onEnd" | "onStatementTimeout" | "release"> & {
  readonly pool: pg.ClientConfig;
  /** Milliseconds. Only quicker reads share a connection. Those that wait four times as long are run again on other connections. */
  readonly limit: number;
  /** Changes the settings of a transaction to those of another request of its caller. */
  settingsOfNext(work: Work): NamedStatement;
  /** A slot for a read that is run again alone. */
  enter(recipient: Recipient | null): Promise<Slot>;
  /** A clean connection. If it fails, it has given the slot back. */
  connect(slot: Slot): PooledConnection | Promise<PooledConnection>;
  /** Runs a read on this connection alone, and releases both. */
  runOn(connection: PooledConnection, slot: Slot, work: Work): Promise<Result[]>;
};

/** Where the result of a read is expected from: this connection only, or another one too. The first result counts. */
type State = "here" | "waits for another" | "elsewhere" | "settled";

/** A read on a shared connection. */
type SentRead = { readonly read: Read; readonly span: Span | undefined; readonly onAbort: () => void; state: State };

/** A transaction on a shared connection. */
type Sent = { readonly reads: readonly SentRead[]; readonly results: readonly number[]; readonly batch: Batch };

const isSettled = ({ state }: SentRead) => state === "settled";
const isExpectedHere = ({ state }: SentRead) => state === "here" || state === "waits for another";
const isNeeded = ({ reads }: Sent) => reads.some(isExpectedHere);
const isAborted = ({ read }: SentRead) => read.work.signal?.aborted ?? false;

/**
 * Several reads on one connection. Their transactions end in order. A read that the error of another one may have affected is run again
 * in a transaction of its own; if that is affected too, alone on another connection.
 */
export class SharedConnection {
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
  readonly #options: SharedConnectionOptions;
  readonly #isRepetition: boolean;
  /** Those that have not ended; the database executes the first. */
  #sent: Sent[] = [];
  /** The reads of failed transactions, which are run again on this connection after the others. */
  #disturbed: SentRead[] = [];
  readonly #start = performance.now();
  /** When the first of `#sent` began. */
  #since = this.#start;
  #hasFailed = false;
  #timer: NodeJS.Timeout | undefined;
  #cancelled: Promise<unknown> | null = null;

  constructor(connection: PooledConnection, slot: Slot, options: SharedConnectionOptions, isRepetition = false) {
    this.#connection = connection;
    this.#slot = slot;
    this.#options = options;
    this.#isRepetition = isRepetition;
  }

  send(reads: readonly Read[]): void {
    const { client } = this.#connection;
    const transactions = this.#isRepetition ? reads.map((read) => [read]) : transactionsOf(reads);
    this.#sent = transactions.map((each) => this.#prepare(each));
    for (let i = 1; i < this.#sent.length; i++) this.#sent[i - 1]!.batch.followedBy(this.#sent[i]!.batch, client);
    // Repeated reads are some of those that were sent before.
    if (!this.#isRepetition) this.#connection.codeWhenUsed = codeOf(reads);
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

  #prepare(reads: readonly Read[]): Sent {
    this.#options.onSync();
    const { statements, results, batchOptions } = joinReads(reads, this.#options.settingsOfNext);
    const batch: Batch = new Batch(statements, batchOptions, (error) => {
      if (this.#sent[0] === sent) this.#end(sent, error as DatabaseError | null);
    });
    const sent: Sent = { reads: reads.map((read) => this.#begin(read)), results, batch };
    return sent;
  }

  #begin(read: Read): SentRead {
    const { signal, startTrip } = read.work;
    const onAbort = () => this.#cancelUnwanted();
    signal?.addEventListener("abort", onAbort);
    return { read, span: startTrip?.(), onAbort, state: "here" };
  }

  /** The first transaction has ended. */
  #end(sent: Sent, error: DatabaseError | null): void {
    const { reads } = sent;
    const isAlone = reads.length === 1;
    const now = performance.now();
    // Which of several reads took how long is not known.
    if (isAlone) reads[0]!.read.work.pace?.add(now - this.#since);
    this.#since = now;
    // The result is too large, and the connection was cut off: this concerns the first transaction only.
    const isRefused = (error as Error | null) instanceof Problem;
    if (error !== null && isLost(error) && !isRefused) {
      this.#lose(error);
      return;
    }
    this.#sent.shift();
    // The error of one read may contain values of its request, which the traces of the others must not have.
    for (const { span } of reads) endSpan(span, isAlone ? error : null);
    const isDisturbed =
      error !== null && (!isAlone || this.#hasFailed || this.#cancelled !== null || isStalePlan(error));
    this.#hasFailed ||= error !== null;
    const isRunHere = isDisturbed && !isRefused && !this.#isRepetition;
    if (isRunHere) this.#disturbed.push(...reads);
    const settle = () => {
      if (!isDisturbed) this.#settle(sent, error);
      else if (!isRunHere) for (const each of reads) this.#runAlone(each);
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
    const sent = this.#sent.flatMap((each) => each.reads);
    this.#sent = [];
    clearTimeout(this.#timer);
    this.#options.release(this.#connection, this.#slot, error);
    for (const { span } of sent) endSpan(span, error);
    for (const each of [...this.#disturbed.splice(0), ...sent]) this.#runAlone(each);
  }

  /**
   * The first transaction takes longer than expected: the reads behind it are run on other connections, and its own unless there is
   * only one, because it is not known which of them is slow. If it is not needed any more, it is cancelled.
   */
  #runElsewhere(): void {
    const [first, ...waiting] = this.#sent;
    if (first === undefined) return;
    if (first.reads.length > 1) waiting.unshift(first);
    for (const each of [...this.#disturbed, ...waiting.flatMap(({ reads }) => reads)]) this.#runAlone(each);
    if (isNeeded(first)) this.#cancelUnwanted();
    else this.#cancelFirst();
  }

  #settle({ reads, results, batch }: Sent, error: DatabaseError | null): void {
    const seconds = (performance.now() - this.#start) / 1000;
    for (const [i, each] of reads.entries()) {
      if (isSettled(each) || (error !== null && each.state !== "here")) continue;
      close(each);
      const { work, resolve, reject } = each.read;
      this.#options.onEnd(seconds, work);
      const problem = error && failureOf(error, work, this.#options);
      if (isAborted(each)) reject(work.signal!.reason);
      else if (problem) reject(problem);
      else resolve([batch.results[results[i]!]!]);
    }
  }

  /**
   * Runs a read again, on another connection. After an error the connection may lack statements that the failed read was to prepare;
   * after its loss the outcome is unknown, which does not matter to a read.
   */
  #runAlone(sent: SentRead): void {
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
      const isPending = this.#disturbed.includes(sent) || this.#sent.some(({ reads }) => reads.includes(sent));
      // There is no other connection: its result is still expected from this one.
      if (sent.state === "waits for another" && isPending && !isAborted(sent)) sent.state = "here";
      else settle(() => reject(error));
    };
    run().then((results) => settle(() => resolve(results)), refuse);
  }

  /** A read is run, or has its result, on another connection. */
  #checkNeeded(): void {
    for (const { reads, batch } of this.#sent) if (reads.every(isSettled)) batch.discard();
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

  #releaseOrRepeat(): void {
    const repeated = this.#disturbed.splice(0).filter(isExpectedHere);
    for (const each of repeated) close(each);
    const [aborted, wanted] = [repeated.filter(isAborted), repeated.filter((each) => !isAborted(each))];
    const reads = wanted.map(({ read }) => read);
    if (reads.length === 0) this.#options.release(this.#connection, this.#slot, undefined);
    else new SharedConnection(this.#connection, this.#slot, this.#options, true).send(reads);
    for (const { read } of aborted) read.reject(read.work.signal!.reason);
  }

  /** Cancels the first transaction if a client has gone, unless another read waits for it. */
  #cancelUnwanted(): void {
    const isWaiting = (each: SentRead) => each.state === "here" && !isAborted(each);
    const [first] = this.#sent;
    if (!first?.reads.some((each) => !isSettled(each) && isAborted(each))) return;
    if (!this.#sent.some(({ reads }) => reads.some(isWaiting))) this.#cancelFirst();
  }

  /** A cancel request affects whatever the connection executes when it arrives: here the first transaction or another unwanted one. */
  #cancelFirst(): void {
    const cancelled = cancelRequest(this.#options.pool, this.#connection.client);
    this.#cancelled = Promise.all([this.#cancelled, cancelled]);
  }
}

/** After a new catalog, a connection that was used with an older one is cleaned before its next use. */
function codeOf(reads: readonly Read[]): Code {
  const { code } = reads[0]!.work;
  return reads.every(({ work }) => work.code === code) ? code : UNKNOWN_CODE;
}

function close(sent: SentRead): void {
  sent.state = "settled";
  sent.read.work.signal?.removeEventListener("abort", sent.onAbort);
}

function endSpan(span: Span | undefined, error: Error | null): void {
  if (error !== null) span?.fail(error.message);
  span?.end();
}

import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { Problem, problem } from "../../problems/problem.ts";
import type { Span } from "../../telemetry/span.ts";
import { Slot } from "../admission/admission.ts";
import { type Code, UNKNOWN_CODE } from "../catalog/code.ts";
import { isLost, isOfStandby, isReadOnly, isSocketError, isStalePlan, isTimeout } from "../errors.ts";
import { Batch, type NamedStatement, type Result } from "../wire/batch.ts";
import { cancelRequest, untilReady } from "../wire/connection.ts";
import { REPLAYED, replayedIn } from "./identity.ts";
import type { ConnectionPool, PooledConnection } from "./pool.ts";
import type { TransactionOptions, Work } from "./transaction-plan.ts";

type ExecutionsOptions = Pick<TransactionOptions, "pool" | "admission" | "sharedReads" | "times" | "onSlow">;

/** One statement that only reads, with its settings, and was quick until now. */
type Read = {
  readonly work: Work;
  /** When it was requested, on the clock of `performance.now()`. */
  readonly asked: number;
  resolve(results: Result[]): void;
  reject(error: unknown): void;
};

/**
 * Runs transactions on the connections of a pool: each alone on one, or several quick reads together, with one write. Each read has the
 * identity of its own caller, and fails alone. A read that another one on the connection may have affected is run again, alone.
 */
export class Executions {
  /** Round trips so far: one per Sync. */
  syncs = 0;
  /** Transactions with a statement that has exceeded its time. */
  cancelled = 0;
  /** Reads that were sent together with others. */
  shared = 0;
  readonly connections: ConnectionPool;
  readonly options: ExecutionsOptions;
  /** A new array for each turn: a map would keep what it has held until a full garbage collection. */
  #waiting: { readonly slot: Slot; readonly reads: Read[] }[] = [];

  constructor(connections: ConnectionPool, options: ExecutionsOptions) {
    this.connections = connections;
    this.options = options;
  }

  /** Resolves and rejects as `Transactions.run` does. Throws Problem if the client holds too much. */
  run(work: Work, asked: number): Promise<Result[]> {
    const { admission, sharedReads = 0 } = this.options;
    const isQuick = work.pace !== null && work.pace.milliseconds < sharedReads;
    const slot = admission.enter(work.recipient, isQuick ? work.pace!.milliseconds / sharedReads : null);
    if (isQuick)
      return slot instanceof Slot
        ? this.#share(work, slot, asked)
        : slot.then((given) => this.#share(work, given, asked));
    const connection = slot instanceof Slot ? this.connections.take() : null;
    if (connection !== null) return this.#start(connection, slot as Slot, work, asked);
    return this.admitted(slot).then(([given, taken]) => this.#start(taken, given, work, asked));
  }

  /** Waits for the slot and a connection. */
  async admitted(entered: Slot | Promise<Slot>): Promise<[Slot, PooledConnection]> {
    const slot = await entered;
    return [slot, await this.#connect(slot)];
  }

  /** Called when the connection is free again, with an error if it cannot be used again. */
  release(connection: PooledConnection, slot: Slot, broken?: Error): void {
    // In this order: the next transaction that is admitted finds the connection.
    this.connections.release(connection, broken);
    this.options.admission.leave(slot);
  }

  /** Sends the reads that wait for others. */
  send(): void {
    const groups = this.#waiting;
    this.#waiting = [];
    for (const { slot } of groups) slot.places = 0;
    for (const { slot, reads } of groups) {
      const connection = this.connections.take();
      if (connection !== null) this.#sendOn(connection, slot, reads);
      else
        this.#connect(slot).then(
          (opened) => this.#sendOn(opened, slot, reads),
          (error) => {
            for (const { reject } of reads) reject(error);
          },
        );
    }
  }

  /** Runs a read again, alone. `begin` is called when it has a connection; false if it is not needed any more. */
  async runAgain(work: Work, begin: () => boolean): Promise<Result[]> {
    const { signal, recipient } = work;
    if (signal?.aborted) throw signal.reason;
    const [slot, connection] = await this.admitted(this.options.admission.enter(recipient));
    if (!signal?.aborted && begin()) return this.#execute(connection, slot, work);
    this.release(connection, slot);
    throw signal?.reason;
  }

  /** The results are complete. */
  note(milliseconds: number, { statements, first, last }: Work): void {
    const { times, onSlow } = this.options;
    times?.run.observe(milliseconds / 1000);
    if (milliseconds >= SLOW) onSlow?.(statements.slice(first, last), milliseconds);
  }

  /** What a failed transaction rejects with. Reports the failure. */
  failureOf(error: DatabaseError, { signal, onFailure }: Work): unknown {
    if (!isLost(error) && !((error as Error) instanceof Problem)) onFailure?.(error);
    if (isTimeout(error) && !signal?.aborted) this.cancelled++;
    if (signal?.aborted) return signal.reason;
    return isSocketError(error) ? problem("outcome unknown", { cause: error }) : error;
  }

  /** Gives the slot back if there is no connection. */
  async #connect(slot: Slot): Promise<PooledConnection> {
    try {
      return await this.connections.connect();
    } catch (error) {
      this.options.admission.leave(slot);
      throw error;
    }
  }

  #start(connection: PooledConnection, slot: Slot, work: Work, asked: number): Promise<Result[]> {
    if (this.#connected(work, asked)) return this.#execute(connection, slot, work);
    this.release(connection, slot);
    return Promise.reject(work.signal!.reason);
  }

  /** Notes that the work has a connection. False if it is not wanted any more. */
  #connected({ signal, span, onConnected }: Work, asked: number): boolean {
    const connected = performance.now();
    this.options.times?.wait.observe((connected - asked) / 1000);
    span?.child("wait", {}, asked).end(connected);
    onConnected?.();
    return !signal?.aborted;
  }

  #execute(connection: PooledConnection, slot: Slot, work: Work): Promise<Result[]> {
    return new Promise((resolve, reject) => new Execution(this, connection, slot, work, resolve, reject).submit());
  }

  /** The reads of a slot that come before the next `send` are sent together, in this turn of the event loop or the next. */
  #share(work: Work, slot: Slot, asked: number): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.send());
      const read = { work, asked, resolve, reject };
      const group = this.#waiting.find((each) => each.slot === slot);
      if (group === undefined) this.#waiting.push({ slot, reads: [read] });
      else group.reads.push(read);
    });
  }

  #sendOn(connection: PooledConnection, slot: Slot, reads: Read[]): void {
    const sent = reads.filter(({ work, asked, reject }) => {
      const isWanted = this.#connected(work, asked);
      if (!isWanted) reject(work.signal!.reason);
      return isWanted;
    });
    if (sent.length === 0) {
      this.release(connection, slot);
    } else if (sent.length === 1) {
      const [{ work, resolve, reject }] = sent as [Read];
      this.#execute(connection, slot, work).then(resolve, reject);
    } else {
      this.shared += sent.length;
      connection.codeWhenUsed = codeOf(sent);
      new SharedConnection(this, connection, slot).send(sent);
    }
  }
}

/** After a new catalog, a connection that was used with an older one is cleaned before its next use. */
function codeOf(reads: readonly Read[]): Code {
  const { code } = reads[0]!.work;
  return reads.every(({ work }) => work.code === code) ? code : UNKNOWN_CODE;
}

/**
 * A transaction alone on a connection, which is released before the promise settles or, after code, when it has been cleaned.
 */
class Execution {
  readonly #executions: Executions;
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
  readonly #work: Work;
  readonly #resolve: (results: Result[]) => void;
  readonly #reject: (error: unknown) => void;
  readonly #span: Span | undefined;
  readonly #start = performance.now();
  readonly #cancel: () => void;
  #cancelled: Promise<void> | null = null;
  /** Resolves when the connection is clean, or with the reason why it cannot be used again; null without code. */
  #cleaned: Promise<Error | undefined> | null = null;
  /** What the server had replayed before the transaction took its snapshot; null until it is known, and on a server that is no replica. */
  #replayed: bigint | null = null;
  /** Resolves when the write is known wherever its client may read; undefined if there is nothing to wait for. */
  #noted: Promise<void> | undefined;
  #isRetry = false;
  #isFinished = false;

  constructor(
    executions: Executions,
    connection: PooledConnection,
    slot: Slot,
    work: Work,
    resolve: (results: Result[]) => void,
    reject: (error: unknown) => void,
  ) {
    this.#executions = executions;
    this.#connection = connection;
    this.#slot = slot;
    this.#work = work;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#span = work.startTrip?.();
    // A local first: V8 allocates a function that is directly assigned to a property in old space, where it would keep this whole
    // request alive through all minor garbage collections.
    const cancel = () => {
      this.#cancelled = cancelRequest(executions.options.pool, connection.client);
    };
    this.#cancel = cancel;
    work.signal?.addEventListener("abort", this.#cancel);
  }

  submit(): void {
    const { statements, batchOptions, onWritten } = this.#work;
    const batch: Batch = new Batch(statements, batchOptions, (error) => {
      if (error !== null) this.#recover(error as DatabaseError);
      else if (onWritten === undefined) this.#succeed(batch);
    });
    this.#executions.syncs++;
    try {
      this.#send(batch, onWritten === undefined ? batch : this.#positionAfter(batch, onWritten));
    } catch (error) {
      this.#cleaned = null;
      this.#fail(error as Error);
    }
  }

  #succeed(batch: Batch, broken?: Error): void {
    const { first, last, settingsAt, onReplayed, isFramed } = this.#work;
    onReplayed?.(isFramed ? this.#replayed : replayedIn(batch, settingsAt));
    this.#finish(broken, () => this.#resolve(batch.results.slice(first, last)));
  }

  /** The query that follows a write. The write has succeeded, whatever happens to the query. */
  #positionAfter(batch: Batch, onWritten: NonNullable<Work["onWritten"]>): Batch {
    const { client } = this.#connection;
    const { preparation } = this.#executions.connections;
    const position: Batch = new Batch([POSITION], { preparation }, (error) => {
      if (!batch.isCommitted) return;
      const hasWritten = batch.results[this.#work.last]!.rows[0]![0] !== null;
      if (hasWritten)
        this.#noted = onWritten(error === null ? BigInt(position.results[0]!.rows[0]![0]!.toString()) : null);
      if (error === null) this.#succeed(batch);
      else if (isLost(error as DatabaseError)) this.#succeed(batch, error);
      else untilReady(client).then(() => this.#succeed(batch));
    });
    batch.followedBy(position, client);
    return position;
  }

  /**
   * The query before a transaction whose statements share a snapshot: its settings would take the snapshot first, and then say what has
   * been replayed, which may be more.
   */
  #lookBefore(batch: Batch): Batch {
    const { preparation } = this.#executions.connections;
    // If it fails, what has been replayed stays unknown.
    const look: Batch = new Batch([REPLAYED], { preparation }, (error) => {
      if (error === null) this.#replayed = replayedIn(look, 0);
    });
    look.followedBy(batch, this.#connection.client);
    return look;
  }

  /** A transaction that runs code (`Code`) is followed by the statements that clean the connection, in the same write. */
  #send(batch: Batch, last: Batch): void {
    const { client } = this.#connection;
    const { code, runsCode, isFramed, onReplayed } = this.#work;
    const first = isFramed && onReplayed ? this.#lookBefore(batch) : batch;
    if (!runsCode) {
      this.#connection.codeWhenUsed = code;
      client.query(first as never);
      return;
    }
    const { promise, resolve } = Promise.withResolvers<Error | undefined>();
    this.#cleaned = promise;
    const cleaning = this.#executions.connections.cleaning({ isFramed }, resolve);
    last.followedBy(cleaning, client);
    client.query(first as never);
    this.#connection.codeWhenUsed = null;
  }

  /** Waits until the connection can be used again after an error, unless it is lost. */
  async #recover(error: DatabaseError): Promise<void> {
    const { client } = this.#connection;
    const { runsCode, isFramed, onReplayed } = this.#work;
    if (!isLost(error)) {
      await untilReady(client);
      // The error skipped the statement that ends the transaction: the connection would remain in it.
      if (isFramed && !runsCode) await client.query("rollback").catch(() => {});
      // A pooler may already send the question to the primary.
      const mayBeStandby = onReplayed === undefined && isReadOnly(error);
      if (mayBeStandby && (isOfStandby(error) || (await isStandby(client)))) return this.#fail(error, true);
    }
    if (this.#isRetry || !isStalePlan(error)) return this.#fail(error);
    this.#isRetry = true;
    await this.#executions.connections.preparation.examine(error, client);
    this.submit();
  }

  #fail(error: DatabaseError | Error, isStandby = false): void {
    this.#span?.fail(error.message);
    const failure = this.#executions.failureOf(error as DatabaseError, this.#work);
    const isGone = isLost(error as DatabaseError);
    // It may have been committed.
    if (isGone) this.#noted = this.#work.onWritten?.(null);
    const broken = isGone || isStandby ? error : undefined;
    this.#finish(broken, () => this.#reject(isStandby ? problem("database unavailable", { cause: error }) : failure));
  }

  #finish(broken: Error | undefined, settle: () => void): void {
    // A batch that could not be sent fails again when its connection is closed.
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#span?.end();
    const milliseconds = performance.now() - this.#start;
    this.#work.pace?.add(milliseconds);
    this.#executions.note(milliseconds, this.#work);
    this.#work.signal?.removeEventListener("abort", this.#cancel);
    const end = () => {
      this.#release(broken);
      if (this.#noted === undefined) settle();
      else this.#noted.then(settle);
    };
    // A cancel request affects whatever the connection executes: release it only after the request has finished.
    if (this.#cancelled === null) end();
    else this.#cancelled.then(end);
  }

  /** The results are complete: nothing waits for the cleaning but the connection. */
  #release(broken: Error | undefined): void {
    const release = (error: Error | undefined) => this.#executions.release(this.#connection, this.#slot, error);
    // A lost connection may not have accepted the cleaning.
    if (broken !== undefined || this.#cleaned === null) release(broken);
    else this.#cleaned.then(release);
  }
}

/** For some time after a failover, a pooler or proxy may lead to a standby, where every new transaction only reads. */
const isStandby = (client: pg.ClientBase): Promise<boolean> =>
  client.query("show transaction_read_only").then(
    ({ rows }) => rows[0].transaction_read_only === "on",
    () => false,
  );

/** Where the write-ahead log ends: behind every commit before. */
const POSITION: NamedStatement = {
  text: "select pg_catalog.pg_current_wal_insert_lsn() operator(pg_catalog.-) '0/0'::pg_catalog.pg_lsn",
  values: [],
  name: "position",
};

/** Milliseconds from which a transaction is slow. */
export const SLOW = 100;

/** A read on a shared connection is late after so many times `sharedReads`. */
const LATE = 4;

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
class SharedConnection {
  readonly #executions: Executions;
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
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

  constructor(executions: Executions, connection: PooledConnection, slot: Slot) {
    this.#executions = executions;
    this.#connection = connection;
    this.#slot = slot;
  }

  send(reads: readonly Read[]): void {
    const { client } = this.#connection;
    this.#sent = reads.map((each) => this.#prepare(each));
    for (let i = 1; i < this.#sent.length; i++) this.#sent[i - 1]!.batch.followedBy(this.#sent[i]!.batch, client);
    // If this process was paused, results may be waiting: they are read before setImmediate calls back.
    const late = () => setImmediate(() => this.#runElsewhere());
    this.#timer = setTimeout(late, LATE * this.#executions.options.sharedReads!);
    try {
      client.query(this.#sent[0]!.batch as never);
    } catch (error) {
      // Nothing was sent. The read that cannot be written fails when it is alone.
      this.#lose(error as Error);
    }
  }

  #prepare(read: Read): Sent {
    this.#executions.syncs++;
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
    this.#executions.release(this.#connection, this.#slot, error);
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
    this.#executions.note(performance.now() - this.#start, work);
    const failure = error && this.#executions.failureOf(error, work);
    if (isAborted(sent)) reject(work.signal!.reason);
    else if (failure) reject(failure);
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
    const { work, resolve, reject } = sent.read;
    const begin = () => {
      if (isSettled(sent)) return false;
      sent.state = "elsewhere";
      this.#checkNeeded();
      return true;
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
    this.#executions.runAgain(work, begin).then((results) => settle(() => resolve(results)), refuse);
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
    if (reads.length === 0) this.#executions.release(this.#connection, this.#slot);
    else new SharedConnection(this.#executions, this.#connection, this.#slot).send(reads);
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
    const cancelled = cancelRequest(this.#executions.options.pool, this.#connection.client);
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

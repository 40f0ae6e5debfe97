import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { Problem, problem } from "../../problems/problem.ts";
import type { Span } from "../../telemetry/span.ts";
import type { Slot } from "../admission/admission.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import type { Code } from "../catalog/code.ts";
import { isLost, isOfStandby, isReadOnly, isSocketError, isStalePlan, isTimeout } from "../errors.ts";
import { Batch, type BatchOptions, type NamedStatement, type Result } from "../wire/batch.ts";
import { type CancelSignal, cancelRequest, untilReady } from "../wire/connection.ts";
import { type Identity, REPLAYED_LSN } from "./identity.ts";
import type { PooledConnection } from "./pool.ts";
import type { Preparation } from "./preparation.ts";
import type { RunOptions } from "./run-options.ts";
import type { Cleaning, Pace } from "./session-state.ts";

/** What a transaction does. */
export type Work = {
  readonly identity: Identity;
  /** Those of the caller are from `first` up to, but not including, `last`; the one with the settings is at `settingsAt`. */
  readonly statements: readonly NamedStatement[];
  readonly batchOptions: BatchOptions;
  readonly first: number;
  readonly last: number;
  readonly settingsAt: number;
  /** What `runsCode` is based on. */
  readonly code: Code;
  /** Whether the statements may leave state on the connection, which is cleaned afterwards. */
  readonly runsCode: boolean;
  /** The usual duration of a read that may share its connection; null for every other transaction. */
  readonly pace: Pace | null;
  readonly isFramed: boolean;
  readonly recipient: Recipient | null;
  readonly signal: CancelSignal | undefined;
  readonly onConnected: (() => void) | undefined;
  readonly onReplayed: RunOptions["onReplayed"];
  /** Called after a commit that has written, before its results are returned. Null: where it ended is unknown, or whether there was one. */
  readonly onWritten: ((lsn: bigint | null) => Promise<void> | undefined) | undefined;
  /** Called with an error that the database has raised. */
  readonly onFailure: ((error: DatabaseError) => void) | undefined;
  /** Absent when the transaction is not traced; `startTrip` starts the span of its round trip. */
  readonly span: Span | undefined;
  readonly startTrip: (() => Span) | undefined;
};

/** What the executions of a pool share. */
export type ExecutionOptions = {
  readonly pool: pg.ClientConfig;
  readonly cleaning: Cleaning;
  readonly preparation: Preparation;
  /** Whether code that runs now may prepare statements. */
  mayPrepare(): boolean;
  /** Called for each round trip. */
  onSync(): void;
  /** Called when a statement has exceeded its time. */
  onStatementTimeout(): void;
  /** Called with the seconds from the start until the results are complete. */
  onEnd(seconds: number, work: Work): void;
  /** Called when the connection is free again, with an error if it cannot be used again. */
  release(connection: PooledConnection, slot: Slot, broken: Error | undefined): void;
};

/** Resolves when the connection is clean, or with the reason why it cannot be used again; null without code. */
type Cleaned = Promise<Error | undefined> | null;

/**
 * Runs a transaction on a clean connection, which is released before the promise settles or, after code, when it has been
 * cleaned. Rejects as `Transactions.run` does.
 */
export const execute = (
  connection: PooledConnection,
  slot: Slot,
  work: Work,
  options: ExecutionOptions,
): Promise<Result[]> =>
  new Promise((resolve, reject) => new Execution(connection, slot, work, options, resolve, reject).submit());

class Execution {
  readonly #connection: PooledConnection;
  readonly #slot: Slot;
  readonly #work: Work;
  readonly #options: ExecutionOptions;
  readonly #resolve: (results: Result[]) => void;
  readonly #reject: (error: unknown) => void;
  readonly #span: Span | undefined;
  readonly #start = performance.now();
  readonly #cancel: () => void;
  #cancelled: Promise<void> | null = null;
  #cleaned: Cleaned = null;
  /** What the server had replayed before the transaction took its snapshot; null until it is known, and on a server that is no replica. */
  #replayed: bigint | null = null;
  /** Resolves when the write is known wherever its client may read; undefined if there is nothing to wait for. */
  #noted: Promise<void> | undefined;
  #isRetry = false;
  #isFinished = false;

  constructor(
    connection: PooledConnection,
    slot: Slot,
    work: Work,
    options: ExecutionOptions,
    resolve: (results: Result[]) => void,
    reject: (error: unknown) => void,
  ) {
    this.#connection = connection;
    this.#slot = slot;
    this.#work = work;
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#span = work.startTrip?.();
    // A local first: V8 allocates a function that is directly assigned to a property in old space, where it would keep this whole
    // request alive through all minor garbage collections.
    const cancel = () => {
      this.#cancelled = cancelRequest(options.pool, connection.client);
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
    this.#options.onSync();
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
    const options = { ...this.#work.batchOptions, recipient: null, onCompleted: undefined };
    const position: Batch = new Batch([POSITION], options, (error) => {
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
    const options = { ...this.#work.batchOptions, recipient: null, onCompleted: undefined };
    // If it fails, what has been replayed stays unknown.
    const look: Batch = new Batch([REPLAYED], options, (error) => {
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
    const cleaning = this.#options.cleaning.batch({ isFramed, mayPrepare: this.#options.mayPrepare() }, resolve);
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
    await this.#options.preparation.examine(error, client);
    this.submit();
  }

  #fail(error: DatabaseError | Error, isStandby = false): void {
    this.#span?.fail(error.message);
    const failure = failureOf(error as DatabaseError, this.#work, this.#options);
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
    this.#options.onEnd(milliseconds / 1000, this.#work);
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
    const release = (error: Error | undefined) => this.#options.release(this.#connection, this.#slot, error);
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

export const REPLAYED: NamedStatement = { text: `select ${REPLAYED_LSN}`, values: [], name: "replayed" };

/** What the server had replayed, which the statement before `first` returns last; null if it is no replica. */
export function replayedIn({ results }: Pick<Batch, "results">, at: number): bigint | null {
  const replayed = results[at]!.rows[0]!.at(-1);
  return replayed ? BigInt(replayed.toString()) : null;
}

/** What a failed transaction rejects with. Reports the failure. */
export function failureOf(
  error: DatabaseError,
  { signal, onFailure }: Work,
  { onStatementTimeout }: Pick<ExecutionOptions, "onStatementTimeout">,
): unknown {
  if (!isLost(error) && !((error as Error) instanceof Problem)) onFailure?.(error);
  if (isTimeout(error) && !signal?.aborted) onStatementTimeout();
  if (signal?.aborted) return signal.reason;
  return isSocketError(error) ? problem("outcome unknown", { cause: error }) : error;
}

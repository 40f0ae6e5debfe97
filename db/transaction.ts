import type { DatabaseError } from "pg-protocol";
import type { Times } from "../telemetry/histogram.ts";
import { SLOW, type SlowStatements } from "./activity.ts";
import type { Admission } from "./admission.ts";
import type { BatchOptions, NamedStatement, Result, Statement } from "./batch.ts";
import { type Code, UNKNOWN_CODE } from "./catalog/code.ts";
import { cancelRequest } from "./connection.ts";
import type { Failure } from "./diagnosis.ts";
import { ApiError, databaseUnavailable, isSocketError, unstorableText } from "./errors.ts";
import { type ExecutionOptions, execute, type RunOptions, type Work } from "./execution.ts";
import { type Identity, settingsStatement } from "./identity.ts";
import { ConnectionPool, type PooledConnection, type PoolOptions } from "./pool.ts";
import { querySpan } from "./query-span.ts";
import { type Lease, type OpenedStream, RowStream, type StreamOptions } from "./row-stream.ts";
import { Cleaning, KnownStatements } from "./session-state.ts";
import { type Frame, type FrameOptions, frameOf, openFrame } from "./transaction-frame.ts";
import type { Recipient } from "./unsent-bytes.ts";

export type { Result, Statement } from "./batch.ts";
export type { RunOptions } from "./execution.ts";

export type TransactionOptions = {
  /** Options of pg and of the pool: connection string, ssl, and `max`, its size. */
  readonly pool: PoolOptions;
  /** Milliseconds after which Postgres cancels a statement of the role with 57014; 0 means never. */
  statementTimeoutOf(role: string): number;
  /** Prepared statements per connection; 0 sends them unnamed, for poolers that do not support named ones. */
  readonly maxPrepared: number;
  /** Maximum bytes of the result of a transaction; 0 means no limit. */
  readonly maxResultBytes?: number;
  /** Decides which transaction gets a connection next; without it, they get one in order. */
  readonly admission?: Admission;
  /** Decides which of the transactions whose rows are streamed gets a connection next; without it, there are none. */
  readonly streams?: Admission;
  readonly onConnectionError: (error: Error) => void;
  /** Called with errors that the database has raised for a caller. */
  readonly onFailure?: (failure: Failure) => void;
  /** In seconds: until a connection is free, and from then on until the results are complete. Absent where they are not measured. */
  readonly times?: { readonly wait: Times; readonly run: Times };
  /** Keeps the slow ones; absent where nothing shows them. */
  readonly slow?: SlowStatements;
};

/**
 * Runs statements as an identity in one transaction and one round trip. The session settings of the identity are local
 * to the transaction; nothing of a request remains on the connection.
 */
export class Transactions {
  /** Round trips so far: one per Sync. */
  syncs = 0;
  /** Transactions with a statement that has exceeded its time. */
  cancelled = 0;
  readonly #pool: ConnectionPool;
  readonly #options: TransactionOptions;
  readonly #known: KnownStatements;
  readonly #cleaning: Cleaning;
  readonly #execution: ExecutionOptions;
  #code = UNKNOWN_CODE;

  constructor(options: TransactionOptions) {
    this.#options = options;
    this.#known = new KnownStatements(options.maxPrepared > 0);
    this.#cleaning = new Cleaning(options.maxPrepared);
    this.#pool = new ConnectionPool(
      { ...options.pool, maxResultBytes: options.maxResultBytes ?? 0 },
      options.onConnectionError,
    );
    this.#execution = {
      pool: options.pool,
      cleaning: this.#cleaning,
      mayPrepare: () => this.#code.executesText,
      onSync: () => this.syncs++,
      onStatementTimeout: () => this.cancelled++,
      onEnd: (seconds, { statements, first, last }) => {
        options.times?.run.observe(seconds);
        if (seconds * 1000 >= SLOW) options.slow?.add(statements.slice(first, last), seconds * 1000);
      },
      release: (connection, recipient, broken) => this.#release(connection, recipient, broken),
    };
  }

  /**
   * Uses what a new catalog knows about code. Until the first one, every connection is cleaned after every transaction;
   * after a new one, every connection is cleaned before its next.
   */
  follow(code: Code): void {
    this.#code = code;
  }

  /**
   * Runs the statements as one transaction and returns their results, in order. Rejects with pg's DatabaseError, with
   * ApiError for text that Postgres cannot store, or with the reason of `signal`; nothing is written then. If the
   * connection is lost during the commit, the outcome is unknown and the transaction is not repeated.
   */
  run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const { recipient = null, trial } = identity.request;
    if (trial) {
      const untried = { ...identity, request: { ...identity.request, trial: undefined } };
      return trial.run(statements, options, (all, more) => this.run(untried, all, more));
    }
    const asked = performance.now();
    try {
      const work = this.#workOf(identity, statements, options);
      const turn = this.#options.admission?.enter(recipient) ?? null;
      const connection = turn === null ? this.#pool.take() : null;
      if (connection !== null && this.#isClean(connection)) return this.#execute(connection, work, asked);
      return this.#connectClean(turn, connection, recipient).then((clean) => this.#execute(clean, work, asked));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Whether results may be streamed. */
  get streams(): boolean {
    return this.#options.streams !== undefined;
  }

  /**
   * Opens a transaction whose rows are read while they are used. One of the statements has the portal `ROWS_PORTAL`; the results
   * of the opening statements are returned with the stream. Rejects as `run` does.
   */
  async stream(identity: Identity, statements: readonly Statement[], options: StreamOptions): Promise<OpenedStream> {
    const { recipient = null } = identity.request;
    const { streams } = this.#options;
    await streams!.enter(recipient);
    const stream = await this.#lease(identity, statements, options).then(
      (lease) => new RowStream(lease, options),
      (error) => {
        streams!.leave(recipient);
        throw error;
      },
    );
    options.onConnected?.();
    try {
      const results = await stream.open();
      return { results: results.slice(-statements.length), stream };
    } catch (error) {
      await stream.close();
      throw isSocketError(error as DatabaseError) ? new ApiError(databaseUnavailable(), { cause: error }) : error;
    }
  }

  /** Lends a connection to a stream. */
  async #lease(identity: Identity, statements: readonly Statement[], options: FrameOptions): Promise<Lease> {
    const { recipient = null } = identity.request;
    const { role } = identity.caller;
    const { admission, streams, pool, maxPrepared, onFailure } = this.#options;
    const code = this.#code;
    const runsCode = this.#known.runCode(role, statements, code);
    const { begin, end } = openFrame(options, runsCode);
    const opening = this.#statementsOf(identity, statements, { begin, end: [] });
    const connection = await this.#connectClean(admission?.enter(recipient) ?? null, null, recipient);
    connection.judgedBy = runsCode ? null : code;
    const release = (broken: Error | undefined) => {
      this.#release(connection, recipient, broken);
      streams!.leave(recipient);
    };
    const { client } = connection;
    return {
      client,
      statements: opening,
      end: end.map((statement) => ({ ...statement, name: "" })),
      options: { maxPrepared, unlimitedResult: false, recipient: null, onCompleted: undefined },
      onFailure: (error) => onFailure?.({ error, role, texts: statements.map(({ text }) => text) }),
      cancel: () => cancelRequest(pool, client),
      release: (broken) => {
        if (broken || !runsCode) return release(broken);
        client.query(this.#cleaning.batch({ isFramed: false, mayPrepare: code.executesText }, release) as never);
      },
    };
  }

  #workOf(identity: Identity, statements: readonly Statement[], options: RunOptions): Work {
    const { recipient = null, span } = identity.request;
    const { role } = identity.caller;
    const { onFailure } = this.#options;
    const code = this.#code;
    const runsCode = this.#known.runCode(role, statements, code);
    const frame = frameOf(statements.length, options, runsCode);
    const first = frame.begin.length + 1;
    return {
      statements: this.#statementsOf(identity, statements, frame),
      batchOptions: this.#batchOptions(options, recipient, first, statements.length),
      first,
      last: first + statements.length,
      code,
      runsCode,
      isFramed: frame.end.length > 0,
      recipient,
      signal: options.signal,
      onConnected: options.onConnected,
      onFailure: onFailure && ((error) => onFailure({ error, role, texts: statements.map(({ text }) => text) })),
      span,
      startTrip: span && (() => querySpan(span, identity, statements)),
    };
  }

  /** Runs the work on a clean connection. */
  #execute(connection: PooledConnection, work: Work, asked: number): Promise<Result[]> {
    const { signal, span, recipient, onConnected } = work;
    const { times } = this.#options;
    const connected = performance.now();
    times?.wait.observe((connected - asked) / 1000);
    span?.child("wait", {}, asked).end(connected);
    onConnected?.();
    if (signal?.aborted) {
      this.#release(connection, recipient);
      return Promise.reject(signal.reason);
    }
    return execute(connection, work, this.#execution);
  }

  /** The connections of the pool, those that are open and free, and the transactions that wait for one. */
  get use() {
    const { max, available, waiting, timeouts } = this.#pool;
    const { admission } = this.#options;
    return {
      max,
      available,
      waiting: waiting + (admission?.waiting ?? 0),
      timeouts: timeouts + (admission?.timeouts ?? 0),
    };
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Until a new catalog, code may have run that counted as none: a trigger that is new, for example. */
  #isClean({ judgedBy }: PooledConnection): boolean {
    return judgedBy === null || judgedBy === this.#code;
  }

  /** Waits for the turn and a connection, unless it has one, and cleans it if needed. */
  async #connectClean(
    turn: Promise<void> | null,
    taken: PooledConnection | null,
    recipient: Recipient | null,
  ): Promise<PooledConnection> {
    if (turn !== null) await turn;
    for (let connection = taken; ; connection = null) {
      connection ??= await this.#connect(recipient);
      if (this.#isClean(connection)) return connection;
      const { promise, resolve } = Promise.withResolvers<Error | undefined>();
      const mayPrepare = connection.judgedBy!.executesText || this.#code.executesText;
      connection.client.query(this.#cleaning.batch({ isFramed: false, mayPrepare }, resolve) as never);
      const error = await promise;
      connection.judgedBy = null;
      if (!error) return connection;
      this.#pool.release(connection, error);
    }
  }

  async #connect(recipient: Recipient | null): Promise<PooledConnection> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      this.#options.admission?.leave(recipient);
      throw error;
    }
  }

  #release(connection: PooledConnection, recipient: Recipient | null, broken?: Error): void {
    // In this order: the next transaction that is admitted finds the connection.
    this.#pool.release(connection, broken);
    this.#options.admission?.leave(recipient);
  }

  #statementsOf(identity: Identity, statements: readonly Statement[], { begin, end }: Frame): NamedStatement[] {
    const { role } = identity.caller;
    const settings = settingsStatement(identity, this.#options.statementTimeoutOf(role));
    for (const { values } of [...statements, settings]) for (const value of values) refuseUnstorable(value);
    return [...begin, settings, ...statements, ...end].map((statement) => ({
      ...statement,
      name: this.#known.of(role, statement.text, this.#code)?.name ?? "",
    }));
  }

  /** `onCompleted` receives the caller's `count` statements, which start at `first`. */
  #batchOptions(
    { unlimitedResult = false, onCompleted }: RunOptions,
    recipient: Recipient | null,
    first: number,
    count: number,
  ): BatchOptions {
    const report =
      onCompleted &&
      ((index: number) => {
        if (index >= first && index < first + count) onCompleted(index - first);
      });
    return { maxPrepared: this.#options.maxPrepared, unlimitedResult, recipient, onCompleted: report };
  }
}

function refuseUnstorable(value: string | null): void {
  if (value !== null && (!value.isWellFormed() || value.includes("\0"))) throw new ApiError(unstorableText());
}

import type { DatabaseError } from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import type { Slot } from "../admission/admission.ts";
import type { Code } from "../catalog/code.ts";
import { isSocketError } from "../errors.ts";
import { BEHIND } from "../replicas/fallback.ts";
import type { Located, LocatedOptions } from "../replicas/reader.ts";
import type { Result, Statement } from "../wire/batch.ts";
import { cancelRequest } from "../wire/connection.ts";
import { SLOW } from "./activity.ts";
import { type ExecutionOptions, execute, type Work } from "./execution.ts";
import type { Identity } from "./identity.ts";
import { ConnectionPool, type PooledConnection } from "./pool.ts";
import { Preparation } from "./preparation.ts";
import { type Lease, type OpenedStream, RowStream, type StreamOptions } from "./row-stream.ts";
import type { RunOptions } from "./run-options.ts";
import { Cleaning } from "./session-state.ts";
import { SharedReads } from "./shared-reads.ts";
import { type CallerRules, type TransactionOptions, TransactionPlanner } from "./transaction-plan.ts";

export type { Result, Statement } from "../wire/batch.ts";
export type { RunOptions } from "./run-options.ts";
export type { TransactionOptions } from "./transaction-plan.ts";

/**
 * Runs statements as an identity in one transaction and one round trip. The session settings of the identity are local
 * to the transaction; nothing of a request remains on the connection.
 */
export class Transactions {
  /** Round trips so far: one per Sync. */
  syncs = 0;
  /** Transactions with a statement that has exceeded its time. */
  cancelled = 0;
  readonly sharedReads: SharedReads;
  readonly #pool: ConnectionPool;
  readonly #options: TransactionOptions;
  readonly #preparation: Preparation;
  readonly #planner: TransactionPlanner;
  readonly #cleaning: Cleaning;
  readonly #execution: ExecutionOptions;

  /** `owner` has the connections, if these transactions have none of their own. */
  constructor(options: TransactionOptions, owner: Transactions | null = null) {
    this.#options = options;
    this.#preparation = owner ? owner.#preparation : new Preparation(options.maxPrepared, () => options.onPooler?.());
    this.#planner = new TransactionPlanner(options, this.#preparation);
    this.#cleaning = new Cleaning(this.#preparation);
    const pool = { ...options.pool, maxResultBytes: options.maxResultBytes ?? 0 };
    this.#pool = owner ? owner.#pool : new ConnectionPool(pool, options.onConnectionError);
    this.#execution = {
      pool: options.pool,
      cleaning: this.#cleaning,
      preparation: this.#preparation,
      mayPrepare: () => this.#planner.code.executesText,
      onSync: () => this.syncs++,
      onStatementTimeout: () => this.cancelled++,
      onEnd: (seconds, { statements, first, last }) => {
        options.times?.run.observe(seconds);
        if (seconds * 1000 >= SLOW) options.slow?.add(statements.slice(first, last), seconds * 1000);
      },
      release: (connection, slot, broken) => this.#release(connection, slot, broken),
    };
    this.sharedReads = new SharedReads({
      ...this.#execution,
      limit: options.sharedReads ?? 0,
      connect: (slot) => this.#takeClean() ?? this.#connect(slot),
      connected: (work, asked) => this.#connected(work, asked),
      runOn: (connection, slot, work) => execute(connection, slot, work, this.#execution),
      enter: async (recipient) => options.admission.enter(recipient),
    });
  }

  /**
   * Transactions that no client waits for, on the same connections, behind an admission of their own: the slots of both together are
   * the connections of the pool. Their results have no limit.
   */
  inBackground(more: Pick<TransactionOptions, "admission" | "statementTimeoutOf">): Transactions {
    const { pool, maxPrepared, onConnectionError } = this.#options;
    return new Transactions({ ...more, pool, maxPrepared, onConnectionError, maxResultBytes: 0 }, this);
  }

  /**
   * Uses what a new catalog knows about code. Until the first one, every connection is cleaned after every transaction;
   * after a new one, every connection is cleaned before its next.
   */
  follow(code: Code, rules?: CallerRules): void {
    this.#planner.follow(code, rules);
  }

  /**
   * Runs the statements as one transaction and returns their results, in order. Rejects with pg's DatabaseError, with
   * Problem for text that Postgres cannot store, or with the reason of `signal`; nothing is written then. If the
   * connection is lost during the commit, the outcome is unknown and the transaction is not repeated, unless it only reads.
   */
  run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const { recipient = null, trial } = identity.request;
    if (trial) {
      const untried = { ...identity, request: { ...identity.request, trial: undefined } };
      return trial.run(statements, { ...options, reading: undefined }, (all, more) => this.run(untried, all, more));
    }
    if (options.reading) return this.located(identity, options, (at, own) => at.run(identity, statements, own));
    this.#options.onRun?.(identity, statements);
    const asked = performance.now();
    try {
      const work = this.#planner.plan(identity, statements, options);
      const { admission, sharedReads = 0 } = this.#options;
      if (work.pace !== null && work.pace.milliseconds < sharedReads) {
        const slot = admission.enter(recipient, true);
        const share = (given: Slot) => this.sharedReads.run(work, given, asked);
        return slot instanceof Promise ? slot.then(share) : share(slot);
      }
      const slot = admission.enter(recipient);
      const clean = slot instanceof Promise ? null : this.#takeClean();
      if (clean !== null) return this.#execute(clean, slot as Slot, work, asked);
      return this.#admitted(slot).then(([given, connection]) => this.#execute(connection, given, work, asked));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Runs what reads on a replica, if it may and there is one. */
  located<T, Options extends LocatedOptions>(
    identity: Identity,
    options: Options,
    run: Located<T, Options>,
  ): Promise<T> {
    const { reader } = this.#options;
    const isolation = this.#planner.isolationFor(identity.caller, options);
    if (options.reading && reader) return reader(identity, { ...options, isolation }, this, run);
    return run(this, { ...options, reading: undefined });
  }

  /** Whether results may be streamed. */
  get streams(): boolean {
    return this.#options.streams !== undefined;
  }

  /** Streams that wait for the end of others. */
  get waitingStreams(): number {
    return this.#options.streams?.waitingForSlot ?? 0;
  }

  /**
   * Opens a transaction whose rows are read while they are used. One of the statements has the portal `ROWS_PORTAL`; the results
   * of the opening statements are returned with the stream. Rejects as `run` does.
   */
  async stream(identity: Identity, statements: readonly Statement[], options: StreamOptions): Promise<OpenedStream> {
    const { recipient = null } = identity.request;
    const { streams, onRun } = this.#options;
    onRun?.(identity, statements);
    const slot = await streams!.enter(recipient);
    const stream = await this.#lease(slot, identity, statements, options).then(
      (lease) => new RowStream(lease, options),
      (error) => {
        streams!.leave(slot);
        throw error;
      },
    );
    options.onConnected?.();
    try {
      const { onReplayed } = options;
      if (onReplayed && !onReplayed(await stream.replayed())) throw BEHIND;
      const results = await stream.open();
      return { results: results.slice(-statements.length), stream };
    } catch (error) {
      await stream.close();
      throw isSocketError(error as DatabaseError) ? problem("database unavailable", { cause: error }) : error;
    }
  }

  /** Lends a connection to a stream, with its slot among the streams. */
  async #lease(
    streamSlot: Slot,
    identity: Identity,
    statements: readonly Statement[],
    options: StreamOptions,
  ): Promise<Lease> {
    const { recipient = null } = identity.request;
    const { role } = identity.caller;
    const { admission, streams, pool, onFailure, onWritten } = this.#options;
    const { opening, end, code, runsCode } = this.#planner.open(identity, statements, options);
    const [slot, connection] = await this.#admitted(admission.enter(recipient));
    connection.codeWhenUsed = runsCode ? null : code;
    const release = (broken: Error | undefined) => {
      this.#release(connection, slot, broken);
      streams!.leave(streamSlot);
    };
    const { client } = connection;
    return {
      client,
      statements: opening,
      end,
      options: { preparation: this.#preparation, unlimitedResult: false, recipient: null, onCompleted: undefined },
      onFailure: (error) => onFailure?.({ error, role, texts: statements.map(({ text }) => text) }),
      examine: (error) => this.#preparation.examine(error, client),
      cancel: () => cancelRequest(pool, client),
      // What it has written, if anything, is not known.
      onEnded: async () => {
        if (!options.isRead && !options.rollback) await onWritten?.(identity, null);
      },
      release: (broken) => {
        if (broken || !runsCode) return release(broken);
        client.query(this.#cleaning.batch({ isFramed: false, mayPrepare: code.executesText }, release) as never);
      },
    };
  }

  /** Runs the work on a clean connection. */
  #execute(connection: PooledConnection, slot: Slot, work: Work, asked: number): Promise<Result[]> {
    if (this.#connected(work, asked)) return execute(connection, slot, work, this.#execution);
    this.#release(connection, slot);
    return Promise.reject(work.signal!.reason);
  }

  /** Notes that the work has a connection. False if it is not wanted any more. */
  #connected({ signal, span, onConnected }: Work, asked: number): boolean {
    const connected = performance.now();
    this.#options.times?.wait.observe((connected - asked) / 1000);
    span?.child("wait", {}, asked).end(connected);
    onConnected?.();
    return !signal?.aborted;
  }

  /** The connections of the pool, those that are open and free, and the transactions that wait for one. */
  get use() {
    const { max, available } = this.#pool;
    const { waiting, timeouts } = this.#options.admission;
    return { max, available, waiting, timeouts };
  }

  /** Closes the connections. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  /** An older catalog may not have known code that a statement has run, such as a new trigger. */
  #isClean({ codeWhenUsed }: PooledConnection): boolean {
    return codeWhenUsed === null || codeWhenUsed === this.#planner.code;
  }

  /** Waits for the slot and a clean connection. */
  async #admitted(entered: Slot | Promise<Slot>): Promise<[Slot, PooledConnection]> {
    const slot = await entered;
    return [slot, await this.#connect(slot)];
  }

  /** A free connection that is clean, or null. */
  #takeClean(): PooledConnection | null {
    const connection = this.#pool.take();
    if (connection === null || this.#isClean(connection)) return connection;
    this.#pool.release(connection);
    return null;
  }

  /** Waits for a connection and cleans it if needed. Gives the slot back if there is none. */
  async #connect(slot: Slot): Promise<PooledConnection> {
    try {
      return await this.#connectClean();
    } catch (error) {
      this.#options.admission.leave(slot);
      throw error;
    }
  }

  async #connectClean(): Promise<PooledConnection> {
    for (;;) {
      const connection = await this.#pool.connect();
      if (this.#isClean(connection)) return connection;
      const { promise, resolve } = Promise.withResolvers<Error | undefined>();
      const mayPrepare = connection.codeWhenUsed!.executesText || this.#planner.code.executesText;
      connection.client.query(this.#cleaning.batch({ isFramed: false, mayPrepare }, resolve) as never);
      const error = await promise;
      connection.codeWhenUsed = null;
      if (!error) return connection;
      this.#pool.release(connection, error);
    }
  }

  #release(connection: PooledConnection, slot: Slot, broken?: Error): void {
    // In this order: the next transaction that is admitted finds the connection.
    this.#pool.release(connection, broken);
    this.#options.admission.leave(slot);
  }
}

import type { DatabaseError } from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import type { Slot } from "../admission/admission.ts";
import type { Code } from "../catalog/code.ts";
import { isSocketError } from "../errors.ts";
import { BEHIND } from "../replicas/fallback.ts";
import type { Located, LocatedOptions } from "../replicas/reader.ts";
import type { Result, Statement } from "../wire/batch.ts";
import { cancelRequest } from "../wire/connection.ts";
import { Executions } from "./execution.ts";
import type { Identity } from "./identity.ts";
import { ConnectionPool, Preparation } from "./pool.ts";
import { type Lease, type OpenedStream, RowStream, type StreamOptions } from "./row-stream.ts";
import type { RunOptions } from "./run-options.ts";
import { NO_RULES, type TransactionOptions, TransactionPlanner } from "./transaction-plan.ts";

export type { Result, Statement } from "../wire/batch.ts";
export type { RunOptions } from "./run-options.ts";
export type { TransactionOptions } from "./transaction-plan.ts";

/**
 * Runs statements as an identity in one transaction and one round trip. The session settings of the identity are local
 * to the transaction; nothing of a request remains on the connection.
 */
export class Transactions {
  /** The connections, and what runs on them. */
  readonly #executions: Executions;
  readonly #options: TransactionOptions;
  readonly #planner: TransactionPlanner;

  /** `connections`: those of others, if these transactions have none of their own. */
  constructor(options: TransactionOptions, connections = connectionsOf(options)) {
    this.#options = options;
    this.#planner = new TransactionPlanner(options, connections);
    this.#executions = new Executions(connections, options);
  }

  /** Round trips so far. */
  get syncs(): number {
    return this.#executions.syncs;
  }

  /** Transactions with a statement that has exceeded its time. */
  get cancelled(): number {
    return this.#executions.cancelled;
  }

  /** Reads that were sent together with others. */
  get sharedReads(): number {
    return this.#executions.shared;
  }

  /**
   * Transactions that no client waits for, on the same connections, behind an admission of their own: the slots of both together are
   * the connections of the pool. Their results have no limit.
   */
  inBackground(more: Pick<TransactionOptions, "admission" | "statementTimeoutOf">): Transactions {
    const { pool, maxPrepared, onConnectionError } = this.#options;
    const options = { ...more, pool, maxPrepared, onConnectionError, maxResultBytes: 0 };
    return new Transactions(options, this.#executions.connections);
  }

  /**
   * Uses what a new catalog knows about code. Until the first one, every connection is cleaned after every transaction;
   * after a new one, every connection is cleaned before its next.
   */
  follow(code: Code, rules = NO_RULES): void {
    this.#executions.connections.code = code;
    this.#planner.rules = rules;
  }

  /**
   * Runs the statements as one transaction and returns their results, in order. Rejects with pg's DatabaseError, with
   * Problem for text that Postgres cannot store, or with the reason of `signal`; nothing is written then. If the
   * connection is lost during the commit, the outcome is unknown and the transaction is not repeated, unless it only reads.
   */
  run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const { trial } = identity.request;
    if (trial) {
      const untried = { ...identity, request: { ...identity.request, trial: undefined } };
      return trial.run(statements, { ...options, reading: undefined }, (all, more) => this.run(untried, all, more));
    }
    if (options.reading) return this.located(identity, options, (at, own) => at.run(identity, statements, own));
    this.#options.onRun?.(identity, statements);
    const asked = performance.now();
    try {
      return this.#executions.run(this.#planner.plan(identity, statements, options), asked);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends the quick reads that wait for others to share a connection with. */
  sendReads(): void {
    this.#executions.send();
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
    const { preparation } = this.#executions.connections;
    const { opening, end, code, runsCode } = this.#planner.open(identity, statements, options);
    const [slot, connection] = await this.#executions.admitted(admission.enter(recipient));
    connection.codeWhenUsed = runsCode ? null : code;
    const release = (broken: Error | undefined) => {
      this.#executions.release(connection, slot, broken);
      streams!.leave(streamSlot);
    };
    const { client } = connection;
    return {
      client,
      statements: opening,
      end,
      options: { preparation },
      onFailure: (error) => onFailure?.({ error, role, texts: statements.map(({ text }) => text) }),
      examine: (error) => preparation.examine(error, client),
      cancel: () => cancelRequest(pool, client),
      // What it has written, if anything, is not known.
      onEnded: async () => {
        if (!options.isRead && !options.rollback) await onWritten?.(identity, null);
      },
      release: (broken) => {
        if (broken || !runsCode) return release(broken);
        client.query(this.#executions.connections.cleaning({ mayPrepare: code.executesText }, release) as never);
      },
    };
  }

  /** The connections of the pool, those that are open and free, and the transactions that wait for one. */
  get use() {
    const { max, available } = this.#executions.connections;
    const { waiting, timeouts } = this.#options.admission;
    return { max, available, waiting, timeouts };
  }

  /** Closes the connections. */
  close(): Promise<void> {
    return this.#executions.connections.close();
  }
}

function connectionsOf({ pool, maxResultBytes = 0, maxPrepared, onPooler, onConnectionError }: TransactionOptions) {
  return new ConnectionPool({ ...pool, maxResultBytes }, onConnectionError, new Preparation(maxPrepared, onPooler));
}

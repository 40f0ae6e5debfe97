import pg from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Times } from "../telemetry/histogram.ts";
import type { Admission } from "./admission.ts";
import { Batch, type BatchOptions, type NamedStatement, type Result, type Statement } from "./batch.ts";
import { type CancelSignal, cancelRequest } from "./cancellation.ts";
import { type Code, UNKNOWN_CODE } from "./catalog/code.ts";
import { Cleaning } from "./cleaning.ts";
import { RawClient, untilReady } from "./connection.ts";
import { isLost, isSocketError, isStalePlan } from "./connection-errors.ts";
import type { Failure } from "./diagnosis.ts";
import { ApiError, connectionsBusy, databaseUnavailable, outcomeUnknown, unstorableText } from "./errors.ts";
import { type Frame, type FrameOptions, frameOf } from "./frame.ts";
import { type Identity, settingsStatement } from "./identity.ts";
import { KnownStatements } from "./known-statements.ts";
import { querySpan } from "./query-span.ts";
import type { Recipient } from "./recipient.ts";

export type { Result, Statement } from "./batch.ts";

export type TransactionOptions = {
  /** Options of pg: connection string, ssl, and `max`, the size of the pool. */
  readonly pool: pg.PoolConfig;
  /** Milliseconds after which Postgres cancels a statement of the role with 57014; 0 means never. */
  statementTimeoutOf(role: string): number;
  /** Prepared statements per connection; 0 sends them unnamed, for poolers that do not support named ones. */
  readonly maxPrepared: number;
  /** Maximum bytes of the result of a transaction; 0 means no limit. */
  readonly maxResultBytes?: number;
  /** Decides which transaction gets a connection next; without it, they get one in order. */
  readonly admission?: Admission;
  readonly onConnectionError: (error: Error) => void;
  /** Called with errors that the database has raised for a caller. */
  readonly onFailure?: (failure: Failure) => void;
  /** Absent where they are not measured. */
  readonly times?: TransactionTimes;
};

/** In seconds: until a connection is free, and from then on until the results are complete. */
export type TransactionTimes = { readonly wait: Times; readonly run: Times };

export type RunOptions = FrameOptions & {
  /** Called when the transaction has a connection. */
  readonly onConnected?: () => void;
  /** Called as each statement completes, before the transaction is committed; `index` is its position. */
  readonly onCompleted?: (index: number) => void;
  /** Lifts the limit on the size of the result. For writes: an error would hide that they succeeded. */
  readonly unlimitedResult?: boolean;
  /** Cancels the transaction: it is not sent if it still waits for a connection, and cancelled in the database if it runs. */
  readonly signal?: CancelSignal | undefined;
};

/** pg-pool's message when no connection becomes free in time; a server that rejects connections causes another one. */
const QUEUE_TIMEOUT = "timeout exceeded when trying to connect";

/**
 * Runs statements as an identity in one transaction and one round trip. The session settings of the identity are local
 * to the transaction; nothing of a request remains on the connection.
 */
export class Transactions {
  /** Round trips so far: one per Sync. */
  syncs = 0;
  /** Transactions that did not get a connection in time. */
  timeouts = 0;
  /** Transactions with a statement that has exceeded its time. */
  cancelled = 0;
  readonly #pool: pg.Pool;
  readonly #options: TransactionOptions;
  readonly #known: KnownStatements;
  readonly #cleaning: Cleaning;
  /** What said that statements on a connection run no code, since it was last cleaned. */
  readonly #judgedBy = new WeakMap<pg.PoolClient, Code>();
  #code = UNKNOWN_CODE;

  constructor(options: TransactionOptions) {
    this.#options = options;
    this.#known = new KnownStatements(options.maxPrepared > 0);
    this.#cleaning = new Cleaning(options.maxPrepared);
    this.#pool = new pg.Pool({
      ...options.pool,
      maxResultBytes: options.maxResultBytes,
      Client: RawClient,
    } as pg.PoolConfig);
    this.#pool.on("error", options.onConnectionError);
    // Without this listener, losing a connection that is checked out would end the process.
    this.#pool.on("connect", (client) => client.on("error", options.onConnectionError));
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
  async run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const code = this.#code;
    const runsCode = this.#known.runCode(identity.caller.role, statements, code);
    const frame = frameOf(statements.length, options, runsCode);
    const batch = this.#statementsOf(identity, statements, frame);
    const { recipient = null, span } = identity.request;
    const { signal } = options;
    const { times } = this.#options;
    const asked = performance.now();
    const client = await this.#connectClean(recipient);
    const connected = performance.now();
    times?.wait.observe((connected - asked) / 1000);
    span?.child("wait", {}, asked).end(connected);
    options.onConnected?.();
    if (signal?.aborted) {
      this.#release(client, recipient);
      throw signal.reason;
    }
    let cancelled: Promise<void> | undefined;
    const cancel = () => {
      cancelled = cancelRequest(this.#options.pool, client);
    };
    signal?.addEventListener("abort", cancel);
    const first = frame.begin.length + 1;
    const work: Work = {
      statements: batch,
      options: this.#batchOptions(options, recipient, first, statements.length),
      code,
      runsCode,
      isFramed: frame.end.length > 0,
      cleaned: null,
    };
    let broken: Error | undefined;
    const query = span && querySpan(span, identity, statements);
    try {
      const results = await this.#submitOrRetry(client, work);
      return results.slice(first, first + statements.length);
    } catch (error) {
      query?.fail((error as Error).message);
      if (isLost(error as DatabaseError)) broken = error as Error;
      else this.#report(error as DatabaseError, identity, statements);
      if ((error as DatabaseError).code === "57014" && !signal?.aborted) this.cancelled++;
      if (signal?.aborted) throw signal.reason;
      throw isSocketError(error as DatabaseError) ? new ApiError(outcomeUnknown(), { cause: error }) : error;
    } finally {
      query?.end();
      times?.run.observe((performance.now() - connected) / 1000);
      // A cancel request affects whatever the connection executes: release it only after the request has finished.
      signal?.removeEventListener("abort", cancel);
      if (cancelled) await cancelled;
      // The results are complete: nothing waits for the cleaning but the connection.
      if (work.cleaned === null) this.#release(client, recipient, broken);
      else work.cleaned.then((error) => this.#release(client, recipient, broken ?? error));
    }
  }

  /** The connections of the pool, those that are open and free, and the transactions that wait for one. */
  get use() {
    const { idleCount, waitingCount, options } = this.#pool;
    const { admission } = this.#options;
    return {
      max: options.max,
      available: idleCount,
      waiting: waitingCount + (admission?.waiting ?? 0),
      timeouts: this.timeouts + (admission?.timeouts ?? 0),
    };
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  #report(error: DatabaseError, { caller: { role } }: Identity, statements: readonly Statement[]): void {
    if (!(error instanceof ApiError))
      this.#options.onFailure?.({ error, role, texts: statements.map(({ text }) => text) });
  }

  /** Until a new catalog, code may have run that counted as none: a trigger that is new, for example. */
  async #connectClean(recipient: Recipient | null): Promise<pg.PoolClient> {
    const client = await this.#connect(recipient);
    const code = this.#judgedBy.get(client);
    if (code === undefined || code === this.#code) return client;
    const { promise, resolve } = Promise.withResolvers<Error | undefined>();
    const mayPrepare = code.executesText || this.#code.executesText;
    client.query(this.#cleaning.batch({ isFramed: false, mayPrepare }, resolve) as never);
    const error = await promise;
    this.#judgedBy.delete(client);
    if (!error) return client;
    this.#release(client, recipient, error);
    return this.#connectClean(recipient);
  }

  async #connect(recipient: Recipient | null): Promise<pg.PoolClient> {
    const { admission } = this.#options;
    const turn = admission?.enter(recipient);
    if (turn) await turn;
    try {
      return await this.#pool.connect();
    } catch (error) {
      admission?.leave(recipient);
      const { totalCount, idleCount, options } = this.#pool;
      const isBusy = totalCount >= options.max && idleCount === 0 && (error as Error).message === QUEUE_TIMEOUT;
      if (isBusy) this.timeouts++;
      throw new ApiError(isBusy ? connectionsBusy() : databaseUnavailable(), { cause: error });
    }
  }

  #release(client: pg.PoolClient, recipient: Recipient | null, broken?: Error): void {
    // In this order: the next transaction that is admitted finds the connection.
    client.release(broken);
    this.#options.admission?.leave(recipient);
  }

  #statementsOf(identity: Identity, statements: readonly Statement[], { begin, end }: Frame): NamedStatement[] {
    const { role } = identity.caller;
    const settings = settingsStatement(identity, this.#options.statementTimeoutOf(role));
    for (const { values } of statements) for (const value of values) refuseUnstorable(value);
    for (const value of settings.values) refuseUnstorable(value);
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

  async #submitOrRetry(client: pg.PoolClient, work: Work): Promise<Result[]> {
    try {
      return await this.#submit(client, work);
    } catch (error) {
      if (!isStalePlan(error as DatabaseError)) throw error;
      return this.#submit(client, work);
    }
  }

  #submit(client: pg.PoolClient, work: Work): Promise<Result[]> {
    const { statements, options, code, runsCode, isFramed } = work;
    this.syncs++;
    return new Promise((resolve, reject) => {
      const batch: Batch = new Batch(statements, options, (error) => {
        if (!error) resolve(batch.results);
        else this.#recover(client, error as DatabaseError, work).then(() => reject(error));
      });
      if (!runsCode) {
        if (this.#judgedBy.get(client) !== code) this.#judgedBy.set(client, code);
        return void client.query(batch as never);
      }

      const { promise, resolve: done } = Promise.withResolvers<Error | undefined>();
      const cleaning = this.#cleaning.batch({ isFramed, mayPrepare: this.#code.executesText }, done);
      batch.followedBy(cleaning);
      client.query(batch as never);
      client.query(cleaning as never);
      this.#judgedBy.delete(client);
      work.cleaned = promise;
    });
  }

  /** Resolves when the connection can be used again after an error, unless it is lost. */
  async #recover(client: pg.PoolClient, error: DatabaseError, { runsCode, isFramed }: Work): Promise<void> {
    if (isLost(error)) return;
    await untilReady(client);
    // The error skipped the statement that ends the transaction: the connection would remain in it.
    if (isFramed && !runsCode) await client.query("rollback").catch(() => {});
  }
}

/** The statements of a transaction, with those before and after the caller's. */
type Work = {
  readonly statements: readonly NamedStatement[];
  readonly options: BatchOptions;
  /** What `runsCode` is based on. */
  readonly code: Code;
  readonly runsCode: boolean;
  readonly isFramed: boolean;
  /** Resolves when the connection is clean, or with the reason why it cannot be used again; null without code. */
  cleaned: Promise<Error | undefined> | null;
};

function refuseUnstorable(value: string | null): void {
  if (value !== null && (!value.isWellFormed() || value.includes("\0"))) throw new ApiError(unstorableText());
}

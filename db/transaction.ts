import pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { Batch, type BatchOptions, type NamedStatement, type Result, type Statement } from "./batch.ts";
import { RawClient } from "./connection.ts";
import { ApiError, connectionsBusy, databaseUnavailable, outcomeUnknown, unstorableText } from "./errors.ts";
import { type Identity, settingsStatement } from "./identity.ts";

export type { Result, Statement } from "./batch.ts";

export type TransactionOptions = {
  /** Connection settings of pg: connection string, ssl, and `max`, the size of the pool. */
  readonly pool: pg.PoolConfig;
  /** Milliseconds until Postgres ends a statement with 57014; 0 is never. */
  readonly statementTimeout: number;
  /** Prepared statements per connection; 0 sends them without a name, for poolers that can't keep named ones. */
  readonly maxPrepared: number;
  /** Bytes that Postgres may answer a transaction with; more is refused as it comes. 0 is no limit. */
  readonly maxResultBytes?: number;
  readonly onConnectionError: (error: Error) => void;
};

/** What is used here of an AbortSignal, so that something lighter may take its place. */
export type CancelSignal = {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
};

export type RunOptions = {
  /** All statements see the database as the first one saw it. Costs no further wait. */
  readonly snapshot?: boolean;
  /** Another isolation than read committed. */
  readonly isolation?: "repeatable read" | "serializable" | null;
  /** Undoes everything in the end, after the checks that a commit would make. */
  readonly rollback?: boolean;
  /** Called when a connection is free for the transaction. */
  readonly onConnected?: () => void;
  /** Called as each statement completes, before the transaction is committed; `index` is its place among them. */
  readonly onCompleted?: (index: number) => void;
  /** For writes: an answer that is refused for its size would hide that they were made. */
  readonly takesAll?: boolean;
  /** Ends the transaction: a waiting one never reaches the database, a running one is cancelled there. */
  readonly signal?: CancelSignal | undefined;
};

const CANCEL_MILLISECONDS = 5000;
/** What pg-pool says to who has waited for a connection in vain; a server that lets nobody in fails otherwise. */
const QUEUE_TIMEOUT = "timeout exceeded when trying to connect";
const MAX_NAMES_PER_ROLE = 2000;
/** Longer statements are not kept: what anybody may ask for once would take megabytes on every connection. */
const MAX_PREPARED_LENGTH = 10_000;

/**
 * Door 1 to Postgres: an identity and statements become one transaction in one round trip. The settings of the
 * identity are local to it; nothing of a request is left on the connection.
 */
export class Transactions {
  /** Waits on the database so far: one for each Sync. */
  syncs = 0;
  readonly #pool: pg.Pool;
  readonly #options: TransactionOptions;
  readonly #names = new Map<string, Map<string, string>>();
  #nextName = 1;

  constructor(options: TransactionOptions) {
    this.#options = options;
    this.#pool = new pg.Pool({
      ...options.pool,
      maxResultBytes: options.maxResultBytes,
      Client: RawClient,
    } as pg.PoolConfig);
    this.#pool.on("error", options.onConnectionError);
    // A connection that is lost while it is checked out would end the process without a listener of its own.
    this.#pool.on("connect", (client) => client.on("error", options.onConnectionError));
  }

  /**
   * Runs the statements as one transaction and gives their results, in order. Rejects with pg's DatabaseError, with
   * ApiError for text that Postgres can't store, or with the reason of `signal`. Nothing is written in either case,
   * except when the connection is lost while a commit is under way: that outcome is unknown, and not tried again.
   */
  async run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const frame = frameOf(statements, options);
    const batch = this.#statementsOf(identity, statements, frame);
    const client = await this.#connect();
    options.onConnected?.();
    const { signal } = options;
    if (signal?.aborted) {
      client.release();
      throw signal.reason;
    }
    let cancelled: Promise<void> | undefined;
    const cancel = () => {
      cancelled = cancelRequest(this.#options.pool, client);
    };
    signal?.addEventListener("abort", cancel);
    const first = frame.begin.length + 2;
    let broken: Error | undefined;
    try {
      const results = await this.#submitTwice(client, batch, this.#batchOptions(options, first, statements.length));
      return results.slice(first, first + statements.length);
    } catch (error) {
      if (isLost(error as DatabaseError)) broken = error as Error;
      if (signal?.aborted) throw signal.reason;
      throw isOfSocket(error as DatabaseError) ? new ApiError(outcomeUnknown(), { cause: error }) : error;
    } finally {
      // A cancel request hits whatever the connection runs: it is given back when none is under way any more.
      signal?.removeEventListener("abort", cancel);
      if (cancelled) await cancelled;
      client.release(broken);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #connect(): Promise<pg.PoolClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      const { totalCount, idleCount, options } = this.#pool;
      const isBusy = totalCount >= options.max && idleCount === 0 && (error as Error).message === QUEUE_TIMEOUT;
      throw new ApiError(isBusy ? connectionsBusy() : databaseUnavailable(), { cause: error });
    }
  }

  #statementsOf(identity: Identity, statements: readonly Statement[], { begin, end }: Frame): NamedStatement[] {
    const { role } = identity.caller;
    const settings = settingsStatement(identity, this.#options.statementTimeout);
    for (const { values } of statements) for (const value of values) refuseUnstorable(value);
    for (const value of settings.values) refuseUnstorable(value);
    return [...begin, RESET, settings, ...statements, ...end].map((statement) => ({
      ...statement,
      name: this.#nameOf(role, statement.text),
    }));
  }

  // Row-level policies are part of a plan: one name for two roles would be planned anew at each change of role.
  #nameOf(role: string, text: string): string {
    if (this.#options.maxPrepared === 0 || text.length > MAX_PREPARED_LENGTH) return "";
    const names = this.#names.get(role) ?? new Map<string, string>();
    this.#names.set(role, names);
    const known = names.get(text);
    if (known !== undefined) return known;

    if (names.size >= MAX_NAMES_PER_ROLE) names.delete(names.keys().next().value as string);
    const name = `s${this.#nextName++}`;
    names.set(text, name);
    return name;
  }

  /** The caller's statements are `count`, from `first` on. */
  #batchOptions({ takesAll = false, onCompleted }: RunOptions, first: number, count: number): BatchOptions {
    const tell =
      onCompleted &&
      ((index: number) => {
        if (index >= first && index < first + count) onCompleted(index - first);
      });
    return { maxPrepared: this.#options.maxPrepared, takesAll, onCompleted: tell };
  }

  async #submitTwice(
    client: pg.PoolClient,
    statements: readonly NamedStatement[],
    options: BatchOptions,
  ): Promise<Result[]> {
    try {
      return await this.#submit(client, statements, options);
    } catch (error) {
      if (!isStalePlan(error as DatabaseError)) throw error;
      return this.#submit(client, statements, options);
    }
  }

  #submit(client: pg.PoolClient, statements: readonly NamedStatement[], options: BatchOptions): Promise<Result[]> {
    this.syncs++;
    return new Promise((resolve, reject) => {
      const batch: Batch = new Batch(statements, options, (error) => {
        if (!error) resolve(batch.results);
        else this.#recover(client, error as DatabaseError, statements[0]).then(() => reject(error));
      });
      client.query(batch as never);
    });
  }

  /** Resolves when the connection can be used again after an error, unless it is lost. */
  async #recover(client: pg.PoolClient, error: DatabaseError, first: Statement | undefined): Promise<void> {
    if (isLost(error)) return;
    await untilReady(client);
    // The error skipped what would end it: the connection would stay in the failed transaction.
    if (first?.text.startsWith(BEGIN)) await client.query("rollback").catch(() => {});
  }
}

/** What stands around the statements of a transaction; nothing around the usual one, which is that of the Sync. */
type Frame = { readonly begin: readonly Statement[]; readonly end: readonly Statement[] };

const BEGIN = "begin isolation level";
const command = (text: string): Statement => ({ text, values: [] });
/** What a function has set for the session would hold for whoever comes next; its own transaction may yet need it in the end. */
const RESET = command("reset all");
const COMMIT = [command("commit")];
const ROLLBACK = [command("set constraints all immediate"), command("rollback")];
const UNFRAMED: Frame = { begin: [], end: [] };

function frameOf(statements: readonly Statement[], { snapshot, isolation, rollback }: RunOptions): Frame {
  const needed = isolation ?? (snapshot && statements.length > 1 ? "repeatable read" : null);
  if (needed === null && !rollback) return UNFRAMED;
  return { begin: [command(`${BEGIN} ${needed ?? "read committed"}`)], end: rollback ? ROLLBACK : COMMIT };
}

function refuseUnstorable(value: string | null): void {
  if (value !== null && (!value.isWellFormed() || value.includes("\0"))) throw new ApiError(unstorableText());
}

/** Postgres refused before anything ran: the statement is unknown to this connection, or a type has changed under it. */
const isStalePlan = (error: DatabaseError) =>
  error.code === "26000" || (error.code === "0A000" && error.routine === "RevalidateCachedQuery");

/** All that the server says has a severity; the code of a socket's error, such as ECONNRESET, is no SQLSTATE. */
const isOfSocket = (error: DatabaseError | ApiError) => !(error instanceof ApiError) && error.severity === undefined;

/** FATAL: the server has ended this connection. */
const isLost = (error: DatabaseError) => error.severity === undefined || error.severity === "FATAL";

/** pg reports an error when it comes, and takes the next query only after the ReadyForQuery behind it: "drain". */
function untilReady(client: pg.PoolClient): Promise<void> {
  return new Promise((resolve) => {
    const ready = () => {
      client.off("drain", ready);
      client.off("end", ready);
      resolve();
    };
    client.on("drain", ready);
    client.on("end", ready);
  });
}

/** Asks the server, on a connection of its own, to cancel what `client` is running; resolves when it was told. */
function cancelRequest(config: pg.PoolConfig, client: pg.PoolClient): Promise<void> {
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const messenger = new pg.Client(config) as unknown as {
    host: string;
    port: number;
    connection: pg.Connection & {
      connect(at: number | string, host?: string): void;
      cancel(pid: number, key: number): void;
    };
  };
  const { connection } = messenger;
  // Until this is through the connection that is cancelled waits too.
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_MILLISECONDS);
  const told = new Promise<void>((resolve) => {
    connection.on("connect", () => connection.cancel(processID, secretKey));
    connection.on("error", () => resolve());
    connection.on("end", () => resolve());
    if (messenger.host.startsWith("/")) connection.connect(`${messenger.host}/.s.PGSQL.${messenger.port}`);
    else connection.connect(messenger.port, messenger.host);
  });
  return told.finally(() => clearTimeout(timer));
}

import type { Duplex } from "node:stream";
import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { problem } from "../../problems/problem.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import { INVALID_TEXT, isInputFault, isOfChangedType, notePrepared } from "../errors.ts";
import type { RawRow } from "./connection.ts";
import { MessageWriter, writeAll } from "./messages.ts";
import { PreparedStatements, type Undo } from "./prepared-statements.ts";

/** A text, or its UTF-8 in one or more parts. */
export type Value = string | readonly Buffer[] | null;

/** One SQL statement. Its values are already text, so that converting them cannot fail between two messages. */
export type Statement = {
  readonly text: string;
  readonly values: readonly Value[];
  /** Requests binary results: only for columns of type json and text, whose bytes are the same and arrive faster. */
  readonly binary?: boolean;
  /** Fetches the first rows only. The others are fetched from the portal, which exists until the transaction ends. */
  readonly portal?: Portal;
  /** Requests the columns of the result. */
  readonly isDescribed?: boolean;
};

type Portal = { readonly name: string; readonly rows: number };

/**
 * `rowCount` is the count in the command tag: rows selected, inserted, updated or deleted. `isSuspended`: the portal may have
 * more rows. `columns` are those of a statement that asks for them and returns rows.
 */
export type Result = {
  readonly rows: RawRow[];
  rowCount: number;
  isSuspended?: true;
  columns?: readonly ResultColumn[];
};

/** `type` is the OID of its type. */
export type ResultColumn = { readonly name: string; readonly type: number };

/** A statement and the name that it is prepared as; a statement with the name "" is not kept. */
export type NamedStatement = Statement & {
  readonly name: string;
  /** Whether it belongs to callers without credentials, who have a small share of the prepared statements. */
  readonly isAnonymous?: boolean;
};

/** The part of pg's connection that a query uses; pg has no public type for it. */
type Wire = {
  stream: Pick<Duplex, "write" | "cork" | "uncork" | "destroy">;
  prepared?: PreparedStatements;
  received?: number;
  recipient?: Recipient | null;
};

export type BatchOptions = {
  /** Maximum prepared statements per connection, when the batch is sent. */
  readonly preparation: { readonly max: number };
  /** Whether the limit on the size of a result is lifted. */
  readonly unlimitedResult: boolean;
  /** Counts the bytes of the result. */
  readonly recipient: Recipient | null;
  /** Called as each statement completes, before the others have; `index` is its position. */
  readonly onCompleted: ((index: number) => void) | undefined;
};

const messages = new MessageWriter();

/**
 * Several statements before one Sync: Postgres runs them as one implicit transaction, which is committed when
 * ReadyForQuery arrives, and rolls all of them back when one fails. A `Submittable` of pg's client.
 */
export class Batch {
  readonly results: Result[];
  #statements: readonly NamedStatement[];
  #options: BatchOptions;
  #done: ((error: DatabaseError | Error | null) => void) | null;
  #wire: Wire | undefined;
  #undo: (Undo | null)[] = [];
  /** The index of the statement that Postgres is executing. */
  #current = 0;
  /** A batch that is written together with this one. */
  #next: Batch | null = null;
  #client: Pick<pg.Client, "query"> | null = null;
  #isWritten = false;
  #isDiscarded = false;
  /** Whether it has ended without an error. */
  isCommitted = false;

  constructor(
    statements: readonly NamedStatement[],
    options: BatchOptions,
    done: (error: DatabaseError | Error | null) => void,
  ) {
    this.#statements = statements;
    this.#options = options;
    this.#done = done;
    this.results = statements.map(() => ({ rows: [], rowCount: 0 }));
  }

  /**
   * Sends `next` with the same write, so that it runs whether this batch fails or not, without another round trip. `next` is
   * queued on `client`, the client of this batch, when this batch begins.
   */
  followedBy(next: Batch, client: Pick<pg.Client, "query">): void {
    this.#next = next;
    this.#client = client;
  }

  /** Ignores the rows that have not arrived. */
  discard(): void {
    this.#isDiscarded = true;
  }

  submit(wire: Wire): null {
    wire.recipient = this.#isDiscarded ? null : this.#options.recipient;
    wire.received = this.#options.unlimitedResult ? Number.NEGATIVE_INFINITY : 0;
    if (!this.#isWritten) {
      for (let batch: Batch | null = this; batch !== null; batch = batch.#next) batch.#write(wire);
      writeAll(wire.stream, messages.take());
    }
    if (this.#next !== null) this.#client!.query(this.#next as never);
    return null;
  }

  #write(wire: Wire): void {
    wire.prepared ??= new PreparedStatements(messages);
    this.#wire = wire;
    this.#isWritten = true;
    const { prepared } = wire;
    const { preparation, onCompleted } = this.#options;
    const reportsEach = onCompleted !== undefined;
    try {
      for (const statement of this.#statements) {
        const name = preparation.max === 0 ? "" : statement.name;
        this.#undo.push(prepared.prepare(name, statement, preparation.max));
        const { portal } = statement;
        messages.bind(name, statement.values, statement.binary === true, portal?.name);
        if (statement.isDescribed) messages.describe(portal?.name);
        messages.execute(portal?.name, portal?.rows);
        // Without a Flush Postgres sends its messages only after the Sync.
        if (reportsEach) messages.flush();
      }
      messages.sync();
    } catch (error) {
      // Discards what was written: it would be sent with the next batch, which belongs to another request.
      messages.take();
      throw error;
    }
  }

  handleDataRow({ fields }: { fields: RawRow }): void {
    if (!this.#isDiscarded) this.results[this.#current]!.rows.push(fields);
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.results[this.#current]!.rowCount = Number(/\d+$/.exec(text)?.[0] ?? 0);
    this.#options.onCompleted?.(this.#current);
    this.#current++;
  }

  handleEmptyQuery(): void {
    this.#current++;
  }

  handleError(error: DatabaseError): void {
    if (isInputFault(error)) error.code = INVALID_TEXT;
    const prepared = this.#wire?.prepared;
    // Postgres skipped the statements after the failed one.
    while (this.#undo.length > this.#current + 1) this.#undo.pop()?.();
    const failed = this.#statements[this.#current];
    if (failed && failed.name !== "" && this.#undo[this.#current] === null) notePrepared(error);
    if (failed) prepared?.doubt(failed.name);
    // 26000, no such statement: a pooler switched the server connection, or DEALLOCATE was executed.
    // After a change of a type, other statements may have it too, and a repetition would meet them one by one.
    if (error.code === "26000" || isOfChangedType(error)) prepared?.doubtAll();
    this.#finish(error);
  }

  // The transaction is committed only now: a deferred constraint fails after the last CommandComplete.
  handleReadyForQuery(): void {
    this.isCommitted = this.#done !== null;
    this.#finish(null);
  }

  // COPY FROM STDIN consumes the Sync that follows it: the connection cannot be used again.
  handleCopyInResponse(wire: Wire): void {
    this.#finish(problem("internal error", { cause: new Error("COPY FROM STDIN is not supported") }));
    wire.stream.destroy();
  }

  handleRowDescription({ fields }: { readonly fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.results[this.#current]!.columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
  }
  handleCopyData(): void {}

  handlePortalSuspended(): void {
    this.results[this.#current]!.isSuspended = true;
    this.#current++;
  }

  #finish(error: DatabaseError | Error | null): void {
    const done = this.#done;
    this.#done = null;
    if (this.#wire) {
      this.#wire.recipient = null;
      this.#wire.received = Number.NEGATIVE_INFINITY;
    }
    done?.(error);
  }
}

import type { PgClient, PgClientQuery, PgClientResult, WithPgClient } from "postgraphile/@dataplan/pg";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Result, Statement, Transactions } from "../../db/transaction/transaction.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { RowGuards } from "../../plugins/shape/row-guards.ts";
import { problem } from "../../problems/problem.ts";

/** A client of `withPgClient` that runs several statements as one transaction. */
export type BatchClient = { runTogether(queries: readonly PgClientQuery[]): Promise<BatchResult> };
/** The rows of each statement; or the error that undid all of them, and the index of the statement that failed, if one did. */
export type BatchResult =
  | { readonly rows: readonly (readonly (string | null)[])[][] }
  | { readonly error: unknown; readonly index: number | null };

type WaitingQuery = {
  readonly query: PgClientQuery;
  resolve(result: PgClientResult<any>): void;
  reject(error: unknown): void;
};

export type OperationQueriesOptions = {
  readonly transactions: Pick<Transactions, "run">;
  readonly identity: Identity;
  /** Maximum number of rows in one result, including the rows in nested lists. */
  readonly maxRows: number;
  /** Whether the fields of a mutation that follow a failed one are not executed. */
  readonly stopsAfterFailure: boolean;
  readonly signal?: CancelSignal | undefined;
};

/**
 * Sends the SQL of one GraphQL operation to the database. Queries that PostGraphile issues in the same turn of the event
 * loop, such as a page and its totalCount, share one transaction and snapshot. Each field of a mutation is a transaction.
 */
export class OperationQueries {
  readonly #options: OperationQueriesOptions;
  #waiting: WaitingQuery[] = [];
  #failed = false;

  constructor(options: OperationQueriesOptions) {
    this.#options = options;
  }

  async query(query: PgClientQuery): Promise<PgClientResult<any>> {
    // Only reads are named. They can be batched, and repeated after a failure.
    if (query.name === undefined) return this.#write(query);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ query, resolve, reject });
      // setImmediate runs after all steps that are ready have added their queries.
      if (this.#waiting.length === 1) setImmediate(() => this.#flush());
    });
  }

  /** Executes one field of a mutation, unless an earlier failure made all of `data` null: its result would be lost. */
  async #write(query: PgClientQuery): Promise<PgClientResult<any>> {
    if (this.#failed) throw problem("not executed");
    try {
      return (await this.#run([query], true))[0]!;
    } catch (error) {
      this.#failed = this.#options.stopsAfterFailure;
      throw error;
    }
  }

  /** Executes the statements of one field of a mutation as one transaction. */
  async runTogether(queries: readonly PgClientQuery[]): Promise<BatchResult> {
    if (this.#failed) throw problem("not executed");
    let index: number | null = 0;
    const onCompleted = (completed: number) => {
      // The commit may fail after the last statement, without a statement to blame.
      index = completed + 1 < queries.length ? completed + 1 : null;
    };
    try {
      const results = await this.#run(queries, true, onCompleted);
      return { rows: results.map(({ rows }) => rows as (string | null)[][]) };
    } catch (error) {
      this.#failed = this.#options.stopsAfterFailure;
      return { error, index };
    }
  }

  async #flush(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      const results = await this.#run(waiting.map(({ query }) => query));
      for (const [i, { resolve }] of waiting.entries()) resolve(results[i]!);
    } catch (error) {
      if (waiting.length === 1) return waiting[0]!.reject(error);
      // One query failed the whole batch: each is repeated alone, so that the others succeed.
      for (const { query, resolve, reject } of waiting) this.#run([query]).then(([result]) => resolve(result!), reject);
    }
  }

  async #run(
    queries: readonly PgClientQuery[],
    isWrite = false,
    onCompleted?: (index: number) => void,
  ): Promise<PgClientResult<any>[]> {
    const guards = new RowGuards();
    const statements = queries.map((query) => statementOf(query, guards));
    const { check } = guards;
    const { transactions, identity, signal, maxRows } = this.#options;
    const options = { snapshot: !isWrite, unlimitedResult: isWrite, signal, ...(onCompleted && { onCompleted }) };
    const all = check ? [...statements, check] : statements;
    const results = await transactions.run(identity, all, options);
    if (check && results.pop()!.rows[0]![0]!.toString() !== "t") throw problem("invalid value");
    if (!isWrite) refuseTooManyRows(results, maxRows);
    return results.map(({ rows, rowCount }, i) => ({
      rows: queries[i]!.arrayMode ? rows.map((row) => row.map(textOf)) : rows,
      rowCount,
      notices: [],
    }));
  }
}

const OPENING_BRACE = 0x7b;
/** `{`, `,` and `"`: the bytes that can precede the brace of a row in an array. A brace in text usually follows another byte. */
const BYTES_BEFORE_ROW: ReadonlySet<number | undefined> = new Set([OPENING_BRACE, 0x2c, 0x22]);
/** `[` and `,`: the same in an array of JSON. */
const BYTES_BEFORE_OBJECT: ReadonlySet<number | undefined> = new Set([0x5b, 0x2c]);

/**
 * Throws if the results hold too many rows, counting those of nested lists. Nested lists arrive as nested arrays, one
 * brace per row. Ten rows on each of seven levels are ten million rows: converting them would block the process for
 * minutes, although the query is small and within the limits of depth and complexity.
 */
function refuseTooManyRows(results: readonly Result[], max: number): void {
  let count = 0;
  for (const { rows } of results) {
    count += rows.length;
    for (const row of rows) {
      for (const field of row)
        if (field?.[0] === OPENING_BRACE) count += countRows(field, max - count, BYTES_BEFORE_ROW);
    }
    if (count > max) throw problem("too many rows", { max });
  }
}

/** Whether JSON may have more objects in its arrays. */
export const mayHaveMoreRows = (json: Buffer, max: number): boolean => countRows(json, max, BYTES_BEFORE_OBJECT) > max;

/** Counts the rows in a field. Stops counting above `max`. */
function countRows(field: Buffer, max: number, before: ReadonlySet<number | undefined>): number {
  let count = 0;
  for (let at = field.indexOf(OPENING_BRACE); at !== -1 && count <= max; at = field.indexOf(OPENING_BRACE, at + 1)) {
    if (before.has(field[at - 1])) count++;
  }
  return count;
}

/** How PostGraphile reaches the database. Instead of settings of a session, it passes `queries` of the context. */
export const withPgClient: WithPgClient = (async (queries: unknown, callback: (client: PgClient) => unknown) =>
  callback({
    query: (query: PgClientQuery) => (queries as OperationQueries).query(query),
    runTogether: (together: readonly PgClientQuery[]) => (queries as OperationQueries).runTogether(together),
    withTransaction: () => {
      throw new Error("each statement is a transaction: combine statements in one SQL function");
    },
  } as PgClient & BatchClient)) as never;

const textOf = (field: Buffer | null): string | null => (field === null ? null : field.toString());

const statementOf = ({ text, values = [] }: PgClientQuery, guards: RowGuards): Statement => ({
  text,
  values: values.map((value) => guards.take(parameterOf(value))),
});

/** A value as Postgres reads it. */
export function parameterOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return `\\x${value.toString("hex")}`;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

import type { PgClient, PgClientQuery, PgClientResult, WithPgClient } from "postgraphile/@dataplan/pg";
import { ApiError, notExecuted, tooManyRows } from "../db/errors.ts";
import type { Identity } from "../db/identity.ts";
import type { CancelSignal, Result, Statement, Transactions } from "../db/transaction.ts";

type Waiting = {
  readonly query: PgClientQuery;
  resolve(result: PgClientResult<any>): void;
  reject(error: unknown): void;
};

export type OperationQueriesOptions = {
  readonly transactions: Transactions;
  readonly identity: Identity;
  /** Rows that one answer of the database may be made of. */
  readonly maxRows: number;
  /** Whether a field of a mutation is not to be executed when one before it has failed. */
  readonly stopsAfterFailure: boolean;
  readonly signal?: CancelSignal | undefined;
};

/**
 * The SQL of one GraphQL operation on its way to the database. What PostGraphile asks for in the same moment, such as
 * a page and its totalCount, is one transaction with one snapshot; a mutation is one by itself.
 */
export class OperationQueries {
  readonly #options: OperationQueriesOptions;
  #waiting: Waiting[] = [];
  #failed = false;

  constructor(options: OperationQueriesOptions) {
    this.#options = options;
  }

  async query(query: PgClientQuery): Promise<PgClientResult<any>> {
    // Only reads have names: they may wait for others, and be asked again.
    if (query.name === undefined) return this.#write(query);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ query, resolve, reject });
      // Once all that is ready to run has run: by then every step that can ask has asked.
      if (this.#waiting.length === 1) setImmediate(() => this.#flush());
    });
  }

  /** One field of a mutation. Where its failure makes all of `data` null, what comes after it is not done: nobody would see. */
  async #write(query: PgClientQuery): Promise<PgClientResult<any>> {
    if (this.#failed) throw new ApiError(notExecuted());
    try {
      return (await this.#run([query], true))[0]!;
    } catch (error) {
      this.#failed = this.#options.stopsAfterFailure;
      throw error;
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
      // One of them has failed all: each is asked again by itself, so that the others have their answers.
      for (const { query, resolve, reject } of waiting) this.#run([query]).then(([result]) => resolve(result!), reject);
    }
  }

  async #run(queries: readonly PgClientQuery[], isWrite = false): Promise<PgClientResult<any>[]> {
    const statements = queries.map(statementOf);
    const { transactions, identity, signal, maxRows } = this.#options;
    const results = await transactions.run(identity, statements, { snapshot: true, takesAll: isWrite, signal });
    if (!isWrite) refuseTooManyRows(results, maxRows);
    return results.map(({ rows, rowCount }, i) => ({
      rows: queries[i]!.arrayMode ? rows.map((row) => row.map(textOf)) : rows,
      rowCount,
      notices: [],
    }));
  }
}

const OPENING_BRACE = 0x7b;
/** `{`, `,` and `"`: what stands before the brace of a row in an array; a brace in a text mostly follows something else. */
const BEFORE_A_ROW: ReadonlySet<number | undefined> = new Set([OPENING_BRACE, 0x2c, 0x22]);

/**
 * Lists in lists come as arrays in arrays, a brace each. Ten rows on each of seven levels are ten million: a small
 * query, few bytes a row, and a process that does nothing else for minutes while it makes objects of them.
 */
function refuseTooManyRows(results: readonly Result[], max: number): void {
  let count = 0;
  for (const { rows } of results) {
    count += rows.length;
    for (const row of rows) {
      for (const field of row) if (field?.[0] === OPENING_BRACE) count += rowsIn(field, max - count);
    }
    if (count > max) throw new ApiError(tooManyRows(max));
  }
}

/** Rows in a field that is an array; stops counting above `max`. */
function rowsIn(field: Buffer, max: number): number {
  let count = 0;
  for (let at = field.indexOf(OPENING_BRACE); at !== -1 && count <= max; at = field.indexOf(OPENING_BRACE, at + 1)) {
    if (BEFORE_A_ROW.has(field[at - 1])) count++;
  }
  return count;
}

/** How PostGraphile reaches the database: its `pgSettings` are the queries of the running operation. */
export const withPgClient: WithPgClient = (async (queries: unknown, callback: (client: PgClient) => unknown) =>
  callback({
    query: (query: PgClientQuery) => (queries as OperationQueries).query(query),
    withTransaction: () => {
      throw new Error("a statement is a transaction here: write what belongs together as one SQL function");
    },
  } as PgClient)) as never;

const textOf = (field: Buffer | null): string | null => (field === null ? null : field.toString());

const statementOf = ({ text, values = [] }: PgClientQuery): Statement => ({ text, values: values.map(parameterOf) });

function parameterOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return `\\x${value.toString("hex")}`;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

import type { Runner } from "../replicas/reader.ts";
import type { Parameter, Written } from "../sql.ts";
import type { Identity } from "../transaction/identity.ts";
import { ROWS_PORTAL, type RowStream, type StreamOptions } from "../transaction/row-stream.ts";
import type { Result, RunOptions, Statement, Transactions } from "../transaction/transaction.ts";
import { writeArray } from "../wire/array-text.ts";
import type { Value } from "../wire/batch.ts";
import type { CancelSignal } from "../wire/connection.ts";
import type { PlannedQuery, Query, QueryResult } from "./query.ts";
import { RESULT } from "./result.ts";

/** What a request adds to the SQL that all requests of its shape share. */
export type Input = {
  readonly values: readonly string[];
  readonly body:
    | {
        readonly kind: "json";
        /** That of a large body is its UTF-8. */
        readonly text: string | readonly Buffer[];
        /** Where the elements of a large array are, as `elementsOf` returns it; absent or null for every other body. */
        readonly elements?: Uint32Array | null;
      }
    | {
        readonly kind: "text";
        readonly type: "text/plain" | "text/xml" | "application/octet-stream";
        readonly bytes: Buffer;
      }
    | null;
};

type Options = {
  readonly identity: Identity;
  readonly signal: CancelSignal;
  readonly onConnected?: () => void;
} & Pick<RunOptions, "reading">;

/** Runs a query in one transaction and one round trip. */
export async function run(
  transactions: Transactions,
  { query, isolation, isRolledBack }: Omit<PlannedQuery, "plan">,
  input: Input,
  { identity, reading, ...more }: Options & Pick<RunOptions, "written">,
): Promise<QueryResult> {
  const { isRead, isReadOnly } = query;
  const options = { isolation, rollback: isRolledBack, unlimitedResult: !isReadOnly, isRead, ...more };
  const located = { ...options, reading: isRead ? reading : undefined };
  return resultOf(query, await transactions.run(identity, statementsOf(query, input), located));
}

/** In order: the first statement, the main one, the estimate. */
export function statementsOf({ first, main, estimate }: Query, input: Input): Statement[] {
  const all = first ? [first, main] : [main];
  return (estimate ? [...all, estimate] : all).map((each) => writeStatement(each, input));
}

function resultOf({ first, estimate }: Query, results: readonly Result[]): QueryResult {
  if (first) return { first: results[0], main: results[1]!, estimate: null };
  return estimate ? { main: results.at(-2)!, estimate: results.at(-1)! } : { main: results.at(-1)!, estimate: null };
}

/** A result whose body is read from the database while it is sent. `close` must follow. */
export type StreamedResult = {
  /** Without the body and the number of rows. */
  readonly head: QueryResult;
  /** The body. Each part is valid until the next one is requested. */
  readonly parts: AsyncIterable<Buffer>;
  /** The streams that share connections with this one. */
  readonly queue: Pick<Runner, "waitingStreams">;
  close(): Promise<void>;
};

/** Results up to this size are returned as a whole. */
const MAX_WHOLE_BYTES = 262_144;

/**
 * Begins to read the result of a query with `stream`, of any size, for at most `timeout` milliseconds, or without a limit for 0. A small
 * one is returned as a whole. Until then, the primary can replace a replica.
 */
export function runStreamed(
  transactions: Transactions,
  { plan, query, isolation, isRolledBack }: PlannedQuery,
  input: Input,
  { identity, reading, ...more }: Options & { readonly timeout: number },
): Promise<QueryResult | StreamedResult> {
  // The total must match the rows.
  const counts = plan.kind === "read" && plan.count !== null;
  const options = {
    isolation: isolation ?? (counts ? ("repeatable read" as const) : null),
    rollback: isRolledBack,
    isRead: query.isRead,
    reading: query.isRead ? reading : undefined,
    ...more,
  };
  return transactions.located(identity, options, (located, own) => open(located, query, input, identity, own));
}

async function open(
  transactions: Runner,
  query: Query,
  input: Input,
  identity: Identity,
  options: StreamOptions,
): Promise<QueryResult | StreamedResult> {
  const { rows, head, start } = query.stream!;
  const statements = [
    { ...writeStatement(rows, input), portal: ROWS_PORTAL },
    ...statementsOf({ ...query, main: head }, input),
  ];
  const { results, stream } = await transactions.stream(identity, statements, options);
  const result = resultOf(query, results);
  try {
    const first = await firstRows(stream);
    const body = Buffer.concat([Buffer.from(start), ...first.parts]);
    if (first.isComplete) return withRows(result, body, stream.rows);
    return { head: result, parts: partsOf(body, stream), queue: transactions, close: () => stream.close() };
  } catch (error) {
    await stream.close();
    throw error;
  }
}

type FirstRows = { readonly parts: readonly Buffer[]; readonly isComplete: boolean };

async function firstRows(stream: RowStream): Promise<FirstRows> {
  const parts: Buffer[] = [];
  for (let bytes = 0; bytes <= MAX_WHOLE_BYTES; bytes += parts.at(-1)!.length) {
    const rows = await stream.next();
    if (rows === null) return { parts, isComplete: true };
    parts.push(Buffer.from(rows));
  }
  return { parts, isComplete: false };
}

async function* partsOf(first: Buffer, stream: RowStream): AsyncGenerator<Buffer, void> {
  yield first;
  for (let rows = await stream.next(); rows !== null; rows = await stream.next()) if (rows.length > 0) yield rows;
}

/** The result of a stream, with the body and the number of rows filled in. */
export function withRows({ main, estimate }: QueryResult, body: Buffer | null, count: number): QueryResult {
  const row = [...main.rows[0]!];
  row[RESULT.body] = body;
  row[RESULT.rows] = Buffer.from(String(count));
  return { main: { rows: [row], rowCount: main.rowCount }, estimate };
}

/** Adds the values of a request to the SQL that all requests of its shape share. */
export const writeStatement = ({ text, parameters }: Written, input: Input): Statement => ({
  text,
  values: parameters.map((parameter) => textOf(parameter, input)),
  binary: true,
});

function textOf(parameter: Parameter, { values, body }: Input): Value {
  switch (parameter.kind) {
    case "value":
      return values[parameter.index]!;
    case "values":
      return writeArray(parameter.indexes.map((index) => values[index]!));
    case "constant":
      return parameter.text;
    case "body":
      if (body!.kind === "json") return body!.text;
      return body!.type === "application/octet-stream" ? `\\x${body!.bytes.toString("hex")}` : body!.bytes.toString();
  }
}

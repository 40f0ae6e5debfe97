import type { Runner } from "../../db/replicas/reader.ts";
import type { Parameter, Written } from "../../db/sql.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { OpenedStream, RowStream, StreamOptions } from "../../db/transaction/row-stream.ts";
import type { Result, RunOptions, Statement, Transactions } from "../../db/transaction/transaction.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import type { Value } from "../../db/wire/batch.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import type { StreamQueue } from "../../http/limits/slow-streams.ts";
import { type Answer, answer } from "./answer/answer.ts";
import { isRead, isReadOnly } from "./plan.ts";
import { type PlannedRequest, type QueryResult, RESULT, type StreamQuery } from "./query.ts";
import type { Body, RequestUrl } from "./request.ts";

/** The transaction of a request. */
export type TableTransaction = {
  readonly identity: Identity;
  /** In order: the main statement; the estimate, if it is needed. */
  readonly statements: readonly Statement[];
  readonly isolation: PlannedRequest["isolation"];
};

type Options = {
  readonly signal: CancelSignal;
  readonly onConnected: () => void;
} & Pick<RunOptions, "reading" | "written">;

/** Runs the transaction of a request in one round trip. */
export async function run(
  transactions: Transactions,
  { plan, query, isRolledBack }: PlannedRequest,
  { identity, statements, isolation }: TableTransaction,
  more: Options,
): Promise<QueryResult> {
  const unlimitedResult = !isReadOnly(plan);
  const options = { isolation, rollback: isRolledBack, unlimitedResult, isRead: isRead(plan), ...more };
  const results = await transactions.run(identity, statements, options);
  if (query.estimate === null) return { main: results.at(-1)!, estimate: null };
  return { main: results.at(-2)!, estimate: results.at(-1)! };
}

/** A response whose body is read from the database while it is sent. `close` must follow. */
export type StreamedAnswer = {
  readonly answer: Answer;
  readonly parts: AsyncIterable<Buffer>;
  readonly queue: StreamQueue;
  close(): Promise<void>;
};

export type StreamedRun = {
  readonly planned: PlannedRequest;
  readonly query: StreamQuery;
  readonly transaction: TableTransaction;
  /** The URL of the request, with the parameters in its body. */
  readonly url: RequestUrl;
  /** Milliseconds that the stream may take; 0 means no limit. */
  readonly timeout: number;
  readonly signal: CancelSignal;
  readonly onConnected: () => void;
  readonly reading: RunOptions["reading"];
};

/** Results up to this size are sent as a whole, with a length and an entity tag. */
const MAX_WHOLE_BYTES = 262_144;

/** Begins to read a result of any size. A small one is returned as a whole. Until then, the primary can replace a replica. */
export function runStreamed(transactions: Transactions, run: StreamedRun): Promise<Answer | StreamedAnswer> {
  const { planned, transaction, timeout, signal, onConnected, reading } = run;
  const { isolation } = transaction;
  // The total must match the rows.
  const counts = planned.plan.kind === "read" && planned.plan.count !== null;
  const options = {
    isolation: isolation ?? (counts ? ("repeatable read" as const) : null),
    rollback: planned.isRolledBack,
    timeout,
    signal,
    onConnected,
    ...{ reading, isRead: isRead(planned.plan) },
  };
  return transactions.located(transaction.identity, options, (located, own) => open(located, run, own));
}

async function open(
  transactions: Runner,
  { planned, query, transaction, url }: StreamedRun,
  options: StreamOptions,
): Promise<Answer | StreamedAnswer> {
  const { results, stream } = await transactions.stream(transaction.identity, transaction.statements, options);
  try {
    const first = await firstRows(stream);
    const body = Buffer.concat([Buffer.from(query.start), ...first.parts]);
    if (first.isComplete) return wholeAnswer(planned, headOf(planned, results), body, stream.rows, url);
    return {
      answer: openAnswer(planned, headOf(planned, results), url),
      parts: partsOf(body, stream),
      queue: transactions,
      close: () => stream.close(),
    };
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

/** Each part is valid until the next one is requested. */
async function* partsOf(first: Buffer, stream: RowStream): AsyncGenerator<Buffer, void> {
  yield first;
  for (let rows = await stream.next(); rows !== null; rows = await stream.next()) if (rows.length > 0) yield rows;
}

type Head = { readonly head: Result; readonly estimate: Result | null };

/** The results of the statements that follow the one with the rows. */
function headOf({ query }: PlannedRequest, results: OpenedStream["results"]): Head {
  return query.estimate
    ? { head: results.at(-2)!, estimate: results.at(-1)! }
    : { head: results.at(-1)!, estimate: null };
}

function wholeAnswer(
  planned: PlannedRequest,
  { head, estimate }: Head,
  body: Buffer,
  rows: number,
  url: RequestUrl,
): Answer {
  return answer(planned, { main: withRows(head, body, rows), estimate }, url);
}

/** The range is known if the client asked for an exact total: the rows are read from the same snapshot. */
function openAnswer(planned: PlannedRequest, { head, estimate }: Head, url: RequestUrl): Answer {
  const { plan } = planned;
  if (plan.kind === "read" && plan.count?.kind === "exact") {
    const { limit, offset } = plan.rows;
    const total = Number(head.rows[0]![RESULT.total]!.toString());
    const rows = Math.min(limit ?? total, total - offset);
    return answer(planned, { main: withRows(head, null, rows), estimate }, url);
  }
  const uncounted = { ...planned, plan: { ...plan, count: null } } as PlannedRequest;
  const { headers, ...rest } = answer(uncounted, { main: withRows(head, null, 1), estimate: null }, url);
  return { ...rest, headers: headers.filter(([name]) => name !== "Content-Range") };
}

/** A result like that of the main statement: one row, with the body and the number of rows filled in. */
function withRows({ rows, rowCount }: Result, body: Buffer | null, count: number): Result {
  const row = [...rows[0]!];
  row[RESULT.body] = body;
  row[RESULT.rows] = Buffer.from(String(count));
  return { rows: [row], rowCount };
}

/** The parts of a request that supply the parameters of a statement. */
export type Input = {
  readonly values: readonly string[];
  readonly body:
    | Extract<Body, { kind: "text" }>
    | { readonly kind: "json"; readonly text: string | readonly Buffer[] }
    | null;
};

/** Adds the values of a request to the SQL that all requests of its shape share. */
export const writeStatement = ({ text, parameters }: Written, request: Input): Statement => ({
  text,
  values: parameters.map((parameter) => textOf(parameter, request)),
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

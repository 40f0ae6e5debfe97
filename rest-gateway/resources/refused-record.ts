import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Statement } from "../../db/transaction.ts";
import { finish } from "../sql.ts";
import { writeStatement } from "../table/write/statement.ts";
import { planInsert } from "./plan/request.ts";
import type { Attempt } from "./refusal.ts";
import { recordsBody } from "./request.ts";
import { writeTrial } from "./write/refusal.ts";

/** The database has refused one record among several; `place` counts from 0. */
export class RefusedRecord extends Error {
  readonly place: number;
  constructor(place: number, cause: unknown) {
    super(`record ${place} was refused`, { cause });
    this.place = place;
  }
}

/** SQLSTATEs of errors about a row: its values, a constraint, a trigger. */
const OF_ROW = /^(?:22|23|P0001$)/;
/** The number of parts that one attempt divides the records into. */
const PARTS = 100;

/** Records from `first` up to, but not including, `end`. */
type Span = { readonly first: number; readonly end: number };

/**
 * Finds which of several records was refused. Postgres does not report it, and policies may hide the conflicting row. So
 * the records are inserted again in parts, with the rights of the caller, and rolled back: this reveals no more than
 * sending the records one at a time. Null for other errors, and if the same error is not raised again.
 */
export async function placeOfRefused(error: unknown, attempt: Attempt): Promise<number | null> {
  const { request } = attempt;
  const { operation, body } = request;
  if (operation.kind !== "create" || !operation.isMany || !OF_ROW.test(codeOf(error))) return null;
  const records = body!.records;
  const insert = finish(writeTrial(planInsert(request, operation, true)));
  const insertOf = ({ first, end }: Span): Statement =>
    writeStatement(insert, { ...request, body: recordsBody(records.slice(first, end), true) });

  let span: Span | undefined = { first: 0, end: records.length };
  do {
    const parts = partsOf(span);
    const before: readonly Span[] = span.first === 0 ? [] : [{ first: 0, end: span.first }];
    const completed = await countCompleted([...before, ...parts].map(insertOf), error, attempt);
    span = completed === null ? undefined : parts[completed - before.length];
  } while (span && span.end - span.first > 1);
  return span?.first ?? null;
}

function partsOf({ first, end }: Span): readonly Span[] {
  const size = Math.ceil((end - first) / PARTS);
  const count = Math.ceil((end - first) / size);
  return Array.from({ length: count }, (_, i) => first + i * size).map((start) => ({
    first: start,
    end: Math.min(start + size, end),
  }));
}

/** The number of statements that complete before the same error is raised again; null if it is not raised. */
async function countCompleted(
  statements: readonly Statement[],
  error: unknown,
  { transactions, identity }: Attempt,
): Promise<number | null> {
  let completed = 0;
  const onCompleted = (index: number) => {
    completed = index + 1;
  };
  return transactions.run(identity, statements, { rollback: true, unlimitedResult: true, onCompleted }).then(
    () => null,
    (again) => (isSame(again, error) ? completed : null),
  );
}

const codeOf = (error: unknown): string => (error as DatabaseErrorLike).code ?? "";

function isSame(one: DatabaseErrorLike, other: unknown): boolean {
  const { code, schema, table, constraint } = other as DatabaseErrorLike;
  return one.code === code && one.schema === schema && one.table === table && one.constraint === constraint;
}

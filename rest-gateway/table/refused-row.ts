import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement, Transactions } from "../../db/transaction.ts";

/** Several rows of which the database has refused one. */
export type RefusedRows = {
  readonly count: number;
  /** Inserts the rows from `first` up to, but not including, `end`. */
  insertOf(span: Span): Statement;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
};

export type Span = { readonly first: number; readonly end: number };

/** SQLSTATEs of errors about a row: its values, a constraint, a trigger. */
const OF_ROW = /^(?:22|23|P0001$)/;
/** The number of parts that one attempt divides the rows into. */
const PARTS = 100;

export const isAboutRow = (error: unknown): boolean => OF_ROW.test((error as DatabaseErrorLike).code ?? "");

/**
 * Finds which of several rows was refused, from 0. Postgres does not report it, and policies may hide the conflicting row. So
 * the rows are inserted again in parts, with the rights of the caller, and rolled back: this reveals no more than sending the
 * rows one at a time. Null for other errors, and if the same error is not raised again.
 */
export async function placeOfRefused(error: unknown, rows: RefusedRows): Promise<number | null> {
  if (!isAboutRow(error)) return null;
  let span: Span | undefined = { first: 0, end: rows.count };
  do {
    const parts = partsOf(span);
    const before: readonly Span[] = span.first === 0 ? [] : [{ first: 0, end: span.first }];
    const completed = await countCompleted([...before, ...parts].map(rows.insertOf), error, rows);
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
export async function countCompleted(
  statements: readonly Statement[],
  error: unknown,
  { transactions, identity }: Pick<RefusedRows, "identity" | "transactions">,
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

function isSame(one: DatabaseErrorLike, other: unknown): boolean {
  const { code, schema, table, constraint } = other as DatabaseErrorLike;
  return one.code === code && one.schema === schema && one.table === table && one.constraint === constraint;
}

import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Statement } from "../../db/transaction.ts";
import { finish, sql } from "../sql.ts";
import type { Attempt } from "./refusal.ts";
import { writeInsert } from "./write/insert.ts";
import { statementOf } from "./write/statement.ts";

/** The database has refused one record among several; `place` counts from 0. */
export class RefusedRecord extends Error {
  readonly place: number;
  constructor(place: number, cause: unknown) {
    super(`record ${place} was refused`, { cause });
    this.place = place;
  }
}

/** SQLSTATEs of what is wrong with a row: with its values, by a rule, or in the eyes of a trigger. */
const OF_ROW = /^(?:22|23|P0001$)/;
/** Among so many parts of the records the refused one is looked for at once. */
const PARTS = 100;

/** Records from `first` up to `end`, which is none of them. */
type Span = { readonly first: number; readonly end: number };

/**
 * Which of several records the database has refused. Postgres does not tell, least of all where row-level security hides
 * rows: so the caller inserts them once more, part by part, and undoes it. That tells him what he could learn from sending
 * them one at a time. Null when they are not refused for the same reason again, and for what is no such refusal.
 */
export async function placeOfRefused(error: unknown, attempt: Attempt): Promise<number | null> {
  const { operation, values } = attempt.request;
  if (operation.kind !== "create" || !operation.isMany || !OF_ROW.test(codeOf(error))) return null;
  const records: readonly unknown[] = JSON.parse(values[operation.body]!);
  const insert = finish(sql`with written as (${writeInsert(attempt.request, operation, true)}) select from written`);
  const insertOf = ({ first, end }: Span): Statement =>
    statementOf(insert, values.with(operation.body, JSON.stringify(records.slice(first, end))));

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

/** Statements that can be made before the error comes again; null when it does not. */
async function countCompleted(
  statements: readonly Statement[],
  error: unknown,
  { transactions, identity }: Attempt,
): Promise<number | null> {
  let completed = 0;
  const onCompleted = (index: number) => {
    completed = index + 1;
  };
  return transactions.run(identity, statements, { rollback: true, takesAll: true, onCompleted }).then(
    () => null,
    (again) => (isSame(again, error) ? completed : null),
  );
}

const codeOf = (error: unknown): string => (error as DatabaseErrorLike).code ?? "";

function isSame(one: DatabaseErrorLike, other: unknown): boolean {
  const { code, schema, table, constraint } = other as DatabaseErrorLike;
  return one.code === code && one.schema === schema && one.table === table && one.constraint === constraint;
}

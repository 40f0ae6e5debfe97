import { quoteName, type Table } from "../catalog/catalog.ts";
import { isOfValue } from "../errors.ts";
import type { DatabaseErrorLike } from "../sqlstates.ts";
import type { Identity } from "./identity.ts";
import type { Statement, Transactions } from "./transaction.ts";

/** A value that its column cannot have, and why, in the words of Postgres: `value too long for type character varying(3)`. */
export type Unreadable = { readonly column: string; readonly message: string };

/** What reads a value. */
export type Read = { readonly column: string; readonly statement: Statement };

/** The most values that one error names. Each costs a round trip. */
const MAX_NAMED = 20;
/** The most values that are read to name those that are refused. An error does not name the others. */
const MAX_READ = 100;

/** Reads the values of a record. */
export const readsOf = (table: Table, record: Readonly<Record<string, unknown>>): readonly Read[] =>
  Object.entries(record)
    .filter(([, value]) => value !== null)
    .map(([column, value]) => readOf(table, column, value));

/** Reads a value as an insert does: unlike a cast, this does not shorten a text. */
export const readOf = (table: Table, column: string, value: unknown): Read => ({
  column,
  statement: {
    text: `select from pg_catalog.json_populate_record(null::${quoteName(table)}, $1::json)`,
    values: [JSON.stringify({ [column]: value })],
  },
});

/**
 * Every value that Postgres cannot read, after one of them has caused the error. Empty if no read raises this error: another
 * expression, such as that of a default, has caused it.
 */
export async function unreadableOf(
  error: DatabaseErrorLike,
  reads: readonly Read[],
  identity: Identity,
  { transactions }: { readonly transactions: Pick<Transactions, "run"> },
): Promise<readonly Unreadable[]> {
  const found: (Unreadable & { readonly error: DatabaseErrorLike })[] = [];
  let rest = reads.slice(0, MAX_READ);
  while (rest.length > 0 && found.length < MAX_NAMED) {
    const failed = await firstFailure(rest, identity, transactions);
    if (failed === null) break;
    const { index, raised } = failed;
    if (!isOfValue(raised)) return [];
    found.push({ column: rest[index]!.column, message: raised.message, error: raised });
    rest = rest.slice(index + 1);
  }
  const isCause = found.some(({ error: { code, message } }) => code === error.code && message === error.message);
  return isCause ? found.map(({ column, message }) => ({ column, message })) : [];
}

async function firstFailure(reads: readonly Read[], identity: Identity, transactions: Pick<Transactions, "run">) {
  let index = 0;
  const onCompleted = (completed: number) => {
    index = completed + 1;
  };
  const statements = reads.map(({ statement }) => statement);
  try {
    await transactions.run(identity, statements, { rollback: true, onCompleted });
    return null;
  } catch (raised) {
    return { index, raised: raised as DatabaseErrorLike };
  }
}

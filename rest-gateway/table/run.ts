import type { CancelSignal, Transactions } from "../../db/transaction.ts";
import { isReadOnly } from "./plan.ts";
import type { TableTransaction } from "./prepare.ts";
import type { Prepared, QueryResult } from "./query.ts";

export type RunOptions = {
  readonly signal: CancelSignal;
  readonly onConnected: () => void;
};

/** Runs a request as one transaction in one round trip. */
export async function run(
  transactions: Transactions,
  { plan, query, isRolledBack }: Prepared,
  { identity, statements, isolation }: TableTransaction,
  { signal, onConnected }: RunOptions,
): Promise<QueryResult> {
  const takesAll = !isReadOnly(plan);
  const options = { isolation, rollback: isRolledBack, takesAll, signal, onConnected };
  const results = await transactions.run(identity, statements, options);
  if (query.estimate === null) return { main: results.at(-1)!, estimate: null };
  return { main: results.at(-2)!, estimate: results.at(-1)! };
}

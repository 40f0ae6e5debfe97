import type { Change, ChangedTable } from "./change.ts";

/** What has replaced a description: the same columns, some with other names. */
const successors = new WeakMap<ChangedTable, ChangedTable>();

/** Notes a later description of a table, if it has the same columns. */
export function noteNames(before: ChangedTable, now: ChangedTable): void {
  const isSame = before.columns.length === now.columns.length && before.columns.every(isAt(now));
  if (isSame && before !== now) successors.set(before, now);
}

const isAt =
  ({ columns }: ChangedTable) =>
  ({ number }: ChangedTable["columns"][number], i: number) =>
    number !== undefined && number === columns[i]!.number;

/** The change with the present names of its columns. Subscribers may get it when a column has been renamed since. */
export function withPresentNames(change: Change): Change {
  let { table } = change;
  for (let next = successors.get(table); next !== undefined; next = successors.get(table)) table = next;
  return table === change.table ? change : { ...change, table };
}

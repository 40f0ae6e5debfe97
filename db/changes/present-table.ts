import { forPairs } from "../../cache/cache.ts";
import type { Catalog, Table } from "../catalog/catalog.ts";
import type { ChangedTable } from "./change.ts";

/**
 * The table of a change with the names in the catalog, which has the table with the same OID. Columns are found by their numbers: they may
 * have been renamed since the change was made, or since the catalog was read. Those that the catalog does not have get no name. The same
 * object for the same two.
 */
export const presentTable = forPairs((changed: ChangedTable, { schema, name, columns }: Table): ChangedTable => {
  const names = new Map([...columns.values()].map((column) => [column.number, column.name]));
  const nameOf = (number: number | undefined) => (number === undefined ? undefined : names.get(number)) ?? "";
  return { ...changed, schema, name, columns: changed.columns.map((each) => ({ ...each, name: nameOf(each.number) })) };
});

/**
 * The names among `numbers` that the table does not have, with the indexes of their columns in the change. These columns have been renamed
 * since, or had other names for a moment.
 */
export function formerNames(
  numbers: ReadonlyMap<string, number>,
  { columns }: Table,
  changed: ChangedTable,
): readonly (readonly [name: string, index: number])[] {
  return [...numbers].flatMap(([name, number]) => {
    const index = columns.has(name) ? -1 : changed.columns.findIndex((column) => column.number === number);
    return index < 0 ? [] : [[name, index] as const];
  });
}

/**
 * Whether the catalog has the table with its columns, or does not serve it. It may be behind DDL that was not announced. A table that was
 * dropped before its columns were read has none with a number.
 */
export function isKnown({ schemas }: Catalog, changed: ChangedTable): boolean {
  for (const { tables } of schemas.values())
    for (const { oid, columns } of tables.values()) {
      if (oid !== changed.oid) continue;
      const numbers = new Set([...columns.values()].map(({ number }) => number));
      const known = changed.columns.filter(({ number }) => number !== undefined);
      return known.length > 0 && known.every(({ number }) => numbers.has(number!));
    }
  return !schemas.has(changed.schema);
}

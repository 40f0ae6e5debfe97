import { quoteName, type Table } from "../catalog/catalog.ts";
import type { ChangedTable, Image } from "../changes/change.ts";
import { columnIndexesOf } from "../changes/json.ts";
import { quoteIdentifier } from "../sql.ts";
import { writeArray } from "../wire/array-text.ts";

/** A row of a change, with the columns that the stream describes. */
export type Row = { readonly table: ChangedTable; readonly image: Image };

/** The number of a row, from 1. No column of a table has this name. */
export const NUMBER = '"§ number"';

/**
 * `with` and `from` of a query over row images, under the name of their table, so that the expressions of policies apply to
 * them. Its first parameter is `rowsText`. They need no privilege on the table.
 */
export function rowSource(table: Table): { readonly queries: string; readonly from: string } {
  const type = quoteName(table);
  const name = quoteIdentifier(table.name);
  return {
    queries: `"§ rows" as materialized (
  select value::${type} as "§ row", number as ${NUMBER}
  from pg_catalog.unnest($1::pg_catalog.text[]) with ordinality as given (value, number)
)`,
    // A function, so that the whole row has the type of the table.
    from: `"§ rows" cross join lateral pg_catalog.unnest(array["§ row"]) as ${name}`,
  };
}

/** Row images as an array of composite values. Columns that the stream does not have are null. */
export function rowsText(rows: readonly Row[], { columns }: Table): string {
  const positions = new Map<ChangedTable, readonly number[]>();
  const composites = rows.map(({ table, image }) => {
    const known = positions.get(table) ?? [...columns.keys()].map((name) => positionOf(table, name));
    positions.set(table, known);
    return `(${known.map((at) => fieldOf(image[at])).join()})`;
  });
  return writeArray(composites);
}

const positionOf = ({ columns }: ChangedTable, name: string) => columns.findIndex((column) => column.name === name);

const fieldOf = (value: Image[number]) => (value == null ? "" : `"${value.replace(/["\\]/g, "$&$&")}"`);

/** Whether the row has all these columns. */
export const hasColumns = ({ table, image }: Row, names: ReadonlySet<string>): boolean => {
  const indexes = columnIndexesOf(table, names);
  return indexes.length === names.size && indexes.every((i) => image[i] !== undefined);
};

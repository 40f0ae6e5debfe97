import type { DatabaseFunction, Table } from "../../db/catalog/catalog.ts";
import { componentKeys } from "./component-keys.ts";
import type { Reference } from "./document.ts";
import type { Offer } from "./visible-schema.ts";

/** The offer, and what its tables, columns and functions are called where only plain keys may stand. */
export type NamedOffer = Offer & {
  tableKey(table: Pick<Table, "name">): string;
  columnKey(table: Table, column: string): string;
  functionKey(fn: Pick<DatabaseFunction, "name">): string;
};

/** Components that describe no table: none takes their names. */
export const ERROR = "Error";
export const FILTER = "Filter";

export const INSERT = "_insert";
export const UPDATE = "_update";

export function withNames(offer: Offer): NamedOffer {
  const tables = componentKeys(offer.tables.keys(), ["", INSERT, UPDATE], [ERROR, FILTER]);
  const functions = componentKeys(offer.functions.keys());
  const columns = new Map(
    [...offer.tables.values()].map(({ table }) => [table.name, componentKeys(table.columns.keys())] as const),
  );
  return {
    ...offer,
    tableKey: ({ name }) => tables.get(name)!,
    columnKey: (table, column) => columns.get(table.name)!.get(column)!,
    functionKey: ({ name }) => functions.get(name)!,
  };
}

export const refer = (kind: "schemas" | "parameters" | "headers" | "responses", key: string): Reference => ({
  $ref: `#/components/${kind}/${key}`,
});

import type { Catalog, TablePrivilege } from "../../db/catalog/catalog.ts";
import { mayExecute, mayUseColumn } from "../../db/catalog/grants.ts";
import { similarTo } from "../../db/catalog/similar.ts";
import type { RowSource } from "../../db/query/plan.ts";

/** The caller who reads a hint. It suggests only what their role may use. */
export type Reader = { readonly catalog: Catalog; readonly role: string };

/** The hint for a name that does not exist; null if the caller may use nothing with a similar name. */
export type HintFor = (reader: Reader) => string | null;

/** A column or computed field of the rows for which the caller has the privilege. */
export function similarColumn(
  name: string,
  { table, columns }: RowSource,
  { catalog, role }: Reader,
  privilege: TablePrivilege = "select",
): string | null {
  if (table === null) return columns && similarTo(name, columns.keys());
  const usable = [...table.columns.values()].filter((each) => mayUseColumn(catalog, role, table, each, privilege));
  const isUsable = (field: string) =>
    catalog.schemas
      .get(table.schema)
      ?.functions.get(field)
      ?.some((each) => mayExecute(catalog, role, each));
  const computed = privilege === "select" ? [...table.computedFields.keys()].filter(isUsable) : [];
  return similarTo(name, [...usable.map((column) => column.name), ...computed]);
}

import type { Catalog } from "../../../db/catalog/catalog.ts";
import { noSuchColumn, noSuchType } from "../problem.ts";
import type { Field } from "../request.ts";
import type { FieldPlan, RowSource } from "./plan.ts";
import { similarTo } from "./similar.ts";

/** A column, or a function of a row under its name. `name` is what errors call the rows. */
export function planField({ table, columns }: RowSource, name: string, { name: field, path }: Field): FieldPlan {
  const column = columns?.get(field);
  if (column) return { origin: { kind: "column", column }, path };
  const computed = table?.computedFields.get(field);
  if (computed) return { origin: { kind: "computed", computed }, path };
  const similar = columns && similarTo(field, columns.keys());
  throw noSuchColumn(name, field, similar ? `Perhaps you meant the column '${similar}'.` : null);
}

export const hasField = ({ table, columns }: RowSource, name: string): boolean =>
  (columns?.has(name) || table?.computedFields.has(name)) ?? false;

/** `int[]` → `integer[]`, as SQL text. */
export function castOf({ types }: Catalog, name: string): string {
  const trimmed = name.trim();
  let end = trimmed.length;
  while (trimmed.endsWith("[]", end)) end -= "[]".length;
  const element = trimmed.slice(0, end);
  const type = types.get(element) ?? types.get(element.toLowerCase());
  if (type === undefined) throw noSuchType(name);
  return type + trimmed.slice(end);
}

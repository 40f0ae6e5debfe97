import type { Catalog } from "../../../db/catalog/catalog.ts";
import { type Condition, type Filter, mapFilters } from "../../../db/filters/condition.ts";
import type { Field } from "../../../db/filters/field.ts";
import type { ConditionPlan, EmbedPlan, FieldPlan, RowSource } from "../../../db/query/plan.ts";
import { systemColumn } from "../../../db/query/plan.ts";
import { embedFilterNeedsNull, noSuchColumn, noSuchType } from "../problem.ts";
import { similarColumn } from "../suggestion.ts";

/** A column or a computed field. `name` names the rows in error messages. */
export function planField(source: RowSource, name: string, { name: field, path }: Field): FieldPlan {
  const { table, columns } = source;
  const column = columns?.get(field);
  if (column) return { origin: { kind: "column", column }, path };
  const computed = table?.computedFields.get(field);
  if (computed) return { origin: { kind: "computed", computed }, path };
  const system = table && systemColumn(table, field);
  if (system) return { origin: { kind: "column", column: system }, path };
  throw unknownColumn(source, name, field);
}

/** The hint names a column that the caller may read. */
export const unknownColumn = (source: RowSource, name: string, column: string) =>
  noSuchColumn(name, column, (reader) => {
    const similar = similarColumn(column, source, reader);
    return similar && `Perhaps you meant the column '${similar}'.`;
  });

export const hasField = ({ table, columns }: RowSource, name: string): boolean =>
  (columns?.has(name) || table?.computedFields.has(name)) ?? false;

/** `int[]` → `integer[]`, `_int4` → `integer[]`, as SQL text. */
export function castOf({ types }: Catalog, name: string): string {
  const trimmed = name.trim();
  let end = trimmed.length;
  while (trimmed.endsWith("[]", end)) end -= "[]".length;
  const element = trimmed.slice(0, end);
  const find = (wanted: string) => types.get(wanted) ?? types.get(wanted.toLowerCase());
  // Postgres names the array of a type with an underscore.
  const type = find(element) ?? (element.startsWith("_") ? `${find(element.slice(1)) ?? ""}[]` : "[]");
  if (type === "[]") throw noSuchType(name);
  return type + trimmed.slice(end);
}

/** The names that conditions may refer to: the columns of the rows, and their embedded relations. */
type Scope = {
  readonly catalog: Catalog;
  readonly source: RowSource;
  /** The name of the rows in error messages. */
  readonly name: string;
  readonly embeds: readonly EmbedPlan[];
};

export const planConditions = (conditions: readonly Condition<Field>[], scope: Scope): ConditionPlan[] =>
  conditions.map((condition) => mapFilters(condition, (filter) => planFilter(filter, scope)));

function planFilter(filter: Filter<Field>, scope: Scope): ConditionPlan {
  const { name, path } = filter.field;
  // A column takes precedence over an embedded relation with its name.
  const mayBeEmbed = path.length === 0 && !scope.source.columns?.has(name);
  const embed = mayBeEmbed && scope.embeds.find((each) => each.name === name);
  if (embed) return planExistence(filter, embed);
  return { ...filter, field: planField(scope.source, scope.name, filter.field) };
}

/** `author=is.null` matches rows without an author, `author=not.is.null` rows with one. */
function planExistence({ operator, keyword, isNegated }: Filter<Field>, embed: EmbedPlan): ConditionPlan {
  if (operator !== "is" || (keyword !== "null" && keyword !== "not_null")) throw embedFilterNeedsNull(embed.name);
  return { kind: "exists", embed, isNegated: (keyword === "null") !== isNegated };
}

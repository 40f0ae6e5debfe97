import type { IsKeyword, Operator } from "./operators.ts";

/**
 * What is required of a row. Every stage of a request has this tree, each with its own fields and values: the name of a column and the
 * index of a value where a request is parsed; the column of the catalog in a plan; what is read from a row or from a list of terms
 * where changes are filtered. `Other` conditions have no operator.
 */
export type Condition<Field, Value = number, Other extends OtherCondition = never> =
  | Filter<Field, Value>
  | Logic<Field, Value, Other>
  | Other;

export type OtherCondition = { readonly kind: string; readonly isNegated: boolean };

/** `or=(a.eq.1,not.b.is.null)` */
export type Logic<Field, Value = number, Other extends OtherCondition = never> = {
  readonly kind: "logic";
  readonly operator: "and" | "or";
  readonly isNegated: boolean;
  readonly conditions: readonly Condition<Field, Value, Other>[];
};

/** `title=not.ilike(any).{*sql*,*json*}` */
export type Filter<Field, Value = number> = {
  readonly kind: "filter";
  readonly field: Field;
  readonly isNegated: boolean;
  readonly operator: Operator;
  readonly quantifier: "any" | "all" | null;
  /** Text search configuration: `fts(english)`. */
  readonly language: string | null;
  /** The value of `is`; null for other operators. */
  readonly keyword: IsKeyword | null;
  /**
   * In a request, its index. The values of `in` and of quantified operators are Postgres array literals, `{"a","b"}`; the wildcards
   * of like and ilike are already `%`. `is` has a value too, but its keyword counts, as part of the shape.
   */
  readonly value: Value;
};

/** `filterOf("id", "eq", 0)` */
export const filterOf = <Field, Value>(field: Field, operator: Operator, value: Value): Filter<Field, Value> => ({
  kind: "filter",
  field,
  isNegated: false,
  operator,
  quantifier: null,
  language: null,
  keyword: null,
  value,
});

export const negated = <Negatable extends { readonly isNegated: boolean }>(condition: Negatable): Negatable => ({
  ...condition,
  isNegated: !condition.isNegated,
});

/** All conditions must hold; null for none. */
export const allOf = <Field, Value, Other extends OtherCondition>(
  conditions: readonly Condition<Field, Value, Other>[],
): Condition<Field, Value, Other> | null =>
  conditions.length > 1 ? { kind: "logic", operator: "and", isNegated: false, conditions } : (conditions[0] ?? null);

/** Replaces the conditions that are not and or or. */
export function mapFilters<Field, Value, Other extends OtherCondition, Field2, Value2, Other2 extends OtherCondition>(
  condition: Condition<Field, Value, Other>,
  replace: (filter: Filter<Field, Value> | Other) => Condition<Field2, Value2, Other2>,
): Condition<Field2, Value2, Other2> {
  if (condition.kind !== "logic") return replace(condition as Filter<Field, Value> | Other);
  const { conditions, ...logic } = condition as Logic<Field, Value, Other>;
  return { ...logic, conditions: conditions.map((each) => mapFilters(each, replace)) };
}

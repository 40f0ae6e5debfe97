import { sql } from "../../sql.ts";
import type { ConditionPlan, Expression } from "../../table/plan.ts";
import type { Condition, Key, Parent, Preconditions } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { isOneOf, isUnmodifiedSince, matchesSearch, sameText } from "../write/expressions.ts";
import { fieldPlan } from "./rows.ts";

type Operator = Extract<ConditionPlan, { kind: "compare" }>["operator"];

/** The filters of a resource as operators of the tables. */
const OPERATORS = { is: "eq", from: "gte", before: "lt", has: "cs" } as const;

export const planFilter = ({ filter: { field, operator }, value }: Condition): ConditionPlan =>
  operator === "alike" ? holds(sameText(field, value)) : compare(field, OPERATORS[operator], value);

export const planSearch = (resource: Resource, keyword: number): ConditionPlan =>
  holds(matchesSearch(resource, keyword));

/** The record that the path names, in the collection that it names. */
export const planKey = (resource: Resource, { id, parent }: Key): readonly ConditionPlan[] => [
  compare(resource.key, "eq", id),
  ...(parent ? [planParent(resource, parent)] : []),
];

/** `t."article_id" = $2`: the records of a parent. */
export const planParent = (resource: Resource, { collection, id }: Parent): ConditionPlan =>
  compare(resource.fieldNamed.get(collection.field)!, "eq", id);

/** What must hold for the row when it is written. */
export function planPreconditions(resource: Resource, preconditions: Preconditions): readonly ConditionPlan[] {
  const { isOneOf: some, isNoneOf: none, unmodifiedSince: date, isImpossible } = preconditions;
  return [
    ...(some === null ? [] : [holds(isOneOf(resource, some, false))]),
    ...(none === null ? [] : [holds(isOneOf(resource, none, true))]),
    ...(date === null ? [] : [holds(isUnmodifiedSince(resource, date))]),
    ...(isImpossible ? [holds(() => sql`false`)] : []),
  ];
}

const holds = (expression: Expression): ConditionPlan => ({ kind: "expression", holds: expression });

const compare = (field: ResourceField, operator: Operator, value: number): ConditionPlan => ({
  kind: "compare",
  field: fieldPlan(field),
  isNegated: false,
  operator,
  quantifier: null,
  language: null,
  value,
});

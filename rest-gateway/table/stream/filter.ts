import type { Operator } from "../../../db/rights/condition.ts";
import { FilterError, type FilterRequest } from "../../../db/rights/filter.ts";
import { elementsOf } from "../../../db/wire/array-text.ts";
import type { Operator as TableOperator } from "../operators.ts";
import type { Condition, Filter, IsKeyword } from "../request.ts";

/** The operators that changes can be filtered with. */
export const OPERATORS: Partial<Record<TableOperator, Operator>> = {
  eq: "=",
  neq: "<>",
  lt: "<",
  lte: "<=",
  gt: ">",
  gte: ">=",
  like: "like",
  ilike: "ilike",
  match: "match",
  imatch: "imatch",
  isdistinct: "is distinct from",
};

/** Conditions of the table interface, which must all hold, as a filter on changes; null for none. Throws FilterError. */
export function filterRequestOf(conditions: readonly Condition[], values: readonly string[]): FilterRequest | null {
  const requests = conditions.map((condition) => requestOf(condition, values));
  return requests.length > 1 ? { kind: "and", conditions: requests } : (requests[0] ?? null);
}

function requestOf(condition: Condition, values: readonly string[]): FilterRequest {
  if (condition.kind === "filter") return negated(condition.isNegated, filterOf(condition, values));
  const { operator: kind, isNegated, conditions } = condition;
  return negated(isNegated, { kind, conditions: conditions.map((each) => requestOf(each, values)) });
}

export const negated = (isNegated: boolean, condition: FilterRequest): FilterRequest =>
  isNegated ? { kind: "not", condition } : condition;

function filterOf(filter: Filter, values: readonly string[]): FilterRequest {
  const { field, operator, quantifier, keyword, value } = filter;
  const { name: column, path } = field;
  const text = values[value]!;
  if (path.length > 0) throw new FilterError(`${column}: changes cannot be filtered by parts of JSON`);
  if (operator === "is") return isRequest(column, keyword!);
  if (operator === "in") return { kind: "in", column, values: elementsOf(text) as string[] };
  const known = OPERATORS[operator];
  if (known === undefined || quantifier !== null)
    throw new FilterError(
      `${column}: changes cannot be filtered with ${operator}${quantifier === null ? "" : `(${quantifier})`}: use ${NAMES}`,
    );
  const isNull = operator === "isdistinct" && text.toLowerCase() === "null";
  return { kind: "compare", column, operator: known, value: isNull ? null : text };
}

const NAMES = `${Object.keys(OPERATORS).join(", ")}, in or is`;

/** `is.not_null` */
export function isRequest(column: string, keyword: IsKeyword): FilterRequest {
  const isNull: FilterRequest = { kind: "is", column, test: "null" };
  if (keyword === "null" || keyword === "unknown") return isNull;
  return keyword === "not_null" ? { kind: "not", condition: isNull } : { kind: "is", column, test: keyword };
}

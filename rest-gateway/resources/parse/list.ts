import { camelCase } from "../../../config/setting-types.ts";
import { filterOf } from "../../../db/filters/condition.ts";
import { writeArray } from "../../../db/wire/array-text.ts";
import { pagingParameters, parsePaging } from "../../conventions/paging.ts";
import type { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import { type ListCondition, nameIn, type OperationOf, type OrderTerm, type Style, type Values } from "../request.ts";
import type { Filter, Resource } from "../resource.ts";
import { faultOfText } from "./values.ts";

/** Characters, as in internal.check_keyword. */
const MAX_KEYWORD = 10_000;

/**
 * Parses the query string of a collection. `wrapsSkip`: the client prefers an envelope for pages of version 1
 * (`Prefer: dialect=envelope`). Throws Problem.
 */
export function parseList(
  parameters: Parameters,
  resource: Resource,
  style: Style,
  wrapsSkip: boolean,
  values: Values,
): Omit<OperationOf<"list">, "parent"> {
  const { description } = resource;
  const hasVariants = style.version === 1;
  const search = description.search === null ? [] : ["keyword"];
  const names = ["fields", "sort", "order", ...search, ...pagingParameters(hasVariants)];
  const filters = Object.keys(description.filters).map((name) => (style.isCamel ? camelCase(name) : name));
  parameters.allowOnly([...names, ...filters], (name) => resource.filterNamed.has(name));
  const paging = parsePaging(parameters, {
    usual: hasVariants ? description.list : "envelope",
    pageSize: description.pageSize,
    hasVariants,
    wrapsSkip: hasVariants && wrapsSkip,
  });
  const keyword = parameters.get("keyword");
  if (keyword !== null && [...keyword].length > MAX_KEYWORD)
    throw badParameter("keyword", `keyword may have at most ${MAX_KEYWORD} characters`);
  return {
    kind: "list",
    conditions: parseConditions(parameters, resource, values),
    keyword: keyword === null || keyword === "" ? null : values.add(keyword),
    order: parseOrder(parameters, resource, style),
    paging,
  };
}

/** The filters of a list: `?status=DRAFT&author=7`. Throws Problem for values that the column can't have. */
function parseConditions(parameters: Parameters, resource: Resource, values: Values): readonly ListCondition[] {
  const filters = new Map<Filter, string>();
  for (const [name, filter] of resource.filterNamed) {
    const text = parameters.get(name);
    if (text === null) continue;
    if (filters.has(filter)) throw badParameter(name, `${name} must not be given twice`);
    const fault = faultOfText(text, filter.field.column.shape);
    if (fault !== null) throw badParameter(name, `${name} ${fault}`);
    filters.set(filter, text);
  }
  return [...filters].map(([filter, text]) => conditionOf(filter, values.add(operandOf(filter, text))));
}

/** A list has an element when it contains the list of that element. */
const operandOf = ({ operator }: Filter, text: string) => (operator === "has" ? writeArray([text]) : text);

/** The filters of a resource as operators of the tables. */
const OPERATORS = { is: "eq", from: "gte", before: "lt", has: "cs" } as const;

const conditionOf = ({ field, operator }: Filter, value: number): ListCondition =>
  operator === "alike"
    ? { kind: "same text", isNegated: false, field, value }
    : filterOf(field, OPERATORS[operator], value);

type Direction = OrderTerm["direction"];

/**
 * `sort=title&order=desc`, or `sort=status:asc,title:desc`. The key comes last, so that pages do not overlap. Throws
 * Problem for a field that lists cannot be sorted by.
 */
function parseOrder(parameters: Parameters, resource: Resource, style: Style): readonly OrderTerm[] {
  const order = readDirection("order", parameters.get("order"));
  const sort = parameters.get("sort");
  if (sort === null) {
    const isReversed = order !== null && order !== (resource.order[0]?.direction ?? "asc");
    return withKey(isReversed ? resource.order.map(reversed) : resource.order, resource, order ?? "asc");
  }
  const terms = sort.split(",").map((item) => readTerm(item.trim(), order ?? "asc", resource, style));
  if (new Set(terms.map(({ field }) => field)).size < terms.length) {
    throw badParameter("sort", "sort must not name a field twice");
  }
  return withKey(terms, resource, "asc");
}

function readTerm(item: string, usual: Direction, resource: Resource, style: Style): OrderTerm {
  const [name = "", direction, ...more] = item.split(":");
  const field = resource.fieldNamed.get(name);
  if (!field || !resource.sorts.has(field) || more.length > 0) {
    const names = [...resource.sorts].map((each) => nameIn(each, style)).join(", ");
    throw badParameter(
      "sort",
      `cannot sort ${resource.description.name} by "${item}": use ${names}, each optionally with :asc or :desc`,
    );
  }
  return { field, direction: readDirection("sort", direction ?? null) ?? usual };
}

function readDirection(parameter: string, text: string | null): Direction | null {
  if (text === null || text === "asc" || text === "desc") return text;
  throw badParameter(parameter, `the direction in ${parameter} must be asc or desc, not "${text}"`);
}

const reversed = ({ field, direction }: OrderTerm): OrderTerm => ({
  field,
  direction: direction === "asc" ? "desc" : "asc",
});

/** The key has the direction of the first term; `usual` if there is none. */
function withKey(terms: readonly OrderTerm[], { key }: Resource, usual: Direction): readonly OrderTerm[] {
  if (terms.some(({ field }) => field === key)) return terms;
  return [...terms, { field: key, direction: terms[0]?.direction ?? usual }];
}

import type { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import { nameIn, type OrderTerm, type Style } from "../request.ts";
import type { Resource } from "../resource.ts";

type Direction = OrderTerm["direction"];

/**
 * `sort=title&order=desc`, or `sort=status:asc,title:desc`; the key comes last, so that pages don't overlap. Throws
 * RestError for what is no field to sort by.
 */
export function parseOrder(parameters: Parameters, resource: Resource, style: Style): readonly OrderTerm[] {
  const order = readDirection("order", parameters.get("order"));
  const sort = parameters.get("sort");
  if (sort === null) {
    const isTurned = order !== null && order !== (resource.order[0]?.direction ?? "asc");
    return withKey(isTurned ? resource.order.map(turned) : resource.order, resource, order ?? "asc");
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
      `"${item}" is nothing to sort ${resource.description.name} by: use ${names}, each with :asc or :desc`,
    );
  }
  return { field, direction: readDirection("sort", direction ?? null) ?? usual };
}

function readDirection(parameter: string, text: string | null): Direction | null {
  if (text === null || text === "asc" || text === "desc") return text;
  throw badParameter(parameter, `${parameter} has the directions asc and desc, and not "${text}"`);
}

const turned = ({ field, direction }: OrderTerm): OrderTerm => ({
  field,
  direction: direction === "asc" ? "desc" : "asc",
});

/** The key goes the way of the first term; `usual` where there is none. */
function withKey(terms: readonly OrderTerm[], { key }: Resource, usual: Direction): readonly OrderTerm[] {
  if (terms.some(({ field }) => field === key)) return terms;
  return [...terms, { field: key, direction: terms[0]?.direction ?? usual }];
}

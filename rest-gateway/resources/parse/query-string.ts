import type { TypeShape } from "../../../db/catalog/catalog.ts";
import { pagingParameters, parsePaging } from "../../conventions/paging.ts";
import { isUuid, type Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import { writeArray } from "../../table/write/statement.ts";
import {
  type Condition,
  LINKS,
  nameIn,
  type OperationOf,
  type OrderTerm,
  type Selection,
  type Style,
  type Values,
} from "../request.ts";
import { camelCase, type Filter, type Relation, type Resource } from "../resource.ts";
import { fits } from "./address.ts";

/**
 * The query string of a collection. `wrapsSkip` is what the client prefers for pages of version 1. Throws RestError.
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
  const names = ["fields", "sort", "order", "keyword", ...pagingParameters(hasVariants)];
  const filters = Object.keys(description.filters).map((name) => (style.isCamel ? camelCase(name) : name));
  parameters.allowOnly([...names, ...filters], (name) => resource.filterNamed.has(name));
  const paging = parsePaging(parameters, {
    usual: hasVariants ? description.list : "envelope",
    pageSize: description.pageSize,
    hasVariants,
    wrapsSkip: hasVariants && wrapsSkip,
  });
  const keyword = parameters.get("keyword");
  return {
    kind: "list",
    conditions: parseConditions(parameters, resource, values),
    keyword: keyword === null || keyword === "" ? null : values.add(keyword),
    order: parseOrder(parameters, resource, style),
    paging,
  };
}

/** The filters of a list: `?status=DRAFT&author=7`. Throws RestError for values that the column can't have. */
function parseConditions(parameters: Parameters, resource: Resource, values: Values): readonly Condition[] {
  const filters = new Map<Filter, string>();
  for (const [name, filter] of resource.filterNamed) {
    const text = parameters.get(name);
    if (text === null) continue;
    if (filters.has(filter)) throw badParameter(name, `${name} must not be given twice`);
    refuseInvalid(name, text, filter);
    filters.set(filter, text);
  }
  return [...filters].map(([filter, text]) => ({ filter, value: values.add(operandOf(filter, text)) }));
}

/** A list has an element when it contains the list of that element. */
const operandOf = ({ operator }: Filter, text: string) => (operator === "has" ? writeArray([text]) : text);

/** Checked here because Postgres would not name the parameter. */
function refuseInvalid(name: string, text: string, { field }: Filter): void {
  const { shape } = field.column;
  if (shape.category === "enum" && !shape.labels.includes(text)) {
    throw badParameter(name, `${name} must be one of ${shape.labels.join(", ")}`);
  }
  const rule = RULES.get(shape.name);
  if (rule && !rule.holds(text, shape)) throw badParameter(name, `${name} must be ${rule.what}`);
}

type Rule = { readonly what: string; holds(text: string, shape: TypeShape): boolean };

const WHOLE: Rule = {
  what: "a whole number",
  holds: (text, shape) => /^-?[0-9]+$/.test(text) && fits(text, shape),
};
const NUMBER: Rule = { what: "a number", holds: (text) => /^-?[0-9]+(?:\.[0-9]+)?$/.test(text) };
// The "+" of a time zone is a space if it was not percent-encoded.
const TIME: Rule = {
  what: "a time such as 2026-11-20T08:30:00Z",
  holds: (text) =>
    /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i.test(text) &&
    !Number.isNaN(Date.parse(text)) &&
    isDay(text.slice(0, 10)),
};

/** The rules for texts of a type. Texts of other types are checked by Postgres. */
const RULES: ReadonlyMap<string, Rule> = new Map([
  ...["int2", "int4", "int8"].map((type) => [type, WHOLE] as const),
  ...["float4", "float8", "numeric"].map((type) => [type, NUMBER] as const),
  ...["timestamptz", "timestamp", "date"].map((type) => [type, TIME] as const),
  ["uuid", { what: "a UUID", holds: isUuid }],
  ["bool", { what: "true or false", holds: (text) => text === "true" || text === "false" }],
]);

/** Date.parse accepts `2026-02-30`; Postgres has no year 0. */
const isDay = (text: string) => !text.startsWith("0000") && new Date(text).toJSON()?.startsWith(text) === true;

type Direction = OrderTerm["direction"];

/**
 * `sort=title&order=desc`, or `sort=status:asc,title:desc`. The key comes last, so that pages do not overlap. Throws
 * RestError for a field that lists cannot be sorted by.
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
      `cannot sort ${resource.description.name} by "${item}": use ${names}, each with :asc or :desc`,
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

/** Maximum relations in a name: `article.author.name` has two. */
const MAX_DEPTH = 3;

/** Every field, and the links if the version has them. */
export const wholeRecord = (resource: Resource, hasLinks: boolean): Selection => ({
  fields: resource.fields,
  relations: [],
  hasLinks,
});

/** `fields=title,author.name`. Throws RestError for an unknown field. */
export function parseSelection(text: string, resource: Resource, style: Style): Selection {
  const paths = text.split(",").map((name) => name.trim().split("."));
  if (paths.some((path) => path.length > MAX_DEPTH + 1)) {
    throw badParameter("fields", `fields must go through at most ${MAX_DEPTH} relations`);
  }
  return select(paths, resource, style);
}

function select(paths: readonly (readonly string[])[], resource: Resource, style: Style): Selection {
  const names = new Set(paths.map(([name]) => name!));
  for (const name of names) refuseUnknown(name, resource, style);
  const isNamed = ({ name, camelName }: Relation) => names.has(name) || names.has(camelName);
  const nested = ({ name, camelName }: Relation) =>
    paths.filter(([first]) => first === name || first === camelName).map((path) => path.slice(1));
  for (const [name = "", ...more] of paths) {
    if (more.length > 0 && !isRelation(name, resource)) throw badParameter("fields", `${name} has no fields`);
  }
  return {
    fields: resource.fields.filter((field) => names.has(field.name) || names.has(field.camelName)),
    relations: [...resource.relations.values()]
      .filter(isNamed)
      .map((relation) => ({ relation, selection: selectNested(nested(relation), relation.resource(), style) })),
    hasLinks: names.has(LINKS),
  };
}

/** `author` alone selects all of its fields. */
function selectNested(paths: readonly (readonly string[])[], resource: Resource, style: Style): Selection {
  return paths.some((path) => path.length === 0) ? wholeRecord(resource, false) : select(paths, resource, style);
}

const isRelation = (text: string, { relations }: Resource) =>
  relations.has(text) || [...relations.values()].some(({ camelName }) => camelName === text);

function refuseUnknown(name: string, resource: Resource, style: Style): void {
  const { description, fields, fieldNamed, relations } = resource;
  if (fieldNamed.has(name) || isRelation(name, resource) || name === LINKS) return;
  const known = [...fields, ...relations.values()].map((named) => nameIn(named, style));
  throw badParameter("fields", `"${name}" is not a field of ${description.name}: use ${[...known, LINKS].join(", ")}`);
}

import type { TypeShape } from "../../../db/catalog/catalog.ts";
import { isUuid, type Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import type { Condition } from "../request.ts";
import type { Filter, Resource } from "../resource.ts";
import { fits } from "./id.ts";
import type { Values } from "./values.ts";

/** The filters of a list: `?status=DRAFT&author=7`. Throws RestError for values that can't be. */
export function parseConditions(parameters: Parameters, resource: Resource, values: Values): readonly Condition[] {
  const filters = new Map<Filter, string>();
  for (const [name, filter] of resource.filterNamed) {
    const text = parameters.get(name);
    if (text === null) continue;
    if (filters.has(filter)) throw badParameter(name, `${name} must not be given twice`);
    refuseImpossible(name, text, filter);
    filters.set(filter, text);
  }
  return [...filters].map(([filter, text]) => ({ filter, value: values.add(text) }));
}

/** Here, since Postgres would not say which parameter it was. */
function refuseImpossible(name: string, text: string, { field }: Filter): void {
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
// A "+" of the zone that was not percent-encoded arrives as a blank.
const TIME: Rule = {
  what: "a time such as 2026-11-20T08:30:00Z",
  holds: (text) =>
    /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i.test(text) &&
    !Number.isNaN(Date.parse(text)) &&
    isDay(text.slice(0, 10)),
};

/** What texts of a type must be; the other types take any, or Postgres refuses it. */
const RULES: ReadonlyMap<string, Rule> = new Map([
  ...["int2", "int4", "int8"].map((type) => [type, WHOLE] as const),
  ...["float4", "float8", "numeric"].map((type) => [type, NUMBER] as const),
  ...["timestamptz", "timestamp", "date"].map((type) => [type, TIME] as const),
  ["uuid", { what: "a UUID", holds: isUuid }],
  ["bool", { what: "true or false", holds: (text) => text === "true" || text === "false" }],
]);

/** `2026-02-30` is none, although Date.parse takes it; Postgres has no year 0. */
const isDay = (text: string) => !text.startsWith("0000") && new Date(text).toJSON()?.startsWith(text) === true;

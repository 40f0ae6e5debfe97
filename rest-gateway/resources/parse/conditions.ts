import { badParameter } from "../problem.ts";
import type { Condition } from "../request.ts";
import type { Filter, Resource } from "../resource.ts";
import { fits } from "./id.ts";
import type { Parameters } from "./parameters.ts";
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

const WHOLE_NUMBER = /^-?[0-9]+$/;
const TIME = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i;

/** Here, since Postgres would not say which parameter it was. */
function refuseImpossible(name: string, text: string, { field }: Filter): void {
  const { shape } = field.column;
  if (shape.category === "enum" && !shape.labels.includes(text)) {
    throw badParameter(name, `${name} must be one of ${shape.labels.join(", ")}`);
  }
  if (/^int[248]$/.test(shape.name) && !(WHOLE_NUMBER.test(text) && fits(text, shape))) {
    throw badParameter(name, `${name} must be a whole number`);
  }
  // A "+" of the zone that was not percent-encoded arrives as a blank.
  if (/^(?:timestamp|date)/.test(shape.name) && !(TIME.test(text) && !Number.isNaN(Date.parse(text)))) {
    throw badParameter(name, `${name} must be a time such as 2026-11-20T08:30:00Z`);
  }
}

import type { Column, Table, TypeShape } from "../../../db/catalog/catalog.ts";
import { OPERATORS } from "../../table/operators.ts";
import { documentationOf } from "../comment.ts";
import type { JsonSchema, Parameter, Reference } from "../document.ts";
import { schemaOf, sqlNameOf } from "../json-schema.ts";
import { queryParameter, refer } from "../schema-parts.ts";
import { RESERVED } from "./parameters.ts";
import { FILTER, type NamedSchema, type TableAccess } from "./visible-schema.ts";

/** `operator.value`: `eq.1`, `not.like(any).{a*,b*}`. */
export const FILTER_SCHEMA: JsonSchema = {
  type: "string",
  pattern: `^(not\\.)?(${Object.keys(OPERATORS).join("|")})(\\([^)]*\\))?\\.`,
};

/** The columns by which rows can be filtered. */
export const filtersOf = ({ readable }: TableAccess) => readable.filter(({ name }) => !RESERVED.has(name));
const filterKey = (visible: NamedSchema, table: Table, { name }: Column) =>
  `rowFilter.${visible.tableKey(table)}.${visible.columnKey(table, name)}`;

/** `rowFilter.articles.title` and so on, for each readable column. */
export const filterParameters = (visible: NamedSchema, access: TableAccess): [string, Parameter][] =>
  filtersOf(access).map((column) => [filterKey(visible, access.table, column), filterParameter(column)]);

export const filterReferences = (visible: NamedSchema, access: TableAccess): Reference[] =>
  filtersOf(access).map((column) => refer("parameters", filterKey(visible, access.table, column)));

function filterParameter({ name, comment, shape }: Column): Parameter {
  const { summary } = documentationOf(comment);
  const form = `\`operator.value\` for ${sqlNameOf(shape)}, such as \`${sampleOf(shape)}\`.`;
  const description = summary === "" ? form : `${summary}\n\n${form}`;
  return queryParameter(name, description, refer("schemas", FILTER));
}

/** An example of a filter on the type: `eq.DRAFT`, `gte.2026-01-31`. */
function sampleOf(shape: TypeShape): string {
  const { type, format = "", enum: labels } = schemaOf(shape);
  if (labels !== undefined) return `eq.${labels[0]}`;
  return SAMPLES[format] ?? SAMPLES[typeof type === "string" ? type : "any"]!;
}

/** By JSON format, otherwise by JSON type. */
const SAMPLES: Readonly<Record<string, string>> = {
  boolean: "is.true",
  integer: "gte.1",
  number: "gte.1.5",
  string: "eq.text",
  array: "cs.{a,b}",
  object: "not.is.null",
  any: "not.is.null",
  date: "gte.2026-01-31",
  "date-time": "gte.2026-01-31T12:00:00Z",
  "date-time-local": "gte.2026-01-31T12:00:00",
  "time-local": "gte.12:00",
  uuid: "eq.8d7f1a2e-3c4b-4f5a-9b6c-7d8e9f0a1b2c",
};

/** Identifies the row that PUT replaces. */
export const keyParameter = (column: string): Parameter => ({
  ...queryParameter(column, "Identifies the row. The value must equal that in the body.", {
    type: "string",
    pattern: "^eq\\.",
  }),
  required: true,
});

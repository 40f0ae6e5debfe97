import type { Column, Table, TypeShape } from "../../../db/catalog/catalog.ts";
import { OPERATORS } from "../../../db/filters/operators.ts";
import { RESERVED_NAMES } from "../../table/request.ts";
import type { JsonSchema, Parameter, Reference } from "../document.ts";
import { schemaOf, sqlNameOf } from "../json-schema.ts";
import { documentationOf, headerParameter, queryParameter, refer } from "../schema-parts.ts";
import { FILTER, type NamedSchema, type TableAccess, type VisibleSchema } from "./visible-schema.ts";

const count: JsonSchema = { type: "integer", minimum: 0 };

/** The effect of each preference. */
const PREFERENCES = {
  "return=representation": "returns the rows",
  "return=headers-only": "returns the URL of the new row in `Location`",
  "return=minimal": "returns no body; this is the default",
  "resolution=merge-duplicates": "updates rows that already exist",
  "resolution=ignore-duplicates": "does not change rows that already exist",
  "missing=default": "sets missing columns to their defaults instead of null",
  "count=exact": "returns the total number of rows in `Content-Range`; `planned` and `estimated` are faster",
  "handling=strict": "rejects unknown preferences",
  "max-affected=10": "with `handling=strict`: if the request would change more rows, it fails and changes none",
} as const;

const prefer = (preferences: readonly (keyof typeof PREFERENCES)[]): Parameter => {
  const lines = preferences.map((preference) => `- \`${preference}\`: ${PREFERENCES[preference]}`);
  return headerParameter("Prefer", ["One or more, separated by commas:", ...lines].join("\n"));
};

/** The parameters that all tables share, by component key. */
export const PARAMETERS = {
  select: queryParameter(
    "select",
    "The columns and related rows to return: `id,title,author:users(name)`. The default is all columns.",
  ),
  order: queryParameter("order", "The order of the rows: `created_at.desc.nullslast,id`."),
  limit: queryParameter("limit", "The maximum number of rows to return.", count),
  offset: queryParameter("offset", "The number of rows to skip.", count),
  and: queryParameter("and", "Conditions that a row must all match: `(age.gte.18,or(name.eq.Ada,name.eq.Bob))`."),
  or: queryParameter("or", "Conditions of which a row must match at least one: `(age.is.null,age.gte.18)`."),
  columns: queryParameter("columns", "The columns to read from the body; others are ignored."),
  onConflict: queryParameter(
    "on_conflict",
    "The columns of the unique key that identifies duplicates. The default is the primary key.",
  ),
  range: headerParameter("Range", "The rows to return, counted from 0: `0-9` are the first ten."),
  rangeUnit: headerParameter("Range-Unit", "The unit of `Range`: `items`."),
  preferRead: prefer(["count=exact", "handling=strict"]),
  preferInsert: prefer([
    "return=representation",
    "return=headers-only",
    "return=minimal",
    "resolution=merge-duplicates",
    "resolution=ignore-duplicates",
    "missing=default",
    "handling=strict",
  ]),
  preferUpdate: prefer([
    "return=representation",
    "return=minimal",
    "missing=default",
    "count=exact",
    "handling=strict",
    "max-affected=10",
  ]),
  preferDelete: prefer([
    "return=representation",
    "return=minimal",
    "count=exact",
    "handling=strict",
    "max-affected=10",
  ]),
  preferReplace: prefer(["return=representation", "return=minimal", "handling=strict"]),
} as const;

export const shared = (...keys: readonly (keyof typeof PARAMETERS)[]): Reference[] =>
  keys.map((key) => refer("parameters", key));

/**
 * Names of query parameters with another meaning. The description omits filters by columns with these names, and arguments
 * with these names.
 */
export const RESERVED: ReadonlySet<string> = new Set([...RESERVED_NAMES, "not.and", "not.or"]);

/** The header that selects the schema, if more than one is served. */
export function profileParameters(
  { schema, profile }: VisibleSchema,
  name: "Accept-Profile" | "Content-Profile",
): Parameter[] {
  if (profile === "none") return [];
  const parameter = headerParameter(name, "Selects the schema.", {
    type: "string",
    enum: [schema.name],
    default: schema.name,
  });
  return [{ ...parameter, required: profile === "required" }];
}

/** `operator.value`: `eq.1`, `not.like(any).{a*,b*}`. */
export const FILTER_SCHEMA: JsonSchema = {
  type: "string",
  pattern: `^(not\\.)?(${Object.keys(OPERATORS).join("|")})(\\([^)]*\\))?\\.`,
};

/** The columns by which rows can be filtered. */
export const filtersOf = ({ readable }: TableAccess) => readable.filter(({ name }) => !RESERVED.has(name));
const filterKey = (visible: NamedSchema, table: Table, { name }: Column) =>
  `rowFilter.${visible.tableKey(table)}.${visible.columnKey(table, name)}`;

/** `rowFilter.posts.title` and so on, for each readable column. */
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

import type { Column, TypeShape } from "../../../db/catalog/catalog.ts";
import { OPERATORS } from "../../../db/filters/operators.ts";
import { RESERVED_NAMES } from "../../../rest-gateway/table/request.ts";
import type { JsonSchema, Parameter } from "../document.ts";
import { schemaOf, sqlNameOf } from "../json-schema.ts";
import {
  documentationOf,
  headerParameter,
  type Preference,
  paragraphs,
  preferParameter,
  queryParameter,
  refer,
} from "../schema-parts.ts";
import type { VisibleTable } from "../visible-catalog.ts";
import { FILTER } from "./responses.ts";
import type { DescribedSchema } from "./table-schemas.ts";

const count: JsonSchema = { type: "integer", minimum: 0 };

const PREFERENCES: readonly Preference[] = [
  ["return=representation", "returns the rows", "insert update delete replace"],
  ["return=headers-only", "returns the URL of the new row in `Location`", "insert"],
  ["return=minimal", "returns no body; this is the default", "insert update delete replace"],
  ["resolution=merge-duplicates", "updates rows that already exist", "insert"],
  ["resolution=ignore-duplicates", "does not change rows that already exist", "insert"],
  ["missing=default", "sets missing columns to their defaults instead of null", "insert update"],
  [
    "count=exact",
    "returns the total number of rows in `Content-Range`; `planned` and `estimated` are faster",
    "read update delete",
  ],
  ["handling=strict", "rejects unknown preferences", "read insert update delete replace"],
  [
    "max-affected=10",
    "with `handling=strict`: if the request would change more rows, it fails and changes none",
    "update delete",
  ],
];

const prefer = (operation: string): Parameter =>
  preferParameter("One or more, separated by commas:", PREFERENCES, operation);

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
  preferRead: prefer("read"),
  preferInsert: prefer("insert"),
  preferUpdate: prefer("update"),
  preferDelete: prefer("delete"),
  preferReplace: prefer("replace"),
} as const;

/**
 * Names of query parameters with another meaning. The description omits filters by columns with these names, and arguments
 * with these names.
 */
export const RESERVED: ReadonlySet<string> = new Set([...RESERVED_NAMES, "not.and", "not.or"]);

/** The header that selects the schema, if the catalog serves more than one. Requests for the first one may leave it out. */
export function profileParameters(
  { profile, name }: DescribedSchema,
  header: "Accept-Profile" | "Content-Profile",
): Parameter[] {
  if (profile === "none") return [];
  const parameter = headerParameter(header, "Selects the schema.", { type: "string", enum: [name], default: name });
  return [{ ...parameter, required: profile === "required" }];
}

/** `operator.value`: `eq.1`, `not.like(any).{a*,b*}`. */
export const FILTER_SCHEMA: JsonSchema = {
  type: "string",
  pattern: `^(not\\.)?(${Object.keys(OPERATORS).join("|")})(\\([^)]*\\))?\\.`,
};

/** The columns by which rows can be filtered. */
export const filtersOf = ({ readable }: VisibleTable): Column[] => readable.filter(({ name }) => !RESERVED.has(name));

/** The filter `title=eq.…`, by the name of its column. */
export function filterParameter({ name, comment, shape }: Column): Parameter {
  const form = `\`operator.value\` for ${sqlNameOf(shape)}, such as \`${sampleOf(shape)}\`.`;
  return queryParameter(name, paragraphs(documentationOf(comment).summary, form), refer("schemas", FILTER));
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

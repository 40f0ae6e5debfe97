import { RESERVED_NAMES } from "../../table/request.ts";
import type { JsonSchema, Parameter, Reference } from "../document.ts";
import { headerParameter, queryParameter, refer } from "../schema-parts.ts";
import type { VisibleSchema } from "./visible-schema.ts";

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

import type { JsonSchema, Parameter, Reference } from "../document.ts";
import { headerParameter, queryParameter, refer } from "../schema-parts.ts";
import type { Offer } from "./visible-schema.ts";

const count: JsonSchema = { type: "integer", minimum: 0 };

/** What a client prefers, and what it means. */
const PREFERENCES = {
  "return=representation": "the rows are returned",
  "return=headers-only": "the address of the new row is returned, as `Location`",
  "return=minimal": "nothing is returned, as without a preference",
  "resolution=merge-duplicates": "rows that are there already are changed",
  "resolution=ignore-duplicates": "rows that are there already are left as they are",
  "missing=default": "columns that are not given get their defaults instead of null",
  "count=exact": "`Content-Range` tells how many rows there are in all; `planned` and `estimated` are faster",
  "handling=strict": "preferences that are not known are refused",
  "max-affected=10": "with `handling=strict`: more rows than that are an error, and nothing is changed",
} as const;

const prefer = (preferences: readonly (keyof typeof PREFERENCES)[]): Parameter => {
  const lines = preferences.map((preference) => `- \`${preference}\`: ${PREFERENCES[preference]}`);
  return headerParameter("Prefer", ["With commas in between:", ...lines].join("\n"));
};

/** The parameters that all tables share, by key. */
export const PARAMETERS = {
  select: queryParameter(
    "select",
    "Columns and related rows that are returned, such as `id,title,author:users(name)`; all columns when it is left out.",
  ),
  order: queryParameter("order", "Such as `created_at.desc.nullslast,id`."),
  limit: queryParameter("limit", "The most rows that are returned.", count),
  offset: queryParameter("offset", "Rows that are left out at the beginning.", count),
  and: queryParameter("and", "Conditions that must all hold, such as `(age.gte.18,or(name.eq.Ada,name.eq.Bob))`."),
  or: queryParameter("or", "Conditions of which one must hold, such as `(age.is.null,age.gte.18)`."),
  columns: queryParameter("columns", "Columns that are read from the body; all others in it are ignored."),
  onConflict: queryParameter(
    "on_conflict",
    "Columns of the unique key by which duplicates are known; else the primary key.",
  ),
  range: headerParameter("Range", "Rows that are returned, from 0: `0-9` are the first ten."),
  rangeUnit: headerParameter("Range-Unit", "What `Range` counts: `items`."),
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

/** Names that a query string uses for itself: no column of such a name can be filtered by, nor argument be given. */
export const RESERVED: ReadonlySet<string> = new Set([
  "select",
  "order",
  "limit",
  "offset",
  "and",
  "or",
  "not.and",
  "not.or",
  "columns",
  "on_conflict",
]);

/** The header that chooses the schema; none where only one is served. */
export function profileParameters({ schema, profile }: Offer, name: "Accept-Profile" | "Content-Profile"): Parameter[] {
  if (profile === "none") return [];
  const parameter = headerParameter(name, "The schema.", { type: "string", enum: [schema.name], default: schema.name });
  return [{ ...parameter, required: profile === "required" }];
}

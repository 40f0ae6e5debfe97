import type { Column, Table, TypeShape } from "../../../db/catalog/catalog.ts";
import type { Operator } from "../../table/request.ts";
import { documentationOf } from "../comment.ts";
import type { JsonSchema, Parameter, Reference } from "../document.ts";
import { schemaOf, sqlNameOf } from "../json-schema.ts";
import { queryParameter, refer } from "../schema-parts.ts";
import { RESERVED } from "./parameters.ts";
import { FILTER, type NamedOffer, type OfferedTable } from "./visible-schema.ts";

/** What `?column=operator.value` may ask. */
export const OPERATORS: Readonly<Record<Operator, string>> = {
  eq: "equal to",
  neq: "not equal to",
  gt: "greater than",
  gte: "greater than, or equal to",
  lt: "less than",
  lte: "less than, or equal to",
  like: "like a pattern, in which `*` stands for any characters",
  ilike: "the same, whatever the case",
  match: "matching a regular expression",
  imatch: "the same, whatever the case",
  in: "one of a list: `in.(1,2,3)`",
  is: "`is.null`, `is.not_null`, `is.true`, `is.false` or `is.unknown`",
  isdistinct: "not equal to, where null is a value like others",
  cs: "an array, range or JSON value that contains: `cs.{a,b}`",
  cd: "an array, range or JSON value that is contained in",
  ov: "an array or range that overlaps with",
  sl: "a range that is strictly left of",
  sr: "a range that is strictly right of",
  nxr: "a range that does not extend to the right of",
  nxl: "a range that does not extend to the left of",
  adj: "a range that is adjacent to",
  fts: "text that is found by a query of `to_tsquery`; `fts(english).cat`",
  plfts: "the same of `plainto_tsquery`",
  phfts: "the same of `phraseto_tsquery`",
  wfts: "the same of `websearch_to_tsquery`",
};

/** `operator.value`, such as `eq.1` and `not.like(any).{a*,b*}`. */
export const FILTER_SCHEMA: JsonSchema = {
  type: "string",
  pattern: `^(not\\.)?(${Object.keys(OPERATORS).join("|")})(\\([^)]*\\))?\\.`,
};

/** Columns that rows can be chosen by. */
export const filtersOf = ({ readable }: OfferedTable) => readable.filter(({ name }) => !RESERVED.has(name));
const filterKey = (offer: NamedOffer, table: Table, { name }: Column) =>
  `rowFilter.${offer.tableKey(table)}.${offer.columnKey(table, name)}`;

/** `rowFilter.articles.title`, for each column that may be read. */
export const filterParameters = (offer: NamedOffer, offered: OfferedTable): [string, Parameter][] =>
  filtersOf(offered).map((column) => [filterKey(offer, offered.table, column), filterParameter(column)]);

export const filterReferences = (offer: NamedOffer, offered: OfferedTable): Reference[] =>
  filtersOf(offered).map((column) => refer("parameters", filterKey(offer, offered.table, column)));

function filterParameter({ name, comment, shape }: Column): Parameter {
  const { summary } = documentationOf(comment);
  const form = `\`operator.value\` for ${sqlNameOf(shape)}, such as \`${sampleOf(shape)}\`.`;
  const description = summary === "" ? form : `${summary}\n\n${form}`;
  return queryParameter(name, description, refer("schemas", FILTER));
}

/** A filter that fits the type: `eq.DRAFT`, `gte.2026-01-31`. */
function sampleOf(shape: TypeShape): string {
  const { type, format = "", enum: labels } = schemaOf(shape);
  if (labels !== undefined) return `eq.${labels[0]}`;
  return SAMPLES[format] ?? SAMPLES[typeof type === "string" ? type : "any"]!;
}

/** By the format in JSON, or else the type. */
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

/** The one row that a replacement names. */
export const keyParameter = (column: string): Parameter => ({
  ...queryParameter(column, "Names the row; must be what the body says.", { type: "string", pattern: "^eq\\." }),
  required: true,
});

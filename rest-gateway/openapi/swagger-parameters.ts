import type { FunctionArgument } from "../../db/catalog/catalog.ts";
import { plainText } from "./comment.ts";
import { filtersOf } from "./filters.ts";
import { sqlNameOf } from "./json-schema.ts";
import { swaggerType } from "./swagger-definitions.ts";
import type { OfferedTable } from "./visible-schema.ts";

const query = (name: string, description: string) => ({
  name,
  description,
  required: false,
  in: "query",
  type: "string",
});
const header = (name: string, description: string, more: object = {}) => ({
  ...query(name, description),
  in: "header",
  ...more,
});

const RETURN = ["return=representation", "return=minimal", "return=headers-only"];
const RESOLUTION = ["resolution=ignore-duplicates", "resolution=merge-duplicates"];
const COUNT = ["count=exact", "count=planned", "count=estimated"];

/** The parameters that all tables share. */
export const SWAGGER_PARAMETERS: readonly [string, object][] = [
  ["preferReturn", header("Prefer", "Preference", { enum: RETURN })],
  ["preferCount", header("Prefer", "Preference", { enum: COUNT })],
  ["preferPost", header("Prefer", "Preference", { enum: [...RETURN, ...RESOLUTION] })],
  ["select", query("select", "Filtering Columns")],
  ["on_conflict", query("on_conflict", "On Conflict")],
  ["order", query("order", "Ordering")],
  ["range", header("Range", "Limiting and Pagination")],
  ["rangeUnit", header("Range-Unit", "Limiting and Pagination", { default: "items" })],
  ["offset", query("offset", "Limiting and Pagination")],
  ["limit", query("limit", "Limiting and Pagination")],
];

/** `body.articles`, and `rowFilter.articles.title` for each column that may be read. */
export function swaggerTableParameters(offered: OfferedTable): [string, object][] {
  const { name } = offered.table;
  const schema = swaggerReference("definitions", name);
  const filters = filtersOf(offered).map((column): [string, object] => {
    const { description, ...rest } = query(column.name, plainText(column.comment));
    return [
      `rowFilter.${name}.${column.name}`,
      { ...rest, ...(description && { description }), format: sqlNameOf(column.shape) },
    ];
  });
  return [[`body.${name}`, { name, description: name, required: false, in: "body", schema }], ...filters];
}

/** An argument in a query string; arrays, rows and JSON are text there. */
export function swaggerArgument({ name, shape, isRequired, isVariadic }: FunctionArgument): object {
  const { type = "string", format } = swaggerType(shape);
  const parameter = { name, in: "query", required: isRequired };
  if (!isVariadic) return { ...parameter, type: type === "array" ? "string" : type, format };
  return { ...parameter, type: "array", items: swaggerType({ ...shape, isArray: false }), collectionFormat: "multi" };
}

/** A pointer in JSON, as part of an address. */
export const swaggerReference = (kind: "definitions" | "parameters", name: string): { $ref: string } => ({
  $ref: `#/${kind}/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`,
});

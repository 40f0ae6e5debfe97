import type { JsonSchema } from "./document.ts";

const QUOTED = /^'((?:[^']|'')*)'::[\w\s.,"()[\]]+$/;

/**
 * The value of a column's default where it is a plain one, as it stands in JSON; undefined for what Postgres works out.
 *
 *   defaultValue("'DRAFT'::article_status", { type: "string", … })  // "DRAFT"
 *   defaultValue("0", { type: "integer" })                          // 0
 *   defaultValue("now()", { type: "string" })                       // undefined
 */
export function defaultValue(expression: string | null, schema: JsonSchema): unknown {
  if (expression === null) return undefined;
  const quoted = QUOTED.exec(expression)?.[1]?.replaceAll("''", "'");
  const read = READERS[typeof schema.type === "string" ? schema.type : "any"];
  return read?.(quoted ?? null, expression, schema);
}

type Reader = (quoted: string | null, expression: string, schema: JsonSchema) => unknown;

/** Few enough digits for the numbers of JavaScript. */
const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/;

/** `5`, `(-5)` or `'-5'::integer`. */
const number: Reader = (quoted, expression) => {
  const text = quoted ?? expression.replace(/^\((.*)\)$/, "$1");
  return NUMBER.test(text) ? Number(text) : undefined;
};

/** By the type in JSON; a text with a format, such as a time, may be written otherwise in SQL than in JSON. */
const READERS: Readonly<Record<string, Reader>> = {
  boolean: (_, expression) => ({ true: true, false: false })[expression],
  integer: number,
  number,
  string: (quoted, _, { format }) => (format === undefined || format === "uuid" ? (quoted ?? undefined) : undefined),
  array: (quoted) => (quoted === "{}" ? [] : undefined),
  any: (quoted) => parsed(quoted),
};

function parsed(json: string | null): unknown {
  if (json === null) return undefined;
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

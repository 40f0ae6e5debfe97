import type { Column, TypeShape } from "../../../db/catalog/catalog.ts";
import { isUuid } from "../../conventions/parameters.ts";

// Values are checked here because Postgres would not name the field or the parameter. Other rules are in the database.

/** The values of a type. Types without `isJson` are texts in JSON. */
type Rule = {
  readonly what: string;
  isText(text: string, shape: TypeShape): boolean;
  isJson?(value: unknown): boolean;
  isInRange?(value: unknown, shape: TypeShape): boolean;
};

const BOOLEAN: Rule = {
  what: "true or false",
  isText: (text) => text === "true" || text === "false",
  isJson: (value) => typeof value === "boolean",
};
const WHOLE: Rule = {
  what: "a whole number",
  isText: (text, shape) => /^-?[0-9]+$/.test(text) && fits(text, shape),
  isJson: Number.isInteger,
  isInRange: (value, shape) => Number.isSafeInteger(value) && fits(String(value), shape),
};
const NUMBER: Rule = {
  what: "a number",
  isText: (text) => /^-?[0-9]+(?:\.[0-9]+)?$/.test(text),
  isJson: (value) => typeof value === "number",
  isInRange: Number.isFinite,
};
// The "+" of a time zone is a space if it was not percent-encoded.
const TIME: Rule = {
  what: "a time such as 2026-11-20T08:30:00Z",
  isText: (text) =>
    /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i.test(text) &&
    !Number.isNaN(Date.parse(text)) &&
    isDay(text.slice(0, 10)),
};
const DATE: Rule = { ...TIME, what: "a date such as 2026-12-24" };
const UUID: Rule = { what: "a UUID", isText: isUuid };

/** Date.parse accepts `2026-02-30`; Postgres has no year 0. */
const isDay = (text: string) => !text.startsWith("0000") && new Date(text).toJSON()?.startsWith(text) === true;

/** The rules by type. Types that are not listed accept any text. */
const RULES: ReadonlyMap<string, Rule> = new Map([
  ["bool", BOOLEAN],
  ...["int2", "int4", "int8"].map((type) => [type, WHOLE] as const),
  ...["float4", "float8", "numeric"].map((type) => [type, NUMBER] as const),
  ...["timestamptz", "timestamp"].map((type) => [type, TIME] as const),
  ["date", DATE],
  ["uuid", UUID],
]);

const ANY_JSON = new Set(["json", "jsonb"]);

/** Why a type does not allow the text of a parameter: `must be a whole number`. Null when it does. */
export function faultOfText(text: string, shape: TypeShape): string | null {
  if (shape.category === "enum" && !shape.labels.includes(text)) return `must be one of ${shape.labels.join(", ")}`;
  const rule = RULES.get(shape.name);
  return rule && !rule.isText(text, shape) ? `must be ${rule.what}` : null;
}

/** Why a column does not allow a JSON value. Null when it does. */
export function faultOfJson(value: unknown, { shape, isNullable }: Column): string | null {
  if (value === null) return isNullable ? null : "must not be null";
  if (!shape.isArray) return faultOfOne(value, shape);
  if (!Array.isArray(value)) return "must be a list";
  const faults = value.map((each) => (each === null ? "must not be null" : faultOfOne(each, shape)));
  const place = faults.findIndex((fault) => fault !== null);
  return place === -1 ? null : `at index ${place} ${faults[place]}`;
}

function faultOfOne(value: unknown, shape: TypeShape): string | null {
  const { category, labels, name } = shape;
  if (category === "enum") return labels.includes(value as string) ? null : `must be one of ${labels.join(", ")}`;
  if (ANY_JSON.has(name)) return null;
  const rule = RULES.get(name);
  if (!rule?.isJson) return faultOfString(value);
  if (!rule.isJson(value)) return `must be ${rule.what}`;
  return rule.isInRange?.(value, shape) === false ? "is out of range" : null;
}

function faultOfString(value: unknown): string | null {
  if (typeof value !== "string") return "must be a text";
  return value.isWellFormed() && !value.includes("\0") ? null : "must not contain NUL or an unpaired surrogate";
}

/** Bits of the integer types. */
const BITS: Readonly<Record<string, number>> = { int2: 16, int4: 32, int8: 64 };

/** Whether a whole number is in the range of a type. */
export function fits(text: string, { name }: TypeShape): boolean {
  // Longer texts are out of range, and slow to parse.
  if (text.length > 20) return false;
  const value = BigInt(text);
  return BigInt.asIntN(BITS[name] ?? 64, value) === value;
}

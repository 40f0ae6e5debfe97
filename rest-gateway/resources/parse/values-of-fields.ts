import type { Column, TypeShape } from "../../../db/catalog/catalog.ts";
import { fits } from "./id.ts";

/**
 * Why a column can't have a value: `must be a text`. Null when it may, as far as its type goes; the rules are the
 * database's.
 */
export function faultOf(value: unknown, { shape, isNullable }: Column): string | null {
  if (value === null) return isNullable ? null : "must not be null";
  if (!shape.isArray) return faultOfOne(value, shape);
  if (!Array.isArray(value)) return "must be a list";
  const faults = value.map((each, i) => [i, each === null ? "must not be null" : faultOfOne(each, shape)] as const);
  const [place, fault] = faults.find(([, fault]) => fault !== null) ?? [];
  return fault === undefined ? null : `has in place ${place} what ${fault}`;
}

const isText = (value: unknown): value is string => typeof value === "string";

function faultOfOne(value: unknown, shape: TypeShape): string | null {
  if (shape.category === "enum") {
    return isText(value) && shape.labels.includes(value) ? null : `must be one of ${shape.labels.join(", ")}`;
  }
  switch (shape.name) {
    case "bool":
      return typeof value === "boolean" ? null : "must be true or false";
    case "int2":
    case "int4":
    case "int8":
      if (!Number.isInteger(value)) return "must be a whole number";
      return Number.isSafeInteger(value) && fits(String(value), shape) ? null : "is out of range";
    case "float4":
    case "float8":
    case "numeric":
      if (typeof value !== "number") return "must be a number";
      return Number.isFinite(value) ? null : "is out of range";
    case "json":
    case "jsonb":
      return null;
    default:
      return faultOfText(value);
  }
}

/** Why a value is no text that Postgres could keep; null when it is one. */
export function faultOfText(value: unknown): string | null {
  if (!isText(value)) return "must be a text";
  return value.isWellFormed() && !value.includes("\0")
    ? null
    : "must not have a NUL character or half of a surrogate pair";
}

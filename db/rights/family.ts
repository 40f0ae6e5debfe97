import type { Column } from "../catalog/catalog.ts";
import type { Family } from "../filters/operators.ts";

/** The type of an operand, as far as comparisons matter. Two operands are comparable in process if their kinds are equal. */
export type Kind = {
  /** "string", "integer", "uuid", "boolean", or the SQL name of an enum. */
  readonly name: string;
  readonly isArray: boolean;
};

/** Types whose equal values have equal texts in every session. Numbers, times and JSON have several texts for one value. */
const KINDS: Readonly<Record<string, string>> = {
  smallint: "integer",
  integer: "integer",
  bigint: "integer",
  text: "string",
  "character varying": "string",
  name: "string",
  uuid: "uuid",
  boolean: "boolean",
};
const NAMES: Readonly<Record<string, string>> = {
  int2: "smallint",
  int4: "integer",
  int8: "bigint",
  text: "text",
  varchar: "character varying",
  name: "name",
  uuid: "uuid",
  bool: "boolean",
};

/** The kind of a column; null if its values can be compared by Postgres only. */
export function kindOfColumn({ type, shape, isDeterministic }: Column): Kind | null {
  const { isArray } = shape;
  if (!isDeterministic) return null;
  // The type of an enum's array is written with brackets.
  if (shape.category === "enum") return shape.domain ? null : { name: type.replace(/\[\]$/, ""), isArray };
  if (shape.schema !== "pg_catalog") return null;
  const name = KINDS[NAMES[shape.name] ?? ""];
  return name === undefined ? null : { name, isArray };
}

/** `kindOfType("bigint[]", enums)` → `{ name: "integer", isArray: true }`. `type` is SQL text without modifiers. */
export function kindOfType(type: string, enums: ReadonlySet<string>): Kind | null {
  const isArray = type.endsWith("[]");
  const element = isArray ? type.slice(0, -2) : type;
  if (enums.has(element)) return { name: element, isArray };
  const name = Object.hasOwn(KINDS, element) ? KINDS[element] : undefined;
  return name === undefined ? null : { name, isArray };
}

/** The kind of a column after a cast to `type`, if its text remains the same; null if it may change. */
export function kindAfterCast(column: Column, type: string): Kind | null {
  const kind = kindOfColumn(column);
  if (kind === null || kind.isArray) return null;
  // A cast to a shorter type may fail, and a boolean, whose text is t or f, becomes the text true or false.
  if (type === "text" || type === "character varying") return kind.name === "boolean" ? null : STRING;
  return type === NAMES[column.shape.name] || (kind.name === "integer" && type === "bigint") ? kind : null;
}

const STRING: Kind = { name: "string", isArray: false };

export const familyOf = (kind: Kind): Family => (kind.name === "integer" ? "integer" : "text");

export const isComparable = (one: Kind | null, other: Kind | null): boolean =>
  one !== null && other !== null && one.name === other.name && one.isArray === other.isArray && !one.isArray;

/** Whether `one = any (other)` can be decided. */
export const isElement = (one: Kind | null, other: Kind | null): boolean =>
  one !== null && other !== null && one.name === other.name && !one.isArray && other.isArray;

import { elementsOf } from "../wire/array-text.ts";

/**
 * A condition on the values of one row, in the three-valued logic of SQL. Terms are values beside the row, such as those of the
 * caller or of a filter, by their index.
 */
export type Condition =
  | { readonly kind: "and" | "or"; readonly conditions: readonly Condition[] }
  | { readonly kind: "not"; readonly condition: Condition }
  /** A boolean value. */
  | { readonly kind: "value"; readonly operand: Operand }
  | { readonly kind: "is"; readonly operand: Operand; readonly test: "null" | "true" | "false" }
  | {
      readonly kind: "compare";
      readonly operator: Operator;
      readonly left: Operand;
      readonly right: Operand;
      /** How the values are compared in process; null if only Postgres can compare them. */
      readonly family: Family | null;
    }
  /** `left = any (array)`: the right operand is an array. */
  | { readonly kind: "any"; readonly left: Operand; readonly right: Operand; readonly family: Family | null };

export type Operand =
  | { readonly kind: "column"; readonly name: string }
  | { readonly kind: "term"; readonly index: number };

export type Operator =
  | "="
  | "<>"
  | "<"
  | "<="
  | ">"
  | ">="
  | "is distinct from"
  | "like"
  | "ilike"
  | "match"
  | "imatch";

/**
 * How the texts of values decide comparisons. "text": equal values have equal texts, whatever the settings of the session.
 * "integer": besides, they are ordered as numbers.
 */
export type Family = "text" | "integer";

/** True, false, null for unknown; undefined if only Postgres knows. */
export type Truth = boolean | null | undefined;

/** A column of a row. It is unknown if it is undefined. */
type Value = string | null | undefined;
/** A list stands for an array. */
export type Term = string | null | readonly (string | null)[];

/** Decides a condition for a row, given in the order of its columns, and terms. */
export type Decide = (row: readonly Value[], terms: readonly Term[]) => Truth;

/** Compiles a condition for rows with these columns. A column that they lack is unknown. */
export function compile(condition: Condition, columns: readonly string[]): Decide {
  switch (condition.kind) {
    case "and":
    case "or":
      return compileLogic(
        condition.kind === "and",
        condition.conditions.map((each) => compile(each, columns)),
      );
    case "not": {
      const decide = compile(condition.condition, columns);
      return (row, terms) => not(decide(row, terms));
    }
    case "value": {
      const read = reader(condition.operand, columns);
      return (row, terms) => truthOf(read(row, terms));
    }
    case "is":
      return compileIs(condition.test, reader(condition.operand, columns));
    case "compare":
      return compileComparison(condition, columns);
    case "any":
      return compileAny(condition, columns);
  }
}

/** False decides an and-condition, true an or-condition. Otherwise, if only Postgres knows one of the parts, only it knows the result. */
function compileLogic(isAnd: boolean, all: readonly Decide[]): Decide {
  return (row, terms) => {
    let result: Truth = isAnd;
    for (const decide of all) {
      const truth = decide(row, terms);
      if (truth === !isAnd) return truth;
      if (truth === undefined || (truth === null && result !== undefined)) result = truth;
    }
    return result;
  };
}

const not = (truth: Truth): Truth => (typeof truth === "boolean" ? !truth : truth);

type Read = (row: readonly Value[], terms: readonly Term[]) => Value | Term;

function reader(operand: Operand, columns: readonly string[]): Read {
  if (operand.kind === "term") return (_row, terms) => terms[operand.index]!;
  const at = columns.indexOf(operand.name);
  return (row) => row[at];
}

/** Postgres writes booleans as t and f. */
const truthOf = (value: Value | Term): Truth => (value == null ? null : value === "t");

/** Null is not unknown to this test; a missing value is. */
function compileIs(test: "null" | "true" | "false", read: Read): Decide {
  const wanted = { null: null, true: "t", false: "f" }[test];
  return (row, terms) => {
    const value = read(row, terms);
    return value === undefined ? null : value === wanted;
  };
}

type Compare = (left: string, right: string) => boolean;

const BY_TEXT: Partial<Record<Operator, Compare>> = {
  "=": (left, right) => left === right,
  "<>": (left, right) => left !== right,
};
/** Other operators are left to Postgres. */
const COMPARISONS: Readonly<Record<Family, Partial<Record<Operator, Compare>>>> = {
  text: BY_TEXT,
  integer: {
    ...BY_TEXT,
    "<": (left, right) => BigInt(left) < BigInt(right),
    "<=": (left, right) => BigInt(left) <= BigInt(right),
    ">": (left, right) => BigInt(left) > BigInt(right),
    ">=": (left, right) => BigInt(left) >= BigInt(right),
  },
};

function compileComparison(condition: Extract<Condition, { kind: "compare" }>, columns: readonly string[]): Decide {
  const { operator, family } = condition;
  const [left, right] = [reader(condition.left, columns), reader(condition.right, columns)];
  const isDistinct = operator === "is distinct from";
  const compare = family === null ? undefined : COMPARISONS[family][isDistinct ? "<>" : operator];
  return (row, terms) => {
    const [a, b] = [left(row, terms), right(row, terms)];
    if (a === undefined || b === undefined) return null;
    if (a === null || b === null) return isDistinct ? a !== b : null;
    return compare?.(a as string, b as string);
  };
}

function compileAny(condition: Extract<Condition, { kind: "any" }>, columns: readonly string[]): Decide {
  const [left, right] = [reader(condition.left, columns), reader(condition.right, columns)];
  return (row, terms) => {
    const [value, array] = [left(row, terms), right(row, terms)];
    if (value === undefined || array == null) return null;
    const elements = typeof array === "string" ? elementsOf(array) : array;
    if (elements.length === 0) return false;
    if (value === null) return null;
    if (condition.family === null) return undefined;
    if (elements.includes(value as string)) return true;
    return elements.includes(null) ? null : false;
  };
}

/** The columns that a condition reads. */
export const columnsIn = (condition: Condition): ReadonlySet<string> =>
  new Set(operandsIn(condition).flatMap((operand) => (operand.kind === "column" ? [operand.name] : [])));

/** The indexes of the terms that a condition reads. */
export const termsIn = (condition: Condition): ReadonlySet<number> =>
  new Set(operandsIn(condition).flatMap((operand) => (operand.kind === "term" ? [operand.index] : [])));

function operandsIn(condition: Condition): readonly Operand[] {
  if ("conditions" in condition) return condition.conditions.flatMap(operandsIn);
  if ("condition" in condition) return operandsIn(condition.condition);
  return "operand" in condition ? [condition.operand] : [condition.left, condition.right];
}

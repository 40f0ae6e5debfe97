import { elementsOf } from "../wire/array-text.ts";
import type { Condition } from "./condition.ts";
import { type Family, KEYWORDS, OPERATORS, type Operator } from "./operators.ts";

/**
 * A condition on the values of one row, in the three-valued logic of SQL. Both sides of a filter are columns or terms. `is` has no
 * right side.
 */
export type RowCondition = Condition<Operand, Comparand | null, BooleanValue>;

/** Terms are values beside the row, such as those of the caller or of a filter, by their index. */
export type Operand =
  | { readonly kind: "column"; readonly name: string }
  | { readonly kind: "term"; readonly index: number };

/** The family is null if only Postgres can compare the values. */
export type Comparand = Operand & { readonly family: Family | null };

export type BooleanValue = { readonly kind: "value"; readonly isNegated: boolean; readonly operand: Operand };

/** True, false, null for unknown; undefined if only Postgres knows. */
export type Truth = boolean | null | undefined;

/** A column of a row. It is unknown if it is undefined. */
type Value = string | null | undefined;
/** A list stands for an array. */
export type Term = string | null | readonly (string | null)[];

/** Decides a condition for a row, given in the order of its columns, and terms. */
export type Decide = (row: readonly Value[], terms: readonly Term[]) => Truth;

/** Compiles a condition for rows with these columns. A column that they lack is unknown. */
export function compile(condition: RowCondition, columns: readonly string[]): Decide {
  const decide = compilePlain(condition, columns);
  return condition.isNegated ? (row, terms) => not(decide(row, terms)) : decide;
}

/** As if the condition were not negated. */
function compilePlain(condition: RowCondition, columns: readonly string[]): Decide {
  if (condition.kind === "logic")
    return compileLogic(
      condition.operator === "and",
      condition.conditions.map((each) => compile(each, columns)),
    );
  if (condition.kind === "value") {
    const read = reader(condition.operand, columns);
    return (row, terms) => truthOf(read(row, terms));
  }
  const { operator, keyword, field, value } = condition;
  const left = reader(field, columns);
  if (keyword !== null) return compileTest(KEYWORDS[keyword].holds, left);
  const right = reader(value!, columns);
  if (OPERATORS[operator].syntax === "list") return compileList(left, right, value!.family);
  return compileComparison(left, right, OPERATORS[operator], value!.family);
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
const compileTest =
  (holds: (value: string | null) => boolean, read: Read): Decide =>
  (row, terms) => {
    const value = read(row, terms);
    return value === undefined ? null : holds(value as string | null);
  };

function compileComparison(
  left: Read,
  right: Read,
  { compare: comparisons, comparesNull }: (typeof OPERATORS)[Operator],
  family: Family | null,
): Decide {
  const compare = family === null ? undefined : comparisons?.[family];
  return (row, terms) => {
    const [a, b] = [left(row, terms), right(row, terms)];
    if (a === undefined || b === undefined) return null;
    if (a === null || b === null) return comparesNull ? a !== b : null;
    return compare?.(a as string, b as string);
  };
}

const compileList =
  (left: Read, right: Read, family: Family | null): Decide =>
  (row, terms) => {
    const [value, array] = [left(row, terms), right(row, terms)];
    if (value === undefined || array == null) return null;
    const elements = typeof array === "string" ? elementsOf(array) : array;
    if (elements.length === 0) return false;
    if (value === null) return null;
    if (family === null) return undefined;
    if (elements.includes(value as string)) return true;
    return elements.includes(null) ? null : false;
  };

/** The columns that a condition reads. */
export const columnsIn = (condition: RowCondition): ReadonlySet<string> =>
  new Set(operandsIn(condition).flatMap((operand) => (operand.kind === "column" ? [operand.name] : [])));

/** The indexes of the terms that a condition reads. */
export const termsIn = (condition: RowCondition): ReadonlySet<number> =>
  new Set(operandsIn(condition).flatMap((operand) => (operand.kind === "term" ? [operand.index] : [])));

function operandsIn(condition: RowCondition): readonly Operand[] {
  if (condition.kind === "logic") return condition.conditions.flatMap(operandsIn);
  if (condition.kind === "value") return [condition.operand];
  return condition.value === null ? [condition.field] : [condition.field, condition.value];
}

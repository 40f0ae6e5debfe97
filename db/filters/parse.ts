import { Problem } from "../../problems/problem.ts";
import { writeArray } from "../wire/array-text.ts";
import type { Condition, Filter, Logic } from "./condition.ts";
import { type Field, isNameCode, readField, tooDeep } from "./field.ts";
import { type IsKeyword, isKeyword, isOperator, OPERATORS, type Operator } from "./operators.ts";
import { MAX_VALUES, tooMany } from "./patterns.ts";
import { Scanner } from "./scanner.ts";

/** A filter without its field: `not.ilike(any).{*sql*}`. `text` becomes one of the request's values. */
export type Comparison = Omit<Filter<Field>, "kind" | "field" | "value"> & {
  readonly text: string;
  /** Values of its list. */
  readonly listed: number;
};

type List = Pick<Comparison, "text" | "listed">;

const OPERATOR = `(?:${Object.keys(OPERATORS).join("|")})[.(]`;
const FILTER_START = new RegExp(`^(?:not\\.)?${OPERATOR}`);
const OPERATOR_AT = new RegExp(OPERATOR, "y");

export function filterOf(field: Field, comparison: Comparison, value: number): Filter<Field> {
  const { isNegated, operator, quantifier, language, keyword } = comparison;
  return { kind: "filter", field, isNegated, operator, quantifier, language, value, keyword };
}

/** Parses the value of `column=`. Throws PGRST100. */
export function parseComparison(text: string): Comparison {
  const scanner = new Scanner("filter", text);
  const comparison = readComparison(scanner, (rest) => rest.takeRest());
  scanner.expectEnd();
  return comparison;
}

export const beginsLikeFilter = (text: string): boolean => FILTER_START.test(text);

/** Null if the text is not a filter. It is then the argument of a function. */
export function tryComparison(text: string): Comparison | null {
  if (!beginsLikeFilter(text)) return null;
  try {
    return parseComparison(text);
  } catch (error) {
    if (error instanceof Problem && error.reason === "unreadable query") return null;
    throw error;
  }
}

/** `readText` reads the value of operators that accept any text. */
function readComparison(scanner: Scanner, readText: (scanner: Scanner) => string): Comparison {
  const isNegated = scanner.takes("not.");
  const operator = readOperator(scanner);
  const { syntax } = OPERATORS[operator];
  const quantifier = syntax === "quantified" ? readQuantifier(scanner) : null;
  const language = syntax === "language" ? readLanguage(scanner) : null;
  scanner.expect(".");
  const keyword = syntax === "keyword" ? readKeyword(scanner) : null;
  const read = { isNegated, operator, quantifier, language, keyword };
  if (syntax === "list") return { ...read, ...readList(scanner) };
  return { ...read, text: keyword ?? withWildcards(operator, readText(scanner)), listed: 0 };
}

/** Whether an operator with its dot or bracket begins here. */
function seesOperator({ text }: Scanner, at: number): boolean {
  OPERATOR_AT.lastIndex = at;
  return OPERATOR_AT.test(text);
}

function readOperator(scanner: Scanner): Operator {
  const start = scanner.at;
  const operator = scanner.takeWhile(isSmallLetter);
  if (isOperator(operator)) return operator;
  scanner.at = start;
  throw scanner.error(start === 0 ? '"not" or an operator (eq, gt, ...)' : "an operator (eq, gt, ...)");
}

function readQuantifier(scanner: Scanner): Comparison["quantifier"] {
  if (scanner.takes("(any)")) return "any";
  if (scanner.takes("(all)")) return "all";
  if (scanner.sees("(")) throw scanner.error('"(any)", "(all)" or "."');
  return null;
}

function readLanguage(scanner: Scanner): string | null {
  if (!scanner.takes("(")) return null;
  const language = scanner.takeWhile(isNameCode).trim();
  // Postgres would read digits alone as an object identifier.
  if (/^[0-9]*$/.test(language)) throw scanner.error("a text search configuration");
  scanner.expect(")");
  return language;
}

function readKeyword(scanner: Scanner): IsKeyword {
  const start = scanner.at;
  const keyword = scanner.takeWhile(isLetter).toLowerCase();
  if (isKeyword(keyword)) return keyword;
  scanner.at = start;
  throw scanner.error("null, not_null, true, false or unknown");
}

/** `(a,"b,c")` → `{"a","b,c"}` */
function readList(scanner: Scanner): List {
  scanner.skipSpace();
  scanner.expect("(");
  scanner.skipSpace();
  const list = takePlainList(scanner) ?? readQuotedList(scanner);
  scanner.skipSpace();
  return list;
}

/** Takes a list without quotes in a tenth of the time. Null for other lists. */
function takePlainList(scanner: Scanner): List | null {
  const end = scanner.text.indexOf(")", scanner.at);
  const inner = scanner.text.slice(scanner.at, end);
  if (end === -1 || /["\\]/.test(inner)) return null;
  scanner.at = end + 1;
  const elements = inner === "" ? [] : inner.split(",", MAX_VALUES + 1);
  refuseManyValues(elements.length);
  return { text: inner === "" ? "{}" : `{"${elements.join('","')}"}`, listed: elements.length };
}

function readQuotedList(scanner: Scanner): List {
  const elements: string[] = [];
  do {
    elements.push(readElement(scanner));
    refuseManyValues(elements.length);
  } while (scanner.takes(","));
  scanner.expect(")", '"," or ")"');
  return { text: writeArray(elements), listed: elements.length };
}

function refuseManyValues(count: number): void {
  if (count > MAX_VALUES) throw tooMany("values in lists", MAX_VALUES);
}

/**
 * Up to the next comma or closing bracket, unless quoted. If other text follows the closing quote, the quotes are part of the
 * value.
 */
function readElement(scanner: Scanner): string {
  const start = scanner.at;
  const quoted = scanner.takeQuoted();
  if (quoted !== null && (scanner.isAtEnd || scanner.sees(",") || scanner.sees(")"))) return quoted;
  scanner.at = start;
  return scanner.takeWhile(isElementPart);
}

/** Clients write `*`, because `%` must be encoded in a URL. */
const withWildcards = (operator: Operator, text: string) =>
  OPERATORS[operator].pattern === "wildcards" ? text.replaceAll("*", "%") : text;

const isSmallLetter = (code: number) => code >= 0x61 && code <= 0x7a;
const isLetter = (code: number) => isSmallLetter(code | 0x20) || code === 0x5f;
const isElementPart = (code: number) => code !== 0x2c && code !== 0x29;

export type LogicOptions = {
  /** Levels of `and` and `or`. */
  readonly maxDepth: number;
  /** Adds the text of a comparison to the request's values and returns its index. */
  readonly addValue: (comparison: Comparison) => number;
};

/**
 * Parses the value of `or=` or `and=`: `(id.eq.1,and(name.like.a*,not.age.is.null),tags.cs.{x,y})`. `not.` may precede
 * and, or, a field or an operator.
 */
export function parseLogic(
  operator: Logic<Field>["operator"],
  isNegated: boolean,
  text: string,
  options: LogicOptions,
): Logic<Field> {
  const scanner = new Scanner("logic tree", text);
  const logic = new LogicReader(scanner, options).read(operator, isNegated, 1);
  scanner.expectEnd();
  return logic;
}

class LogicReader {
  readonly #scanner: Scanner;
  readonly #options: LogicOptions;

  constructor(scanner: Scanner, options: LogicOptions) {
    this.#scanner = scanner;
    this.#options = options;
  }

  read(operator: Logic<Field>["operator"], isNegated: boolean, level: number): Logic<Field> {
    const scanner = this.#scanner;
    const { maxDepth } = this.#options;
    if (level > maxDepth) throw tooDeep("the logic tree", maxDepth);
    scanner.skipSpace();
    scanner.expect("(");
    const conditions: Condition<Field>[] = [];
    do conditions.push(this.#condition(level));
    while (scanner.takes(","));
    scanner.expect(")", '"," or ")"');
    scanner.skipSpace();
    return { kind: "logic", operator, isNegated, conditions };
  }

  #condition(level: number): Condition<Field> {
    const scanner = this.#scanner;
    scanner.skipSpace();
    const isNegated = this.#takesNot();
    const operator = this.#takeOperator();
    return operator === null ? this.#filter(isNegated) : this.read(operator, isNegated, level + 1);
  }

  #filter(isNegated: boolean): Condition<Field> {
    const scanner = this.#scanner;
    const field = readField(scanner);
    scanner.expect(".");
    const comparison = readComparison(scanner, readText);
    scanner.skipSpace();
    const value = this.#options.addValue(comparison);
    return filterOf(field, { ...comparison, isNegated: comparison.isNegated !== isNegated }, value);
  }

  /** In `not.eq.1`, `not` is the name of a column. */
  #takesNot(): boolean {
    const scanner = this.#scanner;
    return scanner.sees("not.") && !seesOperator(scanner, scanner.at + "not.".length) && scanner.takes("not.");
  }

  /** `and` or `or` before a bracket. Without a bracket, they may begin a name. */
  #takeOperator(): Logic<Field>["operator"] | null {
    const scanner = this.#scanner;
    const start = scanner.at;
    const operator = scanner.takes("and") ? "and" : scanner.takes("or") ? "or" : null;
    scanner.skipSpace();
    if (operator !== null && scanner.sees("(")) return operator;
    scanner.at = start;
    return null;
  }
}

const ARRAY = /\{[^{}]*\}/y;

/** A value ends at a comma or closing bracket, unless it is quoted or an array in braces. */
const readText = (scanner: Scanner) => scanner.takeMatch(ARRAY) ?? readElement(scanner);

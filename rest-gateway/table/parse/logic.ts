import { tooDeep } from "../problem.ts";
import type { Condition, Logic } from "../request.ts";
import { readField } from "./field.ts";
import { filterOf, readElement, readOperation, seesOperator } from "./conditions.ts";
import { Scanner } from "./scanner.ts";

type LogicOptions = {
  /** Levels of `and` and `or`. */
  readonly maxDepth: number;
  /** Adds a text to the request's values and returns its index. */
  readonly addValue: (text: string) => number;
};

/**
 * What follows `or=` and `and=`: `(id.eq.1,and(name.like.a*,not.age.is.null),tags.cs.{x,y})`. `not.` may precede
 * and, or, a field or an operator.
 */
export function parseLogic(
  operator: Logic["operator"],
  isNegated: boolean,
  text: string,
  options: LogicOptions,
): Logic {
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

  read(operator: Logic["operator"], isNegated: boolean, level: number): Logic {
    const scanner = this.#scanner;
    const { maxDepth } = this.#options;
    if (level > maxDepth) throw tooDeep("the logic tree", maxDepth);
    scanner.skipSpace();
    scanner.expect("(");
    const conditions: Condition[] = [];
    do conditions.push(this.#condition(level));
    while (scanner.takes(","));
    scanner.expect(")", '"," or ")"');
    scanner.skipSpace();
    return { kind: "logic", operator, isNegated, conditions };
  }

  #condition(level: number): Condition {
    const scanner = this.#scanner;
    scanner.skipSpace();
    const isNegated = this.#takesNot();
    const operator = this.#takeOperator();
    return operator === null ? this.#filter(isNegated) : this.read(operator, isNegated, level + 1);
  }

  #filter(isNegated: boolean): Condition {
    const scanner = this.#scanner;
    const field = readField(scanner);
    scanner.expect(".");
    const operation = readOperation(scanner, readText);
    scanner.skipSpace();
    const value = this.#options.addValue(operation.text);
    return filterOf(field, { ...operation, isNegated: operation.isNegated !== isNegated }, value);
  }

  /** In `not.eq.1`, `not` is the name of a column. */
  #takesNot(): boolean {
    const scanner = this.#scanner;
    return scanner.sees("not.") && !seesOperator(scanner, scanner.at + "not.".length) && scanner.takes("not.");
  }

  /** `and` or `or` before a bracket. Otherwise they may be the beginning of a name. */
  #takeOperator(): Logic["operator"] | null {
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

/** A value ends at a comma or bracket, unless it is quoted or an array in braces. */
const readText = (scanner: Scanner) => scanner.takeMatch(ARRAY) ?? readElement(scanner);

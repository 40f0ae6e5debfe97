import { OPERATORS } from "../../../db/filters/operators.ts";
import type { Comparison } from "../../../db/filters/parse.ts";
import { ConditionCounter, PatternError } from "../../../db/filters/patterns.ts";
import type { Problem } from "../../../db/problems/problem.ts";
import { expensivePattern, patternTooLong, tooMany, tooManyRepetitions } from "../problem.ts";
import type { ParseLimits } from "../request.ts";

/** Counts the conditions of a request and its patterns. */
export class OperationCounter {
  readonly #counter: ConditionCounter;

  constructor(limits: ParseLimits) {
    this.#counter = new ConditionCounter(limits);
  }

  /** Throws if a condition exceeds a limit. */
  count({ operator, quantifier, text }: Comparison): void {
    const { pattern } = OPERATORS[operator];
    const patterns = pattern === undefined ? [] : quantifier === null ? [text] : elementsOf(text);
    try {
      this.#counter.count(patterns, pattern === "regular");
    } catch (error) {
      throw error instanceof PatternError ? PROBLEMS[error.fault](error.max) : error;
    }
  }
}

const PROBLEMS: Readonly<Record<PatternError["fault"], (max: number) => Problem>> = {
  conditions: (max) => tooMany("conditions", max),
  patterns: (max) => tooMany("patterns (like, match, full-text search)", max),
  length: patternTooLong,
  repetitions: tooManyRepetitions,
  expensive: expensivePattern,
};

const ELEMENT = /"(?:\\.|[^"\\])*"?|(?:\\.|[^"\\,{}])+/gs;

/** The elements of an array literal: `{a,"b,c"}` → `["a", "b,c"]`. Postgres refuses a malformed literal later. */
const elementsOf = (literal: string): string[] =>
  (literal.match(ELEMENT) ?? []).map((text) => text.replace(/^"|"$/g, "").replaceAll(/\\(.)/gs, "$1"));

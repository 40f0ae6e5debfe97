import type { Operator } from "../operators.ts";
import { expensivePattern, patternTooLong, tooMany, tooManyRepetitions } from "../problem.ts";
import type { ParseLimits } from "../request.ts";
import type { Operation } from "./conditions.ts";

const REGULAR: ReadonlySet<Operator> = new Set<Operator>(["match", "imatch"]);
const PATTERNS: ReadonlySet<Operator> = new Set<Operator>([
  ...REGULAR,
  ...(["like", "ilike", "fts", "plfts", "phfts", "wfts"] as const),
]);

/**
 * Counts the conditions of a request and its patterns, which cost Postgres the most: it keeps 32 compiled regular expressions,
 * and with more in one query it compiles them again for every row.
 */
export class ConditionCounter {
  readonly #limits: ParseLimits;
  #conditions = 0;
  #patterns = 0;

  constructor(limits: ParseLimits) {
    this.#limits = limits;
  }

  /** Throws if a condition exceeds a limit. */
  count(operation: Operation): void {
    const { conditions } = this.#limits;
    if (++this.#conditions > conditions) throw tooMany("conditions", conditions);
    if (PATTERNS.has(operation.operator)) this.#countPatterns(operation);
  }

  #countPatterns({ operator, quantifier, text }: Operation): void {
    const { patterns, patternLength } = this.#limits;
    const own = quantifier === null ? [text] : elementsOf(text);
    this.#patterns += own.length;
    if (this.#patterns > patterns) throw tooMany("patterns (like, match, full-text search)", patterns);
    for (const pattern of own) {
      if (pattern.length > patternLength) throw patternTooLong(patternLength);
      if (REGULAR.has(operator) && expandedLength(pattern) > patternLength) throw tooManyRepetitions(patternLength);
    }
  }
}

const ELEMENT = /"(?:\\.|[^"\\])*"?|(?:\\.|[^"\\,{}])+/gs;

/** The elements of an array literal: `{a,"b,c"}` → `["a", "b,c"]`. Postgres refuses a malformed literal later. */
const elementsOf = (literal: string): string[] =>
  (literal.match(ELEMENT) ?? []).map((text) => text.replace(/^"|"$/g, "").replaceAll(/\\(.)/gs, "$1"));

/** A comment, a bracket expression, an escape, the start or end of a group, a quantifier, or another character. */
const TOKEN =
  /\(\?#[^)]*\)|\[\^?\]?(?:\[[.:=].*?[.:=]\]|\\.|[^\]\\])*\]|\\.|\((?:\?(?::|<?[=!]))?|\)|[*+?]\??|\{(\d+)(?:(,)(\d*))?\}\??|./gsu;

/** `***=` and `(?x)` choose another syntax, which is not parsed here. */
const OTHER_SYNTAX = /^\*\*\*|^\(\?[a-z]*[bexq]/;

/** A backreference or lookaround, which Postgres cannot match in linear time. */
const EXPENSIVE = /^\\[1-9]|^\(\?<?[=!]/;

type Group = { length: number; last: number; isGroup: boolean };

/**
 * The length of a regular expression after its repetitions are written out, as Postgres does: 6 for `a(bc?){2}.`, 2500 for
 * `(a{50}){50}`. The time to match it grows with this length. Throws 2201B for expensive and unusual syntax.
 * Source: PostgreSQL, src/backend/regex/regcomp.c, repeat().
 */
export function expandedLength(pattern: string): number {
  if (OTHER_SYNTAX.test(pattern)) throw expensivePattern();
  const groups: Group[] = [{ length: 0, last: 0, isGroup: false }];
  for (const [token, least, isRange, most] of pattern.matchAll(TOKEN)) {
    const group = groups.at(-1)!;
    if (EXPENSIVE.test(token)) throw expensivePattern();
    if (token.startsWith("(?#")) continue;
    if (token.startsWith("(")) groups.push({ length: 0, last: 0, isGroup: false });
    else if (token === ")" && groups.length > 1) add(groups[groups.length - 2]!, groups.pop()!.length, true);
    else if (least !== undefined) repeat(group, isRange === undefined ? +least : most ? +most : +least + 1);
    else if (token.startsWith("+")) repeat(group, group.isGroup ? 2 : 1);
    else if (!/^[*?]/.test(token)) add(group, 1, false);
  }
  return groups.reduce((sum, { length }) => sum + length, 0);
}

function add(group: Group, length: number, isGroup: boolean): void {
  group.length += length;
  group.last = length;
  group.isGroup = isGroup;
}

function repeat(group: Group, times: number): void {
  group.length += group.last * Math.max(0, times - 1);
  group.last *= Math.max(1, times);
}

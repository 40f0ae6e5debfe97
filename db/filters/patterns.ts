import type { Config } from "../../config/config.ts";
/** A limit on conditions and patterns that a request exceeds. */
export class PatternError extends Error {
  readonly fault: keyof typeof FAULTS;
  readonly max: number;

  constructor(fault: keyof typeof FAULTS, max: number) {
    super(FAULTS[fault](max));
    this.fault = fault;
    this.max = max;
  }
}

const FAULTS = {
  conditions: (max: number) => `a request may have at most ${max} conditions`,
  patterns: (max: number) => `a request may have at most ${max} patterns (like, match, full-text search)`,
  length: (max: number) => `a pattern may have at most ${max} characters`,
  repetitions: (max: number) =>
    `a regular expression may have at most ${max} characters after its repetitions are written out`,
  expensive: () =>
    "a regular expression must not have backreferences, lookahead or lookbehind, or select another syntax",
};

/** Conditions include those within `and` and `or`; each element of `like(any).{…}` is a pattern. */
export type PatternLimits = Pick<Config, "restMaxConditions" | "restMaxPatterns" | "restMaxPatternLength">;

/**
 * Counts the conditions of a request and its patterns, which cost Postgres the most: it keeps 32 compiled regular expressions,
 * and with more in one query it compiles them again for every row.
 */
export class ConditionCounter {
  readonly #limits: PatternLimits;
  #conditions = 0;
  #patterns = 0;

  constructor(limits: PatternLimits) {
    this.#limits = limits;
  }

  /** A condition with these patterns. Throws PatternError if it exceeds a limit. */
  count(patterns: readonly string[], areRegular: boolean): void {
    const { restMaxConditions, restMaxPatterns, restMaxPatternLength } = this.#limits;
    if (++this.#conditions > restMaxConditions) throw new PatternError("conditions", restMaxConditions);
    this.#patterns += patterns.length;
    if (this.#patterns > restMaxPatterns) throw new PatternError("patterns", restMaxPatterns);
    for (const pattern of patterns) checkPattern(pattern, areRegular, restMaxPatternLength);
  }
}

/** Throws PatternError. */
export function checkPattern(pattern: string, isRegular: boolean, maxLength: number): void {
  if (pattern.length > maxLength) throw new PatternError("length", maxLength);
  if (isRegular && expandedLength(pattern) > maxLength) throw new PatternError("repetitions", maxLength);
}

/** A text in quotes with the pattern of `like_regex` before it, another text or name in quotes, or a comment. */
const PATH_TOKEN = /(like_regex(?:\s|\/\*.*?\*\/)*)?"((?:\\.|[^"\\])*)"?|\/\*.*?\*\//gis;
const PATH_ESCAPE = /\\(?:u\{([\da-f]{1,6})\}|u([\da-f]{4})|x([\da-f]{2})|(.))/gis;
const CONTROL: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

/** The regular expressions in a SQL/JSON path: `$ ? (@ like_regex "^a\\d")` → `["^a\d"]`. Source: jsonpath_scan.l in PostgreSQL. */
export const expressionsInPath = (path: string): string[] =>
  [...path.matchAll(PATH_TOKEN)].flatMap(([, operator, text]) => (operator === undefined ? [] : [unescaped(text!)]));

const unescaped = (text: string): string =>
  text.replaceAll(PATH_ESCAPE, (_, braces, four, two, other) => {
    const code = Number.parseInt(braces ?? four ?? two ?? "", 16);
    if (Number.isNaN(code)) return CONTROL[other] ?? other;
    return code > 0x10ffff ? "" : String.fromCodePoint(code);
  });

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
 * `(a{50}){50}`. The time to match it grows with this length. Throws PatternError for expensive and unusual syntax.
 * Source: PostgreSQL, src/backend/regex/regcomp.c, repeat().
 */
export function expandedLength(pattern: string): number {
  if (OTHER_SYNTAX.test(pattern)) throw new PatternError("expensive", 0);
  const groups: Group[] = [{ length: 0, last: 0, isGroup: false }];
  for (const [token, least, isRange, most] of pattern.matchAll(TOKEN)) {
    const group = groups.at(-1)!;
    if (EXPENSIVE.test(token)) throw new PatternError("expensive", 0);
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

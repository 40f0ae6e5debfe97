import { problem } from "../../problems/problem.ts";
import type { DatabaseLimits } from "../limits.ts";
import { OPERATORS, type Operator } from "./operators.ts";

/** Maximum values in all lists of a request, such as `in.(1,2)`. To parse so many takes 20 ms. */
export const MAX_VALUES = 50_000;

/** Conditions include those within `and` and `or`; each element of `like(any).{…}` is a pattern. */
export type PatternLimits = Pick<DatabaseLimits, "restMaxConditions" | "restMaxPatterns" | "restMaxPatternLength">;

/** Of a condition: its text, and how many values its list has. */
type Counted = {
  readonly operator: Operator;
  readonly quantifier: "any" | "all" | null;
  readonly text: string;
  readonly listed: number;
};

/**
 * Counts the conditions of a request and its patterns, which cost Postgres the most: it keeps 32 compiled regular expressions,
 * and with more in one query it compiles them again for every row.
 */
export class ConditionCounter {
  readonly #limits: PatternLimits;
  #conditions = 0;
  #patterns = 0;
  #values = 0;

  constructor(limits: PatternLimits) {
    this.#limits = limits;
  }

  /** Throws Problem if the condition exceeds a limit. */
  count({ operator, quantifier, text, listed }: Counted): void {
    const { restMaxConditions, restMaxPatterns, restMaxPatternLength } = this.#limits;
    if (++this.#conditions > restMaxConditions) throw tooMany("conditions", restMaxConditions);
    this.#values += listed;
    if (this.#values > MAX_VALUES) throw tooMany("values in lists", MAX_VALUES);
    const { pattern } = OPERATORS[operator];
    if (pattern === undefined) return;
    const patterns = quantifier === null ? [text] : elementsOf(text);
    this.#patterns += patterns.length;
    if (this.#patterns > restMaxPatterns) throw tooMany("patterns (like, match, full-text search)", restMaxPatterns);
    for (const each of patterns) checkPattern(each, pattern === "regular", restMaxPatternLength);
  }
}

export const tooMany = (what: string, max: number) =>
  problem("too many", { max, what, hint: "Split it into several requests." });

const ELEMENT = /"(?:\\.|[^"\\])*"?|(?:\\.|[^"\\,{}])+/gs;

/** The elements of an array literal: `{a,"b,c"}` → `["a", "b,c"]`. Postgres refuses a malformed literal later. */
const elementsOf = (literal: string): string[] =>
  (literal.match(ELEMENT) ?? []).map((text) => text.replace(/^"|"$/g, "").replaceAll(/\\(.)/gs, "$1"));

/** Throws Problem. */
export function checkPattern(pattern: string, isRegular: boolean, max: number): void {
  if (pattern.length > max) throw problem("pattern too long", { max });
  if (isRegular && expandedLength(pattern) > max)
    throw problem("too many repetitions", { max, details: "The part that {2,5} repeats counts five times." });
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

const expensivePattern = () => problem("expensive pattern", { details: "Postgres may take very long to match them." });

/** `^`, `$`, or the start or end of a word or of the text. */
const ANCHOR = /^(?:[\^$]|\\[AZmMyY]|\[\[:[<>]:\]\])$/;
/** The time to compile anchors grows exponentially. Measured: 10 take 8 ms, 16 can take 3 seconds, and 6 in a part that is repeated too. */
const MAX_ANCHORS = 10;

type Group = { length: number; last: number; isGroup: boolean; anchors: number; lastAnchors: number };

const NO_GROUP: Group = { length: 0, last: 0, isGroup: false, anchors: 0, lastAnchors: 0 };

/**
 * The length of a regular expression after its repetitions are written out, as Postgres does: 6 for `a(bc?){2}.`, 2500 for
 * `(a{50}){50}`. The time to match it grows with this length. Throws Problem for expensive and unusual syntax.
 * Source: PostgreSQL, src/backend/regex/regcomp.c, repeat(), and regc_nfa.c, fixconstraintloops().
 */
export function expandedLength(pattern: string): number {
  if (OTHER_SYNTAX.test(pattern)) throw expensivePattern();
  const groups: Group[] = [{ ...NO_GROUP }];
  let anchors = 0;
  for (const [token, least, isRange, most] of pattern.matchAll(TOKEN)) {
    const group = groups.at(-1)!;
    if (EXPENSIVE.test(token)) throw expensivePattern();
    if (token.startsWith("(?#")) continue;
    const isRepeated = least !== undefined || /^[*+]/.test(token);
    const isAnchor = ANCHOR.test(token);
    if (isAnchor) anchors++;
    if (anchors > MAX_ANCHORS || (isRepeated && group.lastAnchors > 0))
      throw problem("expensive anchors", { max: MAX_ANCHORS });
    if (token.startsWith("(")) groups.push({ ...NO_GROUP });
    else if (token === ")" && groups.length > 1) {
      const closed = groups.pop()!;
      add(groups.at(-1)!, closed.length, closed.anchors, true);
    } else if (least !== undefined) repeat(group, isRange === undefined ? +least : most ? +most : +least + 1);
    else if (token.startsWith("+")) repeat(group, group.isGroup ? 2 : 1);
    else if (!/^[*?]/.test(token)) add(group, 1, isAnchor ? 1 : 0, false);
  }
  return groups.reduce((sum, { length }) => sum + length, 0);
}

function add(group: Group, length: number, anchors: number, isGroup: boolean): void {
  group.length += length;
  group.last = length;
  group.isGroup = isGroup;
  group.anchors += anchors;
  group.lastAnchors = anchors;
}

function repeat(group: Group, times: number): void {
  group.length += group.last * Math.max(0, times - 1);
  group.last *= Math.max(1, times);
}

import { describe, expect, test } from "vitest";
import { expandedLength, expressionsInPath } from "../../../../db/filters/patterns.ts";
import { Problem } from "../../../../problems/problem.ts";
import { LIMITS, parse, problemOf } from "./parse.ts";

test.each([
  ["", 0],
  ["abc", 3],
  ["a{3}", 3],
  ["a{2,5}b", 6],
  ["a{3,}", 4],
  ["a{0}", 1],
  ["a+b*c?", 3],
  ["a(bc?){2}.", 6],
  ["(a{50}){50}", 2500],
  ["((a{10}){10}){10}", 1000],
  ["(?:ab){4}", 8],
  ["(ab)+", 4],
  ["((a+)+)+$", 5],
  ["[abc]{9}[^]a]{2}[[:digit:]x]{3}[\\]a]{4}", 18],
  ["\\d{4}-\\d{2}", 7],
  ["\\({3}", 3],
  ["(a)(?#comment){3}", 3],
  ["a{x}", 4],
  ["a{2}?", 2],
  ["(a|b){3}", 9],
  ["(a{9}", 9],
  ["a)", 2],
  ["😀{3}", 3],
  ["(?i)abc", 4],
])("the regular expression %s has the length %i when its repetitions are written out", (pattern, length) => {
  expect(expandedLength(pattern)).toBe(length);
});

test.each([
  ...["(a)\\1", "\\\\(a)\\9", "(a)\\\\\\1", "(?=a)b", "a(?!b)", "(?<=a)b", "(?<!a)b"],
  ...[
    "\\y".repeat(11),
    "(\\y|a)*",
    "((^a|b)c)+",
    "(a$|b){2}",
    "([[:<:]]a)*?",
    "((\\Aa)?b){0,2}",
    "\\m+",
    "(?:x(?:\\Zb)?)*",
  ],
  ...["***=a", "***:a", "(?x)a {9}", "(?b)\\(a\\)\\{9\\}", "(?ie)a", "(?q)a"],
])("the regular expression %s is refused", (pattern) => {
  expect(() => expandedLength(pattern)).toThrow(Problem);
  expect(problemOf(() => parse(`t?a=match.${encodeURIComponent(pattern)}`))).toMatchObject({ code: "2201B" });
});

test.each([
  "(a)\\\\1",
  "[(?=]",
  "\\(?=a",
  "(?:a)?=",
  "a\\.1",
  "\\m\\w+\\M",
  "(?i)^a",
  "^(a|b)+$",
  "(\\y|a)?(b)*",
  "(^|,)(a|\\\\y|[$^])*(,|$)",
  `${"\\ya".repeat(10)}b*`,
])("the regular expression %s is not", (text) => {
  expect(() => expandedLength(text)).not.toThrow();
});

test.each([
  ['$.a ? (@ like_regex "^x(b)")', ["^x(b)"]],
  ['$ ? (@.a like_regex/* one */"(a)\\\\1" flag "i" || @ LIKE_REGEX "b")', ["(a)\\1", "b"]],
  ['$ ? (@ like_regex "\\u0061\\u{62}\\x63\\"")', ['abc"']],
  ['$."like_regex" ? (@ == "like_regex \\"(a)\\"") /* like_regex "x" */', []],
])("the regular expressions of the path %s are %j", (path, expressions) => {
  expect(expressionsInPath(path)).toEqual(expressions);
});

/** The problem of each query with the value at the limit and beyond it. */
const { restMaxConditions: conditions, restMaxPatterns: patterns, restMaxPatternLength: patternLength } = LIMITS;
const list = (count: number, text: string) => Array(count).fill(text).join(",");
const pairs = (count: number, text: string) => Array(count).fill(text).join("&");

describe("a request at the limit is read, and one beyond it is refused:", () => {
  test.each([
    ["filters", conditions, (n: number) => `t?${pairs(n, "a=eq.1")}`],
    ["filters within or", conditions, (n: number) => `t?or=(${list(n, "a.eq.1")})`],
    ["filters of relations", conditions, (n: number) => `t?select=r(a)&a=eq.1&${pairs(n - 1, "r.a=eq.1")}`],
    ["filters of a function", conditions, (n: number) => `rpc/f?x=1&${pairs(n, "a=eq.1")}`],
  ])("%s, at most %i", (_what, max, url) => {
    expect(() => parse(url(max))).not.toThrow();
    const message = `a request may have at most ${max} conditions`;
    expect(problemOf(() => parse(url(max + 1)))).toMatchObject({ status: 400, code: "PGRST100", message });
  });

  test.each([
    ["like", patterns, (n: number) => `t?${pairs(n, "a=like.*x*")}`],
    ["not.ilike", patterns, (n: number) => `t?${pairs(n, "a=not.ilike.*x*")}`],
    ["match and imatch", patterns, (n: number) => `t?a=imatch.x&${pairs(n - 1, "a=match.x")}`],
    ["full-text search", patterns, (n: number) => `t?a=fts.x&a=plfts.x&a=phfts(english).x&${pairs(n - 3, "a=wfts.x")}`],
    ["within or", patterns, (n: number) => `t?or=(${list(n, "a.match.x")})`],
    ["of relations", patterns, (n: number) => `t?select=r(a)&a=match.x&${pairs(n - 1, "r.a=match.x")}`],
    ["in one quantified filter", patterns, (n: number) => `t?a=match(any).{${list(n, "x")}}`],
    ["quoted in one quantified filter", patterns, (n: number) => `t?a=like(all).{${list(n, '"x,\\"y"')}}`],
    ["of a function", patterns, (n: number) => `rpc/f?${pairs(n, "a=match.x")}`],
  ])("patterns %s, at most %i", (_what, max, url) => {
    expect(() => parse(url(max))).not.toThrow();
    const message = `a request may have at most ${max} patterns (like, match, full-text search)`;
    expect(problemOf(() => parse(url(max + 1)))).toMatchObject({ status: 400, code: "PGRST100", message });
  });

  test.each([
    ["like", (n: number) => `t?a=like.${"x".repeat(n)}`],
    ["ilike, in a quantified filter", (n: number) => `t?a=ilike(any).{y,"${"x".repeat(n)}"}`],
    ["match", (n: number) => `t?a=match.${"x".repeat(n)}`],
    ["wfts", (n: number) => `t?a=wfts.${"x".repeat(n)}`],
  ])("characters of a pattern of %s", (_what, url) => {
    expect(() => parse(url(patternLength))).not.toThrow();
    const message = `a pattern may have at most ${patternLength} characters`;
    expect(problemOf(() => parse(url(patternLength + 2)))).toMatchObject({ status: 400, code: "PGRST100", message });
  });

  test.each([
    ["match", (n: number) => `t?a=match.(xx){${n / 2}}`],
    ["imatch in a quantified filter", (n: number) => `t?a=imatch(any).{"(xx){${n / 2}}"}`],
  ])("characters of a regular expression of %s after its repetitions are written out", (_what, url) => {
    expect(() => parse(url(patternLength))).not.toThrow();
    const message = `a regular expression may have at most ${patternLength} characters after its repetitions are written out`;
    expect(problemOf(() => parse(url(patternLength + 2)))).toMatchObject({ status: 400, code: "2201B", message });
  });

  test("but not the elements of in and the values of other operators", () => {
    expect(() =>
      parse(`t?a=in.(${list(1000, "x")})&b=eq.${"x".repeat(1000)}&c=eq(any).{${list(500, "x")}}`),
    ).not.toThrow();
  });
});

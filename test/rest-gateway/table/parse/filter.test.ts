import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

const encode = encodeURIComponent;

/** The filter of `title=…`, with its value instead of the index. */
function filterOf(text: string) {
  const { query, values } = parse(`t?title=${encode(text)}`);
  const [filter] = query.parts.get("")!.conditions;
  expect(filter).toMatchObject({ kind: "filter", field: { name: "title", path: [] }, value: 0 });
  const { kind, field, value, ...rest } = filter as any;
  return { ...rest, value: values[value] };
}

const plain = { isNegated: false, quantifier: null, language: null, keyword: null };

test.each(
  "eq neq gt gte lt lte like ilike match imatch isdistinct cs cd ov sl sr nxr nxl adj fts plfts phfts wfts".split(" "),
)("title=%s.x is a filter with that operator, and may be negated", (operator) => {
  expect(filterOf(`${operator}.x`)).toEqual({ ...plain, operator, value: "x" });
  expect(filterOf(`not.${operator}.x`)).toEqual({ ...plain, isNegated: true, operator, value: "x" });
});

test.each("eq gt gte lt lte like ilike match imatch".split(" "))("title=%s accepts (any) and (all)", (operator) => {
  expect(filterOf(`${operator}(any).{x,y}`)).toEqual({ ...plain, operator, quantifier: "any", value: "{x,y}" });
  expect(filterOf(`${operator}(all).{x}`)).toEqual({ ...plain, operator, quantifier: "all", value: "{x}" });
});

test.each([
  ["eq.a.b,c(d)", "a.b,c(d)"], // a value may contain any character
  ['eq."a"', '"a"'],
  ["eq.", ""],
  ["eq. a ", " a "],
  ["eq.not.eq.1", "not.eq.1"],
  ["eq.ü 🙂\n", "ü 🙂\n"],
])("title=%s has the value %j", (text, value) => {
  expect(filterOf(text)).toEqual({ ...plain, operator: "eq", value });
});

test("`*` is a wildcard only for like and ilike", () => {
  expect(filterOf("like.*a*%_").value).toBe("%a%%_");
  expect(filterOf("ilike(any).{a*,*b}").value).toBe("{a%,%b}");
  expect(filterOf("match.a*").value).toBe("a*");
});

test("a text search may have a configuration", () => {
  expect(filterOf("fts(english).cat")).toEqual({ ...plain, operator: "fts", language: "english", value: "cat" });
  expect(filterOf("not.wfts( my german ).x")).toMatchObject({
    isNegated: true,
    operator: "wfts",
    language: "my german",
  });
});

test.each(["null", "not_null", "true", "false", "unknown"])(
  "title=is.%s is a filter in upper and lower case",
  (keyword) => {
    const filter = { ...plain, operator: "is", keyword, value: keyword };
    expect(filterOf(`is.${keyword}`)).toEqual(filter);
    expect(filterOf(`is.${keyword.toUpperCase()}`)).toEqual(filter);
    expect(filterOf(`not.is.${keyword}`)).toEqual({ ...filter, isNegated: true });
  },
);

test.each([
  ["in.()", "{}"],
  ['in.("")', '{""}'],
  ["in.(,)", '{"",""}'],
  ["in.(1,2)", '{"1","2"}'],
  ["in. ( 1,2 ) ", '{"1","2 "}'],
  ["in.(a b,null,{x})", '{"a b","null","{x}"}'],
  ['in.("a,b","c)d",e)', '{"a,b","c)d","e"}'],
  [String.raw`in.("a\"b","c\\d","\e")`, String.raw`{"a\"b","c\\d","e"}`],
  [String.raw`in.(a"b,c\d)`, String.raw`{"a\"b","c\\d"}`],
  ['in.("a"b)', String.raw`{"\"a\"b"}`], // the quotes do not enclose the whole element
  ['in.("a,b)', String.raw`{"\"a","b"}`],
])("title=%s has the array %s as its value", (text, value) => {
  expect(filterOf(text)).toEqual({ ...plain, operator: "in", value });
});

test.each([
  ["x", 1, '"not" or an operator (eq, gt, ...)'],
  ["", 1, '"not" or an operator (eq, gt, ...)'],
  ["equals.x", 1, '"not" or an operator (eq, gt, ...)'],
  ["constructor.x", 1, '"not" or an operator (eq, gt, ...)'],
  ["EQ.x", 1, '"not" or an operator (eq, gt, ...)'],
  ["not.not.eq.x", 5, "an operator (eq, gt, ...)"],
  ["not.x", 5, "an operator (eq, gt, ...)"],
  ["eq", 3, '"."'],
  ["eq(some).x", 3, '"(any)", "(all)" or "."'],
  ["eq(any)x", 8, '"."'],
  ["neq(any).x", 4, '"."'],
  ["in(any).(1)", 3, '"."'],
  ["is(null).x", 3, '"."'],
  ["fts().x", 5, "a text search configuration"],
  ["fts(a.b).x", 6, '")"'],
  ["is.nul", 4, "null, not_null, true, false or unknown"],
  ["is.nullx", 4, "null, not_null, true, false or unknown"],
  ["in.1,2", 4, '"("'],
  ["in.(1,2", 8, '"," or ")"'],
  ["in.(1,2)x", 9, "the end"],
] as const)("title=%s is refused at character %i, where %s should be", (text, character, expected) => {
  const { status, code, message, details } = problemOf(() => filterOf(text));
  expect({ status, code, message }).toEqual({
    status: 400,
    code: "PGRST100",
    message: `failed to parse filter (${text})`,
  });
  expect(details).toContain(`at character ${character}: expected ${expected}, found `);
});

test("a list of many elements is parsed", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => `"${i}"`);
  expect(filterOf(`in.(${many.join(",")})`).value).toBe(`{${many.join(",")}}`);
});

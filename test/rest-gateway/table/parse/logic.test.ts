import { expect, test } from "vitest";
import type { Condition } from "../../../../db/filters/condition.ts";
import type { Field } from "../../../../db/filters/field.ts";
import { parse, problemOf } from "./parse.ts";

/** The conditions as text with their values: `or(eq(id, 1), not and(…))`. */
function written(condition: Condition<Field>, values: readonly string[]): string {
  const not = condition.isNegated ? "not " : "";
  if (condition.kind === "logic")
    return `${not}${condition.operator}(${condition.conditions.map((each) => written(each, values)).join(", ")})`;
  const { field, operator, quantifier, language, value } = condition;
  const name = field.name + field.path.map(({ arrow, key }) => `${arrow}${JSON.stringify(key)}`).join("");
  return `${not}${[operator, quantifier, language].filter(Boolean).join(" ")}(${name}, ${values[value]})`;
}

function conditionsOf(search: string): string[] {
  const { query, values } = parse(`t?${search.replaceAll("%", "%25").replaceAll("+", "%2B")}`);
  return query.parts.get("")!.conditions.map((condition) => written(condition, values));
}

test.each([
  ["or=(id.eq.1,name.gt.b)", "or(eq(id, 1), gt(name, b))"],
  ["and=(id.eq.1)", "and(eq(id, 1))"],
  ["not.or=(id.eq.1,id.eq.2)", "not or(eq(id, 1), eq(id, 2))"],
  ["not.and=(id.eq.1)", "not and(eq(id, 1))"],
  ["or= ( id.eq.1 , name.eq.b )", "or(eq(id, 1 ), eq(name, b ))"], // a value is verbatim
  ["or=(id.is.null , a.in.(1) , b.cs.{x} )", 'or(is(id, null), in(a, {"1"}), cs(b, {x}))'],
  ["or=(id.eq.1,and(a.eq.2,or(b.eq.3,c.eq.4)))", "or(eq(id, 1), and(eq(a, 2), or(eq(b, 3), eq(c, 4))))"],
  ["or=(not.and(a.eq.1,b.eq.2),c.eq.3)", "or(not and(eq(a, 1), eq(b, 2)), eq(c, 3))"],
  ["or=(and (a.eq.1) ,b.eq.2)", "or(and(eq(a, 1)), eq(b, 2))"],
  ["or=(a.not.eq.1,not.b.is.null)", "or(not eq(a, 1), not is(b, null))"],
  ["or=(not.b.not.is.null)", "or(is(b, null))"],
  ["or=(a.is.NOT_NULL,b.is.True)", "or(is(a, not_null), is(b, true))"],
  ["or=(not.eq.1,or.eq.2,and.eq.3,order.eq.4)", "or(eq(not, 1), eq(or, 2), eq(and, 3), eq(order, 4))"],
  ['or=("a.b".eq.1,"and".eq.2,a b.eq.3)', "or(eq(a.b, 1), eq(and, 2), eq(a b, 3))"],
  ["or=(data->a->>b.eq.1,data->0.eq.2)", 'or(eq(data->"a"->>"b", 1), eq(data->0, 2))'],
  ["or=(a.eq.1.5,b.eq.x:y)", "or(eq(a, 1.5), eq(b, x:y))"],
  ['or=(a.eq."x,y)",b.eq."c\\"d\\\\")', 'or(eq(a, x,y)), eq(b, c"d\\))'],
  ['or=(a.eq."x"y,b.eq.z)', 'or(eq(a, "x"y), eq(b, z))'],
  ["or=(a.eq.,b.eq.)", "or(eq(a, ), eq(b, ))"],
  ["or=(a.in.(1,2),b.in.())", 'or(in(a, {"1","2"}), in(b, {}))'],
  ['or=(a.not.in.("x,y",z),b.eq.1)', 'or(not in(a, {"x,y","z"}), eq(b, 1))'],
  ["or=(a.cs.{x,y},b.eq.1)", "or(cs(a, {x,y}), eq(b, 1))"],
  ['or=(a.cs.{"x)","y"})', 'or(cs(a, {"x)","y"}))'],
  ['or=(a.cs.{"k":1,"l":2},b.eq.1)', 'or(cs(a, {"k":1,"l":2}), eq(b, 1))'],
  ['or=(a.cs."{{1,2},{3,4}}")', "or(cs(a, {{1,2},{3,4}}))"],
  ["or=(a.eq.{x,b.eq.1)", "or(eq(a, {x), eq(b, 1))"], // not an array without the closing brace
  ['or=(r.ov."[1,3)",b.eq.1)', "or(ov(r, [1,3)), eq(b, 1))"],
  ["or=(a.like(any).{x*,y*},b.ilike.*z)", "or(like any(a, {x%,y%}), ilike(b, %z))"],
  ["or=(a.fts(english).cat,b.eq.1)", "or(fts english(a, cat), eq(b, 1))"],
])("%s is parsed into a logic tree", (search, condition) => {
  expect(conditionsOf(search)).toEqual([condition]);
});

test("conditions of a request are combined in order", () => {
  expect(conditionsOf("a=eq.1&or=(b.eq.2,c.eq.3)&a=lt.4&and=(d.eq.5)")).toEqual([
    "eq(a, 1)",
    "or(eq(b, 2), eq(c, 3))",
    "lt(a, 4)",
    "and(eq(d, 5))",
  ]);
});

test.each([
  ["", 1, '"("'],
  ["id.eq.1", 1, '"("'],
  ["()", 2, "a name"],
  ["(id.eq.1,)", 10, "a name"],
  ["(id.eq.1", 9, '"," or ")"'],
  ["(id.eq.1)x", 10, "the end"],
  ["(id)", 4, '"."'],
  ["(id.equals.1)", 5, "an operator (eq, gt, ...)"],
  ["(not.xor(a.eq.1))", 9, '"."'],
  ["(rel.id.eq.1)", 6, "an operator (eq, gt, ...)"],
  ["(id.in.1,2)", 8, '"("'],
  ["(r.ov.[1,3),id.eq.2)", 11, '"."'], // a range needs quotes
  ["(a.cs.{x}y)", 10, '"," or ")"'],
  ["(a.is.nothing)", 7, "null, not_null, true, false or unknown"],
])("or=%s is refused at character %i, where %s should be", (text, character, expected) => {
  expect(problemOf(() => conditionsOf(`or=${text}`))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: `failed to parse logic tree (${text})`,
    details: expect.stringContaining(`at character ${character}: expected ${expected}, found `),
  });
});

test("and and or are nested up to the limit of levels", () => {
  expect(conditionsOf("or=(and(or(a.eq.1)))")).toEqual(["or(and(or(eq(a, 1))))"]);
  const refused = { status: 400, message: "the logic tree is nested more than 3 levels deep" };
  expect(problemOf(() => conditionsOf("or=(and(or(and(a.eq.1))))"))).toMatchObject(refused);
  expect(problemOf(() => conditionsOf(`or=${"(or".repeat(100_000)}`))).toMatchObject(refused);
});

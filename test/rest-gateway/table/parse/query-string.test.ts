import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

const encode = encodeURIComponent;

type Refused = readonly [text: string, character: number, expected: string];

const refuse = (url: string, what: string, [text, character, expected]: Refused) =>
  expect(problemOf(() => parse(url))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: `failed to parse ${what} (${text})`,
    details: expect.stringContaining(`at character ${character}: expected ${expected}, found `),
  });

test.each<Refused>([
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
  ["is.nullx", 4, "null, not_null, true, false or unknown"],
  ["in.1,2", 4, '"("'],
  ["in.(1,2", 8, '"," or ")"'],
  ["in.(1,2)x", 9, "the end"],
])("title=%s is refused at character %i, where %s should be", (...row) =>
  refuse(`t?title=${encode(row[0])}`, "filter", row),
);

test.each<Refused>([
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
])("or=%s is refused at character %i, where %s should be", (...row) =>
  refuse(`t?or=${encode(row[0])}`, "logic tree", row),
);

const ENDINGS = '".asc", ".desc", ".nullsfirst", ".nullslast", "," or the end';

test.each<Refused>([
  ["", 1, "a name"],
  ["a,", 3, "a name"],
  ["a.up", 2, ENDINGS],
  ["a.descc", 7, ENDINGS],
  ["a.asc.", 6, ENDINGS],
  ["a.nullslast.desc", 12, ENDINGS],
  ["author(name,id)", 12, '")"'],
  ["author()", 8, "a name"],
  ["data->x(name)", 8, ENDINGS],
])("order=%s is refused at character %i, where %s should be", (...row) =>
  refuse(`t?order=${encode(row[0])}`, "order", row),
);

test.each<Refused>([
  ["id,,name", 4, "a name"],
  ["id,", 4, "a name"],
  [",id", 1, "a name"],
  ["id)", 3, '"," or the end'],
  ["name[]", 5, '"," or the end'],
  ["a:b:c", 4, '"," or the end'],
  ["a(id", 5, '"," or ")"'],
  ["a(id))", 6, '"," or the end'],
  ["*x", 2, '"," or the end'],
  ["x:*", 3, "a name"],
  ["x:...a(b)", 3, "a name"],
  ["...x:a(b)", 5, '"!" or "("'],
  ["...a", 5, '"!" or "("'],
  ["a!b!c()", 4, '"("'],
  ["a!inner!left()", 8, '"("'],
  ["a!()", 3, "a name"],
  ["id::", 5, "a type"],
  ["id::int.sun()", 12, '"," or the end'],
  ['"id', 1, 'a name with a closing "'],
  ['""', 1, "a name"],
  ["a->", 4, "a key or an index"],
  ["a->-x", 4, "a key or an index"],
  ["a->2147483648", 4, "an index up to 2147483647, or a key in quotes"],
  ['a->"b', 4, 'a key with a closing "'],
])("select=%s is refused at character %i, where %s should be", (...row) => {
  const [text, character, expected] = row;
  const { status, code, message, details } = problemOf(() => parse(`t?select=${encode(text)}`));
  expect([status, code, message]).toEqual([400, "PGRST100", `failed to parse select parameter (${text})`]);
  expect(details).toMatch(new RegExp(`^at character ${character}: `));
  expect(details).toContain(`expected ${expected}, found `);
});

test.each<Refused>([
  ["", 1, "a name"],
  ["a.", 3, "a name"],
  ["a..b", 3, "a name"],
  ["a!b", 2, '".", "->", "->>" or the end'],
  ["a->b.c", 5, '".", "->", "->>" or the end'],
  ['"a', 1, 'a name with a closing "'],
])("%s=eq.1 is refused at character %i, where %s should be", (...row) =>
  refuse(`t?${row[0]}=eq.1`, "parameter name", row),
);

test.each<Refused>([
  ["x", 1, "a digit"],
  ["", 1, "a digit"],
  ["1.5", 2, "a digit"],
  ["1e3", 2, "a digit"],
  ["1000000000000000", 1, "a number of at most 15 digits"],
])("limit=%s is refused at character %i, where %s should be", (...row) => refuse(`t?limit=${row[0]}`, "limit", row));

test.each(["columns=", "columns=a,", "columns=a b(", "on_conflict=", "on_conflict=a,,b"])("%s is refused", (search) => {
  const message = expect.stringContaining(`failed to parse ${search.split("=")[0]} parameter (`);
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({ status: 400, code: "PGRST100", message });
});

test.each([
  ["a=eq.%ff", "eq.%ff", 4],
  ["a=eq.%C3%BC%C3x", "eq.%C3%BC%C3x", 4],
  ["a=eq.%00", "eq.\0", 4],
  ["%00=eq.1", "\0", 1],
  ["a=eq.\ud800", "eq.\ud800", 1],
])("%j is refused, because Postgres cannot store it", (search, text, character) => {
  const message = `failed to parse query string (${text})`;
  const details = expect.stringContaining(`at character ${character}: `);
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({ status: 400, code: "PGRST100", message, details });
});

test.each([
  ["a%zz", 2], // not hexadecimal digits
  ["abc%ff", 4], // invalid UTF-8
  ["%ED%A0%80", 1], // a surrogate
  ["a%00", 2],
])("the path %s is refused with the position of the error", (path, character) => {
  const details = expect.stringMatching(new RegExp(`^at character ${character}: expected `));
  expect(problemOf(() => parse(path))).toMatchObject({ status: 400, code: "PGRST100", details });
});

test.each([
  ["select", "select", "a(b(c(id)))", "a(b(c(d(id))))", "a(".repeat(100_000)],
  ["or", "the logic tree", "(and(or(a.eq.1)))", "(and(or(and(a.eq.1))))", "(or".repeat(100_000)],
])("%s is nested up to the limit of levels", (name, what, accepted, ...refused) => {
  expect(() => parse(`t?${name}=${accepted}`)).not.toThrow();
  const message = `${what} is nested more than 3 levels deep`;
  for (const text of refused)
    expect(problemOf(() => parse(`t?${name}=${text}`))).toMatchObject({ status: 400, message });
});

test("an alias has at most 63 bytes, like a name in Postgres", () => {
  for (const text of [`${"a".repeat(63)}:id`, "b".repeat(64)]) expect(() => parse(`t?select=${text}`)).not.toThrow();
  expect(problemOf(() => parse(`t?select=${"ä".repeat(32)}:id`))).toMatchObject({ status: 400, code: "PGRST100" });
});

test("the parameters of a function that are not filters are its arguments", () => {
  const search = "a=1&b=eq.2&c=&d=is.that&e=in.x&f=eq&a=3&g.h=x&%22i%22=x&j/k=x&data->x=y&limit=5&id=in.(6)";
  const { query, values } = parse(`rpc/f?${search}`);
  const given = [...query.arguments].map(([name, indexes]) => [name, ...indexes.map((index) => values[index])]);
  expect(given.map((names) => names.join(" "))).toEqual([
    "a 1 3",
    "c ",
    "d is.that",
    "e in.x",
    "f eq",
    "g.h x",
    "i x",
    "j/k x",
    "data->x y",
  ]);
  expect(query.parts.get("")).toMatchObject({ limit: 5, conditions: [{ operator: "eq" }, { operator: "in" }] });
});

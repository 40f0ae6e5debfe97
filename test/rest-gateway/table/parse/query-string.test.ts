import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

/** The relation and the field of a filter: `author.articles.title` → `["author.articles", field("title")]`. */
function placeOf(key: string): readonly [string, object] {
  const { parts } = parse(`t?${key}=eq.1`).query;
  for (const [path, { conditions }] of parts) {
    const [condition] = conditions;
    if (condition?.kind === "filter") return [path, condition.field];
  }
  throw new Error(`${key} is not a filter`);
}
const field = (name: string, ...path: readonly (readonly [string, string | number])[]) => ({
  name,
  path: path.map(([arrow, key]) => ({ arrow, key })),
});

test.each([
  ["id", "", field("id")],
  ["first+name", "", field("first name")],
  ["%22a.b%22", "", field("a.b")],
  ["créé", "", field("créé")],
  ["author.name", "author", field("name")],
  ["author.articles.title", "author.articles", field("title")],
  ['"my.author"."x.y"', "my.author", field("x.y")],
  ["data-%3Ea-%3E%3Eb", "", field("data", ["->", "a"], ["->>", "b"])],
  ["data->0->>-1", "", field("data", ["->", 0], ["->>", -1])],
  ['author.data->>"a.b"', "author", field("data", ["->>", "a.b"])],
  ['"limit"', "", field("limit")],
  ['author."order"', "author", field("order")],
  ["select.id", "select", field("id")],
  ["author.select", "author", field("select")],
  ["order->a", "", field("order", ["->", "a"])],
  ["not", "", field("not")],
  ["a-b", "", field("a-b")],
])("%s=eq.1 is a filter within %j", (key, path, wanted) => {
  expect(placeOf(key)).toEqual([path, wanted]);
});

test.each([
  ["", 1, "a name"],
  [".a", 1, "a name"],
  ["a.", 3, "a name"],
  ["a..b", 3, "a name"],
  ["a!b", 2, '".", "->", "->>" or the end'],
  ["a->b.c", 5, '".", "->", "->>" or the end'],
  ['"a', 1, 'a name with a closing "'],
])("%s=eq.1 is refused at character %i, where %s should be", (key, character, expected) => {
  expect(problemOf(() => placeOf(key))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: `failed to parse parameter name (${key})`,
    details: expect.stringContaining(`at character ${character}: expected ${expected}, found `),
  });
});

test("order, limits and conditions apply to the rows, or to the relation in the parameter name", () => {
  const { parts } = parse(
    "t?limit=1&offset=2&order=a&a.limit=3&a.offset=4&a.order=b.desc&a.b.or=(c.eq.1)&a.b.not.and=(d.eq.2)&not.a.or=(e.eq.3)",
  ).query;
  expect([...parts.keys()]).toEqual(["", "a", "a.b"]);
  expect(parts.get("")).toMatchObject({ limit: 1, offset: 2, order: [{ field: { name: "a" } }], conditions: [] });
  expect(parts.get("a")).toMatchObject({ limit: 3, offset: 4, order: [{ direction: "desc" }] });
  expect(parts.get("a")!.conditions).toMatchObject([{ operator: "or", isNegated: true }]);
  expect(parts.get("a.b")!.conditions).toMatchObject([
    { operator: "or", isNegated: false },
    { operator: "and", isNegated: true },
  ]);
});

test("the last of two limit parameters applies", () => {
  expect(parse("t?limit=1&limit=2&offset=3&offset=4").query.parts.get("")).toMatchObject({ limit: 2, offset: 4 });
});

test("the largest limit is accepted", () => {
  expect(parse("t").query.parts.get("")).toEqual({ conditions: [], order: [], limit: null, offset: 0 });
  expect(parse("t?limit=0&offset=0").query.parts.get("")).toMatchObject({ limit: 0, offset: 0 });
  expect(parse("t?limit=999999999999999").query.parts.get("")).toMatchObject({ limit: 999_999_999_999_999 });
});

test.each([
  ["limit=x", 1, "a digit"],
  ["limit=", 1, "a digit"],
  ["limit=1.5", 2, "a digit"],
  ["limit=1e3", 2, "a digit"],
  ["offset=+1", 1, "a digit"],
  ["offset=1000000000000000", 1, "a number of at most 15 digits"],
])("%s is refused at character %i, where %s should be", (search, character, expected) => {
  const details = expect.stringContaining(`at character ${character}: expected ${expected}, found `);
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({ status: 400, code: "PGRST100", details });
});

test.each(["limit=-1", "a.limit=-7"])("%s is not a satisfiable range", (search) => {
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({ status: 416, code: "PGRST103" });
});

test("columns and on_conflict are parsed as lists of names", () => {
  const { columns, onConflict } = parse('t?columns="a","b, c", d ,a&on_conflict=x,y').query;
  expect(columns).toEqual(["a", "b, c", "d"]);
  expect(onConflict).toEqual(["x", "y"]);
  expect(parse("t?select=a").query).toMatchObject({ columns: null, onConflict: null });
});

test.each(["columns=", "columns=a,", "columns=a b(", "on_conflict=", "on_conflict=a,,b"])("%s is refused", (search) => {
  const [name] = search.split("=");
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: expect.stringContaining(`failed to parse ${name} parameter (`),
  });
});

test("values are percent-decoded", () => {
  const { values } = parse("t?a=eq.b+c%2Bd%26e%3Df&a=eq.%C3%BC%F0%9F%99%82&a=eq.x=y&a=eq.;");
  expect(values).toEqual(["b c+d&e=f", "ü🙂", "x=y", ";"]);
});

test("a `%` without two hex digits is a literal `%`", () => {
  expect(parse("t?a=like.50%&b=like.%zz%2&c=eq.%25").values).toEqual(["50%", "%zz%2", "%"]);
});

test.each([
  ["a=eq.%ff", "eq.%ff", 4],
  ["a=eq.%C3%BC%C3x", "eq.%C3%BC%C3x", 4],
  ["a=eq.%00", "eq.\0", 4],
  ["%00=eq.1", "\0", 1],
  ["a=eq.\ud800", "eq.\ud800", 1],
])("%j is refused, because Postgres cannot store it", (search, text, character) => {
  expect(problemOf(() => parse(`t?${search}`))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: `failed to parse query string (${text})`,
    details: expect.stringContaining(`at character ${character}: `),
  });
});

test("a parameter without `=` is ignored", () => {
  expect(parse("t?&select&a&&b=eq.1&").values).toEqual(["1"]);
});

test("the parameters of a function that are not filters are its arguments", () => {
  const { query, values } = parse(
    "rpc/f?a=1&b=eq.2&c=&d=is.that&e=in.x&f=eq&a=3&g.h=x&%22i%22=x&j/k=x&data->x=y&limit=5&id=in.(6)",
  );
  const given = [...query.arguments].map(([name, indexes]) => [name, indexes.map((index) => values[index])]);
  expect(given).toEqual([
    ["a", ["1", "3"]],
    ["c", [""]],
    ["d", ["is.that"]],
    ["e", ["in.x"]],
    ["f", ["eq"]],
    ["g.h", ["x"]],
    ["i", ["x"]],
    ["j/k", ["x"]],
    ["data->x", ["y"]],
  ]);
  expect(query.parts.get("")).toMatchObject({ limit: 5, conditions: [{ operator: "eq" }, { operator: "in" }] });
});

test("HEAD has arguments in its query string like GET, and POST does not", () => {
  expect(parse("rpc/f?a=1", { method: "HEAD" }).query.arguments.get("a")).toEqual([0]);
  expect(problemOf(() => parse("rpc/f?a=1", { method: "POST" }))).toMatchObject({ status: 400, code: "PGRST100" });
  expect(problemOf(() => parse("t?a=1"))).toMatchObject({ status: 400, code: "PGRST100" });
});

import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

const selectOf = (text: string) => parse(`t?select=${text}`).query.select;

const field = (name: string, more: object = {}) => ({
  kind: "field",
  field: { name, path: [] },
  alias: null,
  cast: null,
  aggregate: null,
  ...more,
});
const embed = (name: string, more: object = {}) => ({
  kind: "embed",
  name,
  alias: null,
  hint: null,
  join: null,
  isSpread: false,
  select: [],
  ...more,
});
const all = { kind: "all" };

test.each([
  ["", [all]],
  ["*", [all]],
  ["id", [field("id")]],
  ["id,name", [field("id"), field("name")]],
  [" id , name ", [field("id"), field("name")]],
  ["*,id", [all, field("id")]],
  ["first name", [field("first name")]],
  ["créé-le", [field("créé-le")]],
  ['"a.b, \\"c\\""', [field('a.b, "c"')]],
  ["full:first name", [field("first name", { alias: "full" })]],
  ['"a:b":"c"', [field("c", { alias: "a:b" })]],
  ["id::text", [field("id", { cast: "text" })]],
  ["n:id::double precision", [field("id", { alias: "n", cast: "double precision" })]],
  ["tags::text[]", [field("tags", { cast: "text[]" })]],
  ['a::"my schema"."my type"[]', [field("a", { cast: '"my schema"."my type"[]' })]],
  ["a::public.status", [field("a", { cast: "public.status" })]],
  ["count", [field("count")]],
  ["count()", [field("", { field: null, aggregate: { name: "count", cast: null } })]],
  ["n:count()::text", [field("", { field: null, alias: "n", aggregate: { name: "count", cast: "text" } })]],
  ["id.count()", [field("id", { aggregate: { name: "count", cast: null } })]],
  ["s:a::int.sum()::text", [field("a", { alias: "s", cast: "int", aggregate: { name: "sum", cast: "text" } })]],
  [
    "a.avg(),b.min(),c.max()",
    ["avg", "min", "max"].map((name, i) => field("abc"[i]!, { aggregate: { name, cast: null } })),
  ],
] as [string, object[]][])("select=%s is parsed into columns", (text, items) => {
  expect(selectOf(text)).toEqual(items);
});

test.each([
  ["a->b", [{ arrow: "->", key: "b" }]],
  [
    "a->b->>c",
    [
      { arrow: "->", key: "b" },
      { arrow: "->>", key: "c" },
    ],
  ],
  [
    "a -> b ->>c",
    [
      { arrow: "->", key: "b" },
      { arrow: "->>", key: "c" },
    ],
  ],
  [
    "a->0->>-1",
    [
      { arrow: "->", key: 0 },
      { arrow: "->>", key: -1 },
    ],
  ],
  ['a->"0"', [{ arrow: "->", key: "0" }]],
  ["a->0b", [{ arrow: "->", key: "0b" }]],
  ["a->b-c-d", [{ arrow: "->", key: "b-c-d" }]],
  ['a->>"x.y->z"', [{ arrow: "->>", key: "x.y->z" }]],
  ["a->!@#$^*_b", [{ arrow: "->", key: "!@#$^*_b" }]],
])("select=%s is a path into JSON", (text, path) => {
  expect(selectOf(encodeURIComponent(text))).toEqual([field("a", { field: { name: "a", path } })]);
});

test("a path may have an alias, a cast and an aggregate, like a column", () => {
  const path = [{ arrow: "->>", key: "b" }];
  expect(selectOf("x:a->>b::int.sum()")).toEqual([
    field("", { field: { name: "a", path }, alias: "x", cast: "int", aggregate: { name: "sum", cast: null } }),
  ]);
});

test.each([
  ["author()", [embed("author")]],
  ["author(*)", [embed("author", { select: [all] })]],
  ["author( id , name )", [embed("author", { select: [field("id"), field("name")] })]],
  ["author (id)", [embed("author", { select: [field("id")] })]],
  ["writer:author(id)", [embed("author", { alias: "writer", select: [field("id")] })]],
  ["author!author_id()", [embed("author", { hint: "author_id" })]],
  ["author!inner()", [embed("author", { join: "inner" })]],
  ["author!left()", [embed("author", { join: "left" })]],
  ["author!inner!author_id()", [embed("author", { join: "inner", hint: "author_id" })]],
  ["w:author!author_id!inner()", [embed("author", { alias: "w", join: "inner", hint: "author_id" })]],
  ["author!leftover()", [embed("author", { hint: "leftover" })]],
  ['author!"inner"()', [embed("author", { hint: "inner" })]],
  ["...author(name)", [embed("author", { isSpread: true, select: [field("name")] })]],
  [
    "...author!fk!inner(name)",
    [embed("author", { isSpread: true, hint: "fk", join: "inner", select: [field("name")] })],
  ],
  ["id,a(b(c()),d())", [field("id"), embed("a", { select: [embed("b", { select: [embed("c")] }), embed("d")] })]],
  [
    "a(amount.sum(),count())",
    [
      embed("a", {
        select: [
          field("amount", { aggregate: { name: "sum", cast: null } }),
          field("", { field: null, aggregate: { name: "count", cast: null } }),
        ],
      }),
    ],
  ],
  ['"count"()', [embed("count")]],
] as [string, object[]][])("select=%s embeds relations", (text, items) => {
  expect(selectOf(text)).toEqual(items);
});

test.each([
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
])("select=%s is refused at character %i, where %s should be", (text, character, expected) => {
  const { status, code, message, details } = problemOf(() => selectOf(encodeURIComponent(text)));
  expect({ status, code, message }).toEqual({
    status: 400,
    code: "PGRST100",
    message: `failed to parse select parameter (${text})`,
  });
  expect(details).toMatch(new RegExp(`^at character ${character}: `));
  expect(details).toContain(`expected ${expected}, found `);
});

test("an alias has at most 63 bytes, like a name in Postgres", () => {
  expect(selectOf(`${"a".repeat(63)}:id`)).toHaveLength(1);
  expect(problemOf(() => selectOf(`${"ä".repeat(32)}:id`))).toMatchObject({ status: 400, code: "PGRST100" });
  expect(selectOf("b".repeat(64))).toEqual([field("b".repeat(64))]);
});

test("relations are embedded up to the limit of levels", () => {
  expect(selectOf("a(b(c(id)))")).toHaveLength(1);
  const refused = { status: 400, message: "select is nested more than 3 levels deep" };
  expect(problemOf(() => selectOf("a(b(c(d(id))))"))).toMatchObject(refused);
  expect(problemOf(() => selectOf("a(".repeat(100_000)))).toMatchObject(refused);
});

test("the first of two select parameters applies", () => {
  expect(parse("t?select=id&select=name").query.select).toEqual([field("id")]);
});

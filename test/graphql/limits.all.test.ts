import { getIntrospectionQuery } from "postgraphile/graphql";
import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, content, data, errors, gql } = useService();
const small = useService({
  GRAPHQL_MAX_DEPTH: "3",
  GRAPHQL_MAX_COMPLEXITY: "5",
  graphqlMaxSearches: 2,
  graphqlMaxTokens: 500,
  graphqlMaxPageSize: 20,
  jsonMaxDepth: 12,
});

/** A query with this depth: `user`, then `articles` and `author` in turn, then `id`. */
function levels(depth: number): string {
  const inner = Array.from({ length: depth - 2 }, (_, i) => (i % 2 === 0 ? "articles(limit: 1)" : "author"));
  return `{ user(id: 1) { ${inner.map((field) => `${field} {`).join(" ")} id ${"}".repeat(depth - 2)} } }`;
}

/** A query with this number of fields: `users` with aliases of `id`. */
const fields = (count: number) => `{ users { ${aliases("id", count - 1)} } }`;
const aliases = (field: string, count: number) => Array.from({ length: count }, (_, i) => `a${i}: ${field}`).join(" ");

const tooDeep = (depth: number, max = 15) => [
  `VALIDATION_ERROR: the operation has depth ${depth}; the maximum is ${max}`,
];
const tooComplex = (count: number, max = 1000) => [
  `VALIDATION_ERROR: the operation has complexity ${count}; the maximum is ${max}`,
];

describe("maximum query depth 15", () => {
  test.each([2, 3, 14, 15])("accepts %i levels of fields", async (depth) => {
    expect(await errors(levels(depth))).toEqual([]);
  });

  test.each([16, 17, 60])("refuses %i levels before anything is executed", async (depth) => {
    const answer = await gql(levels(depth));
    expect(answer.status).toBe(200);
    expect(answer).not.toHaveProperty("data");
    expect(await errors(levels(depth))).toEqual(tooDeep(depth));
  });

  test("counts the fields in fragments but not the fragments", async () => {
    // With an odd depth the innermost fields belong to an article, with an even depth to a user.
    const inside = (depth: number, selections: string) => levels(depth).replace(" id ", ` ${selections} `);
    const spread = (depth: number) =>
      `${inside(depth, "...F")} fragment F on Article { author { ...G } } fragment G on User { id }`;
    const inline = (depth: number) => inside(depth, "... on Article { author { ... @include(if: true) { id } } }");
    for (const write of [spread, inline]) {
      expect(await errors(write(13))).toEqual([]);
      expect(await errors(write(15))).toEqual(tooDeep(16));
    }
  });

  test("applies to mutations before they are executed, and to every operation of the document", async () => {
    const id = await article({ author: 1 });
    const deep = levels(15).replace("{ user(id: 1) {", "{ author {");
    const query = `mutation { publishArticle(id: ${id}) ${deep} }`;
    const before = await content();
    expect(await errors(query, { as: "ada" })).toEqual(tooDeep(16));
    const other = `mutation A { publishArticle(id: ${id}) { id } } query B ${levels(16)}`;
    expect(await errors(other, { as: "ada", operationName: "A" })).toEqual(tooDeep(16));
    expect(await content()).toBe(before);
  });
});

describe("maximum query complexity 1000", () => {
  test.each([2, 999, 1000])("accepts %i fields", async (count) => {
    expect(await errors(fields(count))).toEqual([]);
  });

  test.each([1001, 5000])("refuses %i fields", async (count) => {
    expect(await errors(fields(count))).toEqual(tooComplex(count));
  });

  test("counts root aliases and __typename", async () => {
    expect(await errors(`{ ${aliases("__typename", 1000)} }`)).toEqual([]);
    expect(await errors(`{ ${aliases("__typename", 1001)} }`)).toEqual(tooComplex(1001));
  });

  test("accepts 500 aliased articles, which are 1000 fields", async () => {
    const answer = await data(`{ ${aliases("article(id: 1) { title }", 500)} }`);
    expect(answer.a499).toEqual({ title: "Notes on the Analytical Engine" });
  });

  test("counts a fragment each time it is used", async () => {
    const spread = (times: number) =>
      `{ ${aliases("user(id: 1) { ...F }", times)} } fragment F on User { ${aliases("id", 99)} }`;
    expect(await errors(spread(10))).toEqual([]);
    expect(await errors(spread(11))).toEqual(tooComplex(1100));
  });

  test("counts skipped fields", async () => {
    expect(await errors(`{ users { ${aliases("id @skip(if: true)", 1000)} id } }`)).toEqual(tooComplex(1002));
  });
});

describe("an introspection query", () => {
  test.each([
    {},
    {
      specifiedByUrl: true,
      directiveIsRepeatable: true,
      schemaDescription: true,
      inputValueDeprecation: true,
      oneOf: true,
    },
  ])("of graphql-js is exempt from the depth limit, with options %j", async (options) => {
    expect((await data(getIntrospectionQuery(options))).__schema.queryType.name).toBe("Query");
    expect((await small.data(getIntrospectionQuery(options))).__schema.queryType.name).toBe("Query");
  });

  test("is exempt with any alias and for one type", async () => {
    const { s, t } = await small.data(
      '{ s: __schema { queryType { name } } t: __type(name: "User") { kind name fields { name type { ofType { name } } } } }',
    );
    expect([s.queryType.name, t.name]).toEqual(["Query", "User"]);
  });

  test("is not exempt beside other fields", async () => {
    const query = "{ __schema { types { fields { type { name } } } } users { id } }";
    expect(await errors(query)).toEqual([]);
    expect(await small.errors(query)).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: the operation has depth 5; the maximum is 3$/),
    ]);
  });

  test("is refused if it repeats the schema many times", async () => {
    const query = `{ __schema { ${aliases("types { name }", 600)} } }`;
    expect(await errors(query)).toEqual(tooComplex(1201));
  });
});

describe("a paging argument", () => {
  const REFUSED = (name: string, max: number) => [`VALIDATION_ERROR: ${name} must be from 0 to ${max}`];

  test.each([
    ["articles(first: $n) { totalCount }", "first", 1000],
    ["users(limit: $n) { id }", "limit", 1000],
    ["user(id: 1) { articles(limit: $n) { id } }", "limit", 1000],
    ["user(id: 1) { comments(limit: $n) { id } }", "limit", 1000],
    ["article(id: 1) { comments(limit: $n) { id } }", "limit", 1000],
    ["article(id: 1) { relatedArticles(limit: $n) { id } }", "limit", 1000],
    ["comments(first: $n) { totalCount }", "first", 1000],
  ])("%s accepts 0 to %3$i", async (field, name, max) => {
    const ask = (n: number | null) => errors(`query ($n: Int) { ${field} }`, { variables: { n } });
    for (const n of [0, 1, max, null]) expect(await ask(n)).toEqual([]);
    for (const n of [-1, max + 1, 2_147_483_647, -2_147_483_648]) expect(await ask(n)).toEqual(REFUSED(name, max));
    const literal = (n: number) => errors(`{ ${field.replace("$n", String(n))} }`);
    expect(await literal(max)).toEqual([]);
    expect(await literal(max + 1)).toEqual(REFUSED(name, max));
    expect(await literal(-1)).toEqual(REFUSED(name, max));
  });

  test("of 0 returns an empty page", async () => {
    expect(
      await data(
        "{ users(limit: 0) { id } articles(first: 0) { edges { cursor } totalCount } user(id: 1) { articles(limit: 0) { id } } }",
      ),
    ).toEqual({
      users: [],
      articles: { edges: [], totalCount: expect.any(Number) },
      user: { articles: [] },
    });
  });

  test.each([
    [0, []],
    [1000, []],
    [2_147_483_647, []],
    [-1, ["VALIDATION_ERROR: offset must not be negative"]],
  ])("offset %i skips rows or is refused", async (n, expected) => {
    expect(await errors("query ($n: Int) { users(offset: $n) { id } }", { variables: { n } })).toEqual(expected);
  });

  test("has the maximum graphqlMaxPageSize", async () => {
    expect(await small.errors("{ users(limit: 20) { id } articles(first: 20) { totalCount } }")).toEqual([]);
    expect(await small.errors("{ users(limit: 21) { id } }")).toEqual(REFUSED("limit", 20));
    expect(await small.errors("{ articles(first: 21) { totalCount } }")).toEqual(REFUSED("first", 20));
  });
});

describe("the setting", () => {
  test("GRAPHQL_MAX_DEPTH limits the depth", async () => {
    expect(await small.errors(levels(3))).toEqual([]);
    expect(await small.errors(levels(4))).toEqual(tooDeep(4, 3));
  });

  test("GRAPHQL_MAX_COMPLEXITY limits the fields", async () => {
    expect(await small.errors(fields(5))).toEqual([]);
    expect(await small.errors(fields(6))).toEqual(tooComplex(6, 5));
  });

  test("graphqlMaxTokens limits the tokens of a document", async () => {
    const tooLong = (max: number) => [
      `VALIDATION_ERROR: Syntax Error: Document contains more that ${max} tokens. Parsing aborted.`,
    ];
    expect(await small.errors(`{ ${"a ".repeat(499)}}`)).toEqual(tooLong(500));
    expect(await errors(`{ ${"a ".repeat(19_999)}}`)).toEqual(tooLong(20_000));
    expect(await errors(`{ ${"a ".repeat(19_998)}}`)).toEqual(tooComplex(19_998));
  });

  test("jsonMaxDepth limits the levels of brackets of the body and of the document", async () => {
    const list = (depth: number) => `{ user(id: ${"[".repeat(depth - 2)}1${"]".repeat(depth - 2)}) { id } }`;
    expect(await small.errors(list(12))).toEqual([expect.stringMatching(/^VALIDATION_ERROR: ID cannot represent/)]);
    expect(await small.errors(list(13))).toEqual([
      "VALIDATION_ERROR: the document nests brackets more than 12 levels deep",
    ]);
    const value = (depth: number) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
    expect(await small.errors("{ __typename }", { variables: { a: value(10) } })).toEqual([]);
    expect(await small.gql("{ __typename }", { variables: { a: value(11) } })).toMatchObject({
      status: 400,
      errors: [{ message: "the body is nested more than 12 levels deep" }],
    });
  });

  test("jsonMaxDepth does not count brackets in strings and comments", async () => {
    const brackets = "{[(".repeat(100);
    expect(await data(`{ # ${brackets}\n search(keyword: "${brackets}\\"${brackets}") { id } }`)).toEqual({
      search: [],
    });
    expect(await data(`{ search(keyword: """${brackets} \\""" " "" ${brackets}""") { id } }`)).toEqual({ search: [] });
  });
});

test("filters use variables at most 10000 times with fragments expanded, and each use counts its conditions", async () => {
  const queryOf = (uses: number) => `
    query ($x: ArticleFilterInput!, $y: ArticleFilterInput) { ...F ...F ...F ...F last: articles(filter: $y) { totalCount } }
    fragment F on Query { articles(filter: { and: [${"$x ".repeat(uses)}] }) { totalCount } }`;
  const y = { or: Array.from({ length: 1000 }, () => ({ status: "DRAFT" })) };
  const complex = (count: number) => [`VALIDATION_ERROR: the operation has complexity ${count}; the maximum is 1000`];
  expect(await errors(queryOf(2499), { variables: { x: {}, y } })).toEqual(complex(1015));
  expect(await errors(queryOf(2499), { variables: { x: y, y: null } })).toEqual(complex(9_996 * 1001 + 14));
  expect(await errors(queryOf(2500), { variables: { x: {}, y } })).toEqual([
    "VALIDATION_ERROR: the filters use variables more than 10000 times",
  ]);
});

describe("searches by keyword", () => {
  const tooMany = (count: number, max: number) => [
    `VALIDATION_ERROR: the operation searches by keyword ${count} times; the maximum is ${max}`,
  ];
  const search = 'search(keyword: "e") { id }';
  const filtered = 'articles(filter: { keyword: "e" }) { totalCount }';

  test("at most graphqlMaxSearches in an operation, with fragments expanded", async () => {
    expect(await errors(`{ ${aliases(search, 20)} }`)).toEqual([]);
    expect(await errors(`{ ${aliases(search, 21)} }`)).toEqual(tooMany(21, 20));
    expect(await errors(`{ ${aliases(filtered, 21)} }`)).toEqual(tooMany(21, 20));
    const spread = `{ ...F ...G } fragment F on Query { ${aliases(search, 11)} } fragment G on Query { ...F }`;
    expect(await errors(spread)).toEqual(tooMany(22, 20));
    const byVariable = (count: number) =>
      `query ($f: ArticleFilterInput) { ${aliases("articles(filter: $f) { totalCount }", count)} }`;
    expect(await errors(byVariable(21))).toEqual([]);
    expect(await errors(byVariable(21), { variables: { f: { keyword: "e" } } })).toEqual(tooMany(21, 20));
    const byDefault = byVariable(21).replace("Input)", 'Input = { or: [{ keyword: "e" }] })');
    expect(await errors(byDefault)).toEqual(tooMany(21, 20));
    expect(await errors(byDefault, { variables: { f: null } })).toEqual([]);
    expect(await errors(`{ ${aliases("articles(filter: { status: DRAFT }) { totalCount }", 30)} }`)).toEqual([]);
  });

  test("a keyword has at most 10000 characters, as a literal and in a variable", async () => {
    const operations = [
      "query ($k: String!) { search(keyword: $k) { id } }",
      "query ($k: String!) { articles(filter: { keyword: $k }) { totalCount } }",
    ];
    for (const query of operations) {
      expect(await errors(query, { variables: { k: "é".repeat(10_000) } })).toEqual([]);
      const tooLong = ["VALIDATION_ERROR: a keyword may have at most 10000 characters"];
      expect(await errors(query, { variables: { k: "é".repeat(10_001) } })).toEqual(tooLong);
      expect(await errors(`{ search(keyword: "${"x".repeat(10_001)}") { id } }`)).toEqual(tooLong);
    }
  });
});

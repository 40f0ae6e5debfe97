import { describe, expect, test } from "vitest";
import { errorTexts, useService } from "../support/http-client.ts";

const { article, content, data, errors, gql, service, sql } = useService();

describe("the operation keyword", () => {
  test.each(["query { user(id: 1) { id } }", "query User { user(id: 1) { id } }", "{ user(id: 1) { id } }"])(
    "%s",
    async (query) => {
      expect(await data(query)).toEqual({ user: { id: "1" } });
    },
  );

  test.each(["mutation", "mutation Add"])("%s { … } is accepted", async (keyword) => {
    const query = `${keyword} { createComment(articleId: 1, content: "Hm.") { content } }`;
    expect(await data(query, { as: "ada" })).toEqual({ createComment: { content: "Hm." } });
  });

  test("subscription needs a WebSocket, or Accept: text/event-stream", async () => {
    expect(await gql("subscription News { onArticleCreated { id } }")).toMatchObject({
      status: 400,
      errors: [
        { message: "a subscription needs a WebSocket, or the header Accept: text/event-stream, at the same path" },
      ],
    });
  });

  test("may be omitted for a query that is the only operation", async () => {
    expect(await errors("{ users { id } } query Other { users { id } }")).toEqual([
      "VALIDATION_ERROR: This anonymous operation must be the only defined operation.",
    ]);
  });
});

describe("a variable", () => {
  const PAGE = "query ($limit: Int = 2, $offset: Int = 1) { users(limit: $limit, offset: $offset) { id } }";

  test.each([
    [undefined, ["2", "3"]],
    [{}, ["2", "3"]],
    [{ limit: 1 }, ["2"]],
    [{ limit: 1, offset: 0 }, ["1"]],
    // null is a value, so the default of the page size applies and not that of the variable.
    [{ limit: null, offset: 0 }, ["1", "2", "3", "4"]],
    [{ limit: 1, offset: 0, unknown: true }, ["1"]],
  ])("has its default unless it is sent: %j", async (variables, ids) => {
    const { users } = await data(PAGE, variables && { variables });
    expect(users.map((user: { id: string }) => user.id)).toEqual(ids);
  });

  test.each([
    [{ id: "1" }, "1"],
    [{ id: 1 }, "1"],
    [{}, "2"],
    [undefined, "2"],
  ])("with a default is accepted where null is not allowed: %j", async (variables, id) => {
    const query = "query ($id: ID = 2) { user(id: $id) { id } }";
    expect(await data(query, variables && { variables })).toEqual({ user: { id } });
  });

  test.each([
    ["query ($v: ID! = 2) { user(id: $v) { id } }", 'Variable "$v" of non-null type "ID!" must not be null.'],
    ["query ($v: ID = 2) { user(id: $v) { id } }", 'Variable "$v" must not be null: it is used where ID! is expected.'],
    [
      "query ($v: Boolean = true) { users { id @include(if: $v) } }",
      'Variable "$v" must not be null: it is used where Boolean! is expected.',
    ],
    [
      "query ($v: ID = 2) { ...F } fragment F on Query { user(id: $v) { id } }",
      'Variable "$v" must not be null: it is used where ID! is expected.',
    ],
    [
      'mutation ($v: String = "Y") { createUser(input: { name: $v, email: "y@z.example" }) { id } }',
      'Variable "$v" must not be null: it is used where String! is expected.',
    ],
    [
      'mutation ($v: String = "Y") { createArticle(input: { title: "Title", content: "Text.", tags: [$v] }) { success } }',
      'Variable "$v" must not be null: it is used where String! is expected.',
    ],
  ])("that is null where null is not allowed is refused despite a default: %s", async (query, message) => {
    const before = await content();
    const answer = await gql(query, { variables: { v: null }, as: "ada" });
    expect(errorTexts(answer)).toEqual([`VALIDATION_ERROR: ${message}`]);
    expect(answer).not.toHaveProperty("data");
    expect(await content()).toBe(before);
  });

  test.each([
    ["query ($id: ID!) { user(id: $id) { id } }", {}, 'Variable "$id" of required type "ID!" was not provided.'],
    [
      "query ($limit: Int) { users(limit: $limit) { id } }",
      { limit: "ten" },
      'Variable "$limit" got invalid value "ten"; Int cannot represent non-integer value: "ten"',
    ],
    [
      "query ($id: Int) { user(id: $id) { id } }",
      { id: 1 },
      'Variable "$id" of type "Int" used in position expecting type "ID!".',
    ],
    ["{ user(id: $id) { id } }", { id: 1 }, 'Variable "$id" is not defined.'],
    [
      "query ($status: ArticleStatus) { articles(status: $status) { totalCount } }",
      { status: "draft" },
      'Variable "$status" got invalid value "draft"; Value "draft" does not exist in "ArticleStatus" enum: use DRAFT.',
    ],
    [
      "query ($n: Int) { users(limit: $n) { id } }",
      { n: 3_000_000_000 },
      'Variable "$n" got invalid value 3000000000; Int cannot represent non 32-bit signed integer value: 3000000000',
    ],
  ])("of the wrong type is refused: %s with %j", async (query, variables, message) => {
    expect(await gql(query, { variables })).toMatchObject({
      status: 200,
      errors: [{ message, extensions: { code: "VALIDATION_ERROR" } }],
    });
  });

  test("may be used inside input objects and lists", async () => {
    const query = `mutation ($title: String!, $tag: String!) {
      createArticle(input: { title: $title, content: "Some content.", tags: ["fixed", $tag] }) { article { title tags } }
    }`;
    const { createArticle } = await data(query, { variables: { title: "A title", tag: "sent" }, as: "ada" });
    expect(createArticle.article).toEqual({ title: "A title", tags: ["fixed", "sent"] });
  });
});

describe("a fragment", () => {
  test("may use variables of the operation", async () => {
    const query = `
      query ($limit: Int = 1) { user(id: 2) { ...Writer } }
      fragment Writer on User { name articles(limit: $limit) { ...Heading } }
      fragment Heading on Article { title }`;
    expect(await data(query)).toEqual({
      user: { name: "Bob Kahn", articles: [{ title: "How packets find their way" }] },
    });
    const { user } = await data(query, { variables: { limit: 2 } });
    expect(user.articles).toHaveLength(2);
  });

  test("may be inline, with or without a type", async () => {
    const query = "{ user(id: 1) { ... on User { id } ... { name } ... @include(if: false) { email } } }";
    expect(await data(query)).toEqual({ user: { id: "1", name: "Ada Lovelace" } });
  });

  test("may be on Query and Mutation", async () => {
    expect(await data("{ ...Q } fragment Q on Query { user(id: 2) { id } }")).toEqual({ user: { id: "2" } });
    const query = `mutation { ...M } fragment M on Mutation { createComment(articleId: 1, content: "Hm.") { id } }`;
    expect(await data(query, { as: "ada" })).toEqual({ createComment: { id: expect.any(String) } });
  });

  test.each([
    ["{ ...Nowhere }", 'Unknown fragment "Nowhere".'],
    [
      "{ user(id: 1) { ...A } } fragment A on Article { id }",
      'Fragment "A" cannot be spread here as objects of type "User" can never be of type "Article".',
    ],
    ["{ __typename } fragment A on Article { id }", 'Fragment "A" is never used.'],
  ])("with %s is refused", async (query, message) => {
    expect(await errors(query)).toEqual([`VALIDATION_ERROR: ${message}`]);
  });
});

describe("a directive", () => {
  test.each([
    ["@include(if: true)", true],
    ["@include(if: false)", false],
    ["@skip(if: true)", false],
    ["@skip(if: false)", true],
    ["@skip(if: false) @include(if: true)", true],
    ["@skip(if: true) @include(if: true)", false],
    ["@include(if: $yes)", true],
    ["@include(if: $no)", false],
    ["@skip(if: $yes)", false],
    ["@skip(if: $no)", true],
  ])("%s on a field includes or skips it", async (directive, shown) => {
    const query = `query ($yes: Boolean!, $no: Boolean!) {
      user(id: 1) { id name ${directive} }
      unused: __typename @include(if: $yes) @skip(if: $no)
    }`;
    const { user } = await data(query, { variables: { yes: true, no: false } });
    expect(user).toEqual(shown ? { id: "1", name: "Ada Lovelace" } : { id: "1" });
  });

  test("that skips a mutation prevents it", async () => {
    const before = await content();
    const query = `mutation ($no: Boolean = false) {
      createComment(articleId: 1, content: "Hm.") @include(if: $no) { id }
      __typename
    }`;
    expect(await data(query, { as: "ada" })).toEqual({ __typename: "Mutation" });
    expect(await content()).toBe(before);
  });

  test("@deprecated(reason: String) is available for schema fields", async () => {
    const { __schema } = await data("{ __schema { directives { name locations args { name type { name } } } } }");
    const deprecated = __schema.directives.find((directive: { name: string }) => directive.name === "deprecated");
    expect(deprecated.locations).toContain("FIELD_DEFINITION");
    expect(deprecated.args).toContainEqual({ name: "reason", type: expect.anything() });
    expect(await errors("{ users { id @deprecated } }")).toEqual([
      'VALIDATION_ERROR: Directive "@deprecated" may not be used on FIELD.',
    ]);
  });
});

describe("an alias", () => {
  test("renames a key and allows the same field twice with different arguments", async () => {
    const query = "{ first: user(id: 1) { who: name } second: user(id: 2) { who: name } user(id: 3) { id } }";
    expect(await data(query)).toEqual({
      first: { who: "Ada Lovelace" },
      second: { who: "Bob Kahn" },
      user: { id: "3" },
    });
  });

  test("may be any name", async () => {
    const answer = await gql(
      "{ constructor: user(id: 1) { toString: id hasOwnProperty: name } data: users(limit: 1) { id } }",
    );
    expect(answer.data).toEqual({
      constructor: { toString: "1", hasOwnProperty: "Ada Lovelace" },
      data: [{ id: "1" }],
    });
  });

  test("that is used for two different fields is refused", async () => {
    expect(await errors("{ user(id: 1) { id } user(id: 2) { id } }")).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: Fields "user" conflict because they have differing arguments/),
    ]);
  });
});

describe("operationName", () => {
  const SEVERAL = "query A { user(id: 1) { id } } query B { user(id: 2) { id } } mutation C { deleteArticle(id: 1) }";

  test.each([
    ["A", "1"],
    ["B", "2"],
  ])("%s selects one operation when the document has several", async (operationName, id) => {
    expect(await data(SEVERAL, { operationName })).toEqual({ user: { id } });
  });

  test.each([
    [undefined, "the document has several operations: select one with operationName"],
    ["", "the document has several operations: select one with operationName"],
    ["D", 'the document has no operation named "D"'],
    ["a", 'the document has no operation named "a"'],
  ])("%j is refused in a document with several operations", async (operationName, message) => {
    const answer = await gql(SEVERAL, operationName === undefined ? {} : { operationName });
    expect(answer).toMatchObject({ status: 200, errors: [{ message, extensions: { code: "VALIDATION_ERROR" } }] });
    expect(answer).not.toHaveProperty("data");
  });

  test("is refused for a document without operations", async () => {
    expect(await errors("fragment A on User { id }")).toEqual([expect.stringMatching(/^VALIDATION_ERROR/)]);
  });
});

describe("a mutation operation with several fields", () => {
  test("executes them in order", async () => {
    const id = await article({ author: 1, status: "DRAFT" });
    const query = `mutation ($id: ID!) {
      one: updateArticle(id: $id, input: { status: ARCHIVED }) { status }
      two: publishArticle(id: $id) { status }
      three: updateArticle(id: $id, input: { title: "Third title" }) { status title }
      four: deleteArticle(id: $id)
      five: deleteArticle(id: $id)
    }`;
    const answer = await gql(query, { variables: { id }, as: "ada" });
    expect(Object.keys(answer.data)).toEqual(["one", "two", "three", "four", "five"]);
    expect(answer.data).toEqual({
      one: { status: "ARCHIVED" },
      two: { status: "PUBLISHED" },
      three: { status: "PUBLISHED", title: "Third title" },
      four: true,
      five: false,
    });
  });

  test("commits each field separately, so that earlier fields are kept when a later one fails", async () => {
    const id = await article({ author: 1, title: "Before" });
    const query = `mutation ($id: ID!) {
      done: updateArticle(id: $id, input: { title: "After" }) { title }
      failed: publishArticle(id: 999999) { id }
    }`;
    expect(await gql(query, { variables: { id }, as: "ada" })).toMatchObject({
      data: null,
      errors: [{ path: ["failed"], extensions: { code: "RESOURCE_NOT_FOUND" } }],
    });
    expect(await sql("select title from articles where id = $1", id)).toEqual([{ title: "After" }]);
  });

  test("stops at a non-null field that fails, because data is null", async () => {
    const id = await article({ author: 1, title: "Before" });
    const query = `mutation ($id: ID!) {
      failed: publishArticle(id: 999999) { id }
      notDone: updateArticle(id: $id, input: { title: "After" }) { title }
      norDeleted: deleteArticle(id: $id)
    }`;
    const answer = await gql(query, { variables: { id }, as: "ada" });
    expect(answer.data).toBeNull();
    expect(answer.errors?.[0]).toMatchObject({ path: ["failed"], extensions: { code: "RESOURCE_NOT_FOUND" } });
    expect(await sql("select title from articles where id = $1", id)).toEqual([{ title: "Before" }]);
  });

  test("continues after a nullable field that fails, because the others are returned", async () => {
    await sql(`create function public.break_it() returns int language plpgsql volatile as
      $$ begin raise exception 'broken'; end $$; grant execute on function public.break_it() to authenticated`);
    const id = await article({ author: 1, title: "Before" });
    const query = `mutation ($id: ID!) {
      breakIt
      done: updateArticle(id: $id, input: { title: "After" }) { title }
    }`;
    await expect
      .poll(() => gql(query, { variables: { id }, as: "ada" }))
      .toMatchObject({ data: { breakIt: null, done: { title: "After" } }, errors: [{ path: ["breakIt"] }] });
    await sql("drop function public.break_it()");
  });
});

describe("query fields at the top level", () => {
  test("are returned in the order of the query and from one snapshot", async () => {
    const answer = await gql(
      '{ z: users(limit: 1) { id } a: article(id: 1) { id } search(keyword: "nothing has this") { id } }',
    );
    expect(Object.keys(answer.data)).toEqual(["z", "a", "search"]);
    expect(answer.data).toEqual({ z: [{ id: "1" }], a: { id: "1" }, search: [] });
  });

  test("execute in parallel, in one round trip to the database", async () => {
    const query =
      '{ users { id } article(id: 1) { id } articles { totalCount edges { cursor } } user(id: 1) { id } search(keyword: "engine") { id } }';
    const before = service().service.databaseWaits();
    await data(query);
    expect(service().service.databaseWaits() - before).toBe(1);
  });
});

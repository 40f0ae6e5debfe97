import { describe, expect, test } from "vitest";
import { errorTexts, expectNoTrace, useService } from "../support/http-client.ts";

const client = useService();
const { data, errors, gql, post, sql } = client;
expectNoTrace(client);

const CREATE_USER = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id } }";
const CREATE_ARTICLE =
  "mutation ($input: CreateArticleInput!) { createArticle(input: $input) { success errors { field } } }";

describe("an id that is not valid finds no row", () => {
  const IDS = [
    "abc",
    "-1",
    "0",
    "99999999999999999999",
    "9223372036854775808",
    "",
    " 1",
    "1 ",
    "1.0",
    "1e0",
    "0x1",
    "１",
    "1\n",
    "null",
    "1; drop table users",
    "x".repeat(10_000),
  ];

  test.each(IDS)("in a variable: %.30j", async (id) => {
    const read = "query ($id: ID!) { user(id: $id) { id } article(id: $id) { id } comment(id: $id) { id } }";
    expect(await data(read, { variables: { id } })).toEqual({ user: null, article: null, comment: null });
    const change = (query: string) => gql(`mutation ($id: ID!) { ${query} }`, { variables: { id }, as: "admin" });
    expect((await change("deleteArticle(id: $id)")).data).toEqual({ deleteArticle: false });
    expect((await change("deleteUser(id: $id)")).data).toEqual({ deleteUser: false });
    for (const [query, what] of [
      ["publishArticle(id: $id) { id }", "article"],
      ['updateArticle(id: $id, input: { title: "Title" }) { id }', "article"],
      ['createComment(articleId: $id, content: "Hm.") { id }', "article"],
      ['updateUser(id: $id, input: { name: "X" }) { id }', "User"],
    ] as const)
      expect(errorTexts(await change(query))).toEqual([`RESOURCE_NOT_FOUND: ${what} not found`]);
  });

  test.each([["-1"], ["99999999999999999999"], ['"abc"'], ['""']])("in the document: %s", async (id) => {
    expect(await data(`{ user(id: ${id}) { id } }`)).toEqual({ user: null });
  });

  test.each([[1.5], [true], [["1"]], [{ id: "1" }], [null]])("but %j, which is not an ID, is refused", async (id) => {
    expect(await errors("query ($id: ID!) { user(id: $id) { id } }", { variables: { id } })).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: Variable "\$id"/),
    ]);
  });
});

describe("a text", () => {
  const UNSTORABLE = "VALIDATION_ERROR: text must not contain a NUL character or an unpaired surrogate";
  const BAD = ["a\0b", "\0", "\ud800", "\udc00\ud800", "x\ud83d"];

  test.each(BAD)("with NUL or half of a surrogate pair is refused: %j", async (bad) => {
    const user = { name: "X", email: "x@y.example" };
    const article = { title: "Title", content: "Text." };
    const refused: [query: string, variables: Record<string, unknown>][] = [
      [CREATE_USER, { input: { ...user, name: bad } }],
      [CREATE_USER, { input: { ...user, email: `${bad}@y.example` } }],
      [CREATE_ARTICLE, { input: { ...article, title: `Title ${bad}` } }],
      [CREATE_ARTICLE, { input: { ...article, content: bad } }],
      [CREATE_ARTICLE, { input: { ...article, tags: ["a", bad] } }],
      ["query ($k: String!) { search(keyword: $k) { id } }", { k: bad }],
      ["query ($k: String!) { articles(filter: { keyword: $k }) { totalCount } }", { k: bad }],
      ["query ($k: String!) { article(id: 1) { title(language: $k) } }", { k: bad }],
      ["mutation ($k: String!) { createComment(articleId: 1, content: $k) { id } }", { k: bad }],
    ];
    for (const [query, variables] of refused)
      expect([query, await errors(query, { variables, as: "ada" })]).toEqual([query, [UNSTORABLE]]);
    const variables = { id: `1${bad}` };
    expect(await data("query ($id: ID!) { article(id: $id) { id } }", { variables })).toEqual({ article: null });
  });

  test("that is not valid in one field leaves the other fields unaffected", async () => {
    const query = "query ($k: String!) { a: article(id: 1) { id } b: article(id: 2) { title(language: $k) } }";
    expect(await gql(query, { variables: { k: "\0" } })).toMatchObject({
      data: { a: { id: "1" }, b: null },
      errors: [{ path: ["b"] }],
    });
  });

  test("with NUL as an escape in the document is refused", async () => {
    expect(await errors('{ search(keyword: "\\u0000") { id } }')).toEqual([UNSTORABLE]);
  });

  test("is measured in characters: a title of 4 astral characters is too short, one of 5 is not", async () => {
    const create = async (title: string) =>
      (await data(CREATE_ARTICLE, { variables: { input: { title, content: "Text." } }, as: "ada" })).createArticle;
    expect(await create("😀😀😀😀")).toEqual({ success: false, errors: [{ field: "title" }] });
    expect(await create("😀😀😀😀😀")).toEqual({ success: true, errors: null });
    expect(await sql("delete from articles where title = '😀😀😀😀😀' returning 1 as one")).toEqual([{ one: 1 }]);
  });
});

describe("a value", () => {
  const USER = { name: "X", email: "x@y.example" };

  test.each([
    [{}],
    [{ ...USER, name: null }],
    [{ ...USER, name: 7 }],
    [{ ...USER, name: ["X"] }],
    [{ ...USER, age: "36" }],
    [{ ...USER, age: 36.5 }],
    [{ ...USER, age: 2_147_483_648 }],
    [{ ...USER, age: true }],
    [{ ...USER, id: "7" }],
    [{ ...USER, role: "admin" }],
    [[USER, USER]],
    [null],
    [undefined],
  ])("of the wrong type is refused: createUser(input: %j)", async (input) => {
    const answer = await gql(CREATE_USER, { variables: { input } });
    expect(answer.status).toBe(200);
    expect(answer).not.toHaveProperty("data");
    for (const error of errorTexts(answer)) expect(error).toMatch(/^VALIDATION_ERROR: Variable "\$input"/);
  });

  test.each(["1e400", "-1e400", "1e308", "123456789012345678901234567890", "0.1e-400"])(
    "that is the number %s in variables is refused or stored exactly",
    async (number) => {
      const ask = (type: string, field: string) =>
        post(`{"query": "query ($n: ${type}) { ${field} }", "variables": {"n": ${number}}}`);
      const limit = await ask("Int", "users(limit: $n) { id }");
      // JSON.parse reads 0.1e-400 as 0.
      if (number === "0.1e-400") expect(limit.json).toEqual({ data: { users: [] } });
      else
        expect(limit).toMatchObject({ status: 200, json: { errors: [{ extensions: { code: "VALIDATION_ERROR" } }] } });
      const id = await ask("ID!", "user(id: $n) { id }");
      expect(id.json.data ?? id.json.errors[0].extensions).toEqual(
        id.json.data
          ? { user: null }
          : { code: "VALIDATION_ERROR", fields: [expect.objectContaining({ field: "id" })] },
      );
    },
  );

  test("is unchanged by an update with an empty input", async () => {
    const before = await sql("select updated_at from articles where id = 1");
    expect(await data("mutation { updateArticle(id: 1, input: {}) { id } }", { as: "ada" })).toEqual({
      updateArticle: { id: "1" },
    });
    // The generated mutations of a table refuse an empty input.
    const nothing = "VALIDATION_ERROR: Attempted to update a record, but no new values were specified.";
    expect(await errors("mutation { updateUser(id: 1, input: {}) { name } }", { as: "ada" })).toEqual([nothing]);
    expect(await errors("mutation { updateComment(id: 3, input: {}) { id } }", { as: "ada" })).toEqual([nothing]);
    expect(await errors("mutation { updateArticle(id: 1, input: {}) { id } }", { as: "bob" })).toEqual([
      "PERMISSION_DENIED: only the author may update this article",
    ]);
    expect(await errors("mutation { createArticle(input: {}) { success } }", { as: "ada" })).toEqual([
      'VALIDATION_ERROR: Field "CreateArticleInput.title" of required type "String!" was not provided.',
      'VALIDATION_ERROR: Field "CreateArticleInput.content" of required type "String!" was not provided.',
    ]);
    expect(await sql("select updated_at from articles where id = 1")).toEqual(before);
  });

  test("named __proto__ or constructor in variables is treated like any other", async () => {
    const ask = (variables: string) =>
      post(
        `{"query": "query ($id: ID!, $input: ArticleFilterInput) { user(id: $id) { id } articles(filter: $input) { totalCount } }", "variables": ${variables}}`,
      );
    expect((await ask('{"__proto__": {"id": "1"}}')).json.errors[0].extensions.code).toBe("VALIDATION_ERROR");
    expect((await ask('{"constructor": {"prototype": {"id": "1"}}, "id": "1"}')).json.data.user).toEqual({ id: "1" });
    for (const name of ["__proto__", "constructor", "toString"]) {
      expect((await ask(`{"id": "1", "input": {"${name}": {"status": "DRAFT"}}}`)).json.errors[0].extensions.code).toBe(
        "VALIDATION_ERROR",
      );
    }
    expect(({} as Record<string, unknown>).id).toBeUndefined();
  });

  test("named like a property of the prototype is not a field of the filter", async () => {
    expect(await errors('{ articles(filter: { toString: "x" }) { totalCount } }')).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR/),
    ]);
  });
});

import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, content, data, errors, gql, sql } = useService();
const anonymousDeletes = useService({ GRAPHQL_DELETE_ANONYMOUS: "false-result" });

const CREATE_USER = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id name email age } }";
const CREATE_ARTICLE = `mutation ($input: CreateArticleInput!) {
  createArticle(input: $input) { success message article { title content status tags author { id } updatedAt } errors { field message code } }
}`;
const UPDATE = "mutation ($id: ID!, $title: String) { updateArticle(id: $id, input: { title: $title }) { title } }";
const PUBLISH = "mutation ($id: ID!) { publishArticle(id: $id) { id status } }";
const DELETE = "mutation ($id: ID!) { deleteArticle(id: $id) }";

describe("rule 1, createUser", () => {
  test("creates a user, also for anonymous callers", async () => {
    const input = { name: "Grace Hopper", email: "grace@navy.example", age: 40 };
    const { createUser } = await data(CREATE_USER, { variables: { input } });
    expect(createUser).toEqual({ id: expect.stringMatching(/^\d+$/), ...input });
    expect(await data("query ($id: ID!) { user(id: $id) { email } }", { variables: { id: createUser.id } })).toEqual({
      user: { email: "grace@navy.example" },
    });
  });

  test.each(["ada@example.com", "ADA@EXAMPLE.COM", "Ada@Example.com"])(
    "with the e-mail of an existing user, %s, fails and makes no user",
    async (email) => {
      const before = await content();
      const answer = await gql(CREATE_USER, { variables: { input: { name: "Another Ada", email } }, as: "bob" });
      expect(answer).toMatchObject({
        status: 200,
        data: null,
        errors: [
          { message: "email already registered", path: ["createUser"], extensions: { code: "RESOURCE_CONFLICT" } },
        ],
      });
      expect(await content()).toBe(before);
    },
  );

  test.each([
    [{ name: "", email: "x@y.example" }, "name must have 1 to 200 characters"],
    [{ name: "x".repeat(201), email: "x@y.example" }, "name must have 1 to 200 characters"],
    [{ name: "X", email: "not an address" }, "email must be a valid address"],
    [{ name: "X", email: "x@y.example", age: -1 }, "age must be from 0 to 150"],
    [{ name: "X", email: "x@y.example", age: 151 }, "age must be from 0 to 150"],
  ])("with %j fails", async (input, message) => {
    const before = await content();
    expect(await errors(CREATE_USER, { variables: { input } })).toEqual([`VALIDATION_ERROR: ${message}`]);
    expect(await content()).toBe(before);
  });

  test("succeeds for one of several concurrent calls with the same e-mail address", async () => {
    const emails = ["race@example.com", "RACE@example.com", "Race@Example.com", "race@example.com", "rACE@example.com"];
    const answers = await Promise.all(
      emails.map((email) => errors(CREATE_USER, { variables: { input: { name: "Racer", email } } })),
    );
    expect(answers.filter((errors) => errors.length === 0)).toHaveLength(1);
    expect(answers.flat()).toEqual(Array(4).fill("RESOURCE_CONFLICT: email already registered"));
  });
});

describe("rule 2, createArticle without authentication", () => {
  test("is not an error: the result says that login is required", async () => {
    const before = await content();
    const answer = await gql(CREATE_ARTICLE, { variables: { input: { title: "A title", content: "Some content." } } });
    expect(answer.errors).toBeUndefined();
    expect(answer.data).toEqual({
      createArticle: { success: false, message: "login required", article: null, errors: null },
    });
    expect(await content()).toBe(before);
  });

  test("does not validate the input", async () => {
    const { createArticle } = await data(CREATE_ARTICLE, { variables: { input: { title: "x", content: "" } } });
    expect(createArticle).toMatchObject({ success: false, message: "login required", errors: null });
  });
});

describe("rule 3, createArticle with a title shorter than 5 characters", () => {
  test.each(["", "Four", "😀😀😀😀"])(
    "such as %j has one FieldError for title and creates no article",
    async (title) => {
      const before = await content();
      const options = { variables: { input: { title, content: "Some content." } }, as: "ada" } as const;
      expect(await data(CREATE_ARTICLE, options)).toEqual({
        createArticle: {
          success: false,
          message: "the article was not created: title must have at least 5 characters",
          article: null,
          errors: [{ field: "title", message: "title must have at least 5 characters", code: "VALIDATION_ERROR" }],
        },
      });
      expect(await content()).toBe(before);
    },
  );

  test.each([
    [{ title: "Title", content: "" }, ["content"]],
    [{ title: "Title", content: "ä".repeat(524_289).slice(0, 524_289) }, null],
    [{ title: "Title", content: "Some content.", tags: ["good", ""] }, ["tags"]],
    [{ title: "Title", content: "Some content.", tags: ["x".repeat(51)] }, ["tags"]],
    [{ title: "Four", content: "", tags: [""] }, ["title", "content", "tags"]],
  ])("reports all invalid fields at once: %.60j", async (input, fields) => {
    const before = await content();
    const answer = await gql(CREATE_ARTICLE, { variables: { input }, as: "ada" });
    // A content over 1 MiB does not fit into a body of 1 MiB.
    if (fields === null) expect(answer.status).toBe(413);
    else {
      expect(answer.errors).toBeUndefined();
      expect(answer.data.createArticle).toMatchObject({ success: false, article: null });
      expect(answer.data.createArticle.errors.map((error: { field: string }) => error.field)).toEqual(fields);
    }
    expect(await content()).toBe(before);
  });
});

describe("rule 4, createArticle, valid", () => {
  test("returns success, a message and the article with the caller as author, no tags and status DRAFT", async () => {
    const input = { title: "Title", content: "Some content." };
    expect(await data(CREATE_ARTICLE, { variables: { input }, as: "bob" })).toEqual({
      createArticle: {
        success: true,
        message: "article created",
        article: { ...input, status: "DRAFT", tags: [], author: { id: "2" }, updatedAt: null },
        errors: null,
      },
    });
  });

  test.each(["DRAFT", "PUBLISHED", "ARCHIVED"])("uses the status %s and the tags of the input", async (status) => {
    const input = { title: "😀😀😀😀😀", content: "Some content.", status, tags: ["one", "two, three", "{four}", '"'] };
    const { createArticle } = await data(CREATE_ARTICLE, { variables: { input }, as: "ada" });
    expect(createArticle.article).toEqual({ ...input, author: { id: "1" }, updatedAt: null });
  });

  test("treats null for tags and status like omitted fields", async () => {
    const input = { title: "A title", content: "Some content.", status: null, tags: null };
    const { createArticle } = await data(CREATE_ARTICLE, { variables: { input }, as: "ada" });
    expect(createArticle.article).toMatchObject({ status: "DRAFT", tags: [] });
  });
});

describe("rule 5, updateArticle", () => {
  test.each([
    ["not authenticated", undefined, "AUTH_REQUIRED: login required"],
    ["not the author", "bob", "PERMISSION_DENIED: only the author may update this article"],
  ] as const)("by the caller %s is an error and changes nothing", async (_, as, error) => {
    const id = await article({ author: 1 });
    const before = await content();
    expect(await errors(UPDATE, { variables: { id, title: "Another title" }, ...(as && { as }) })).toEqual([error]);
    expect(await content()).toBe(before);
  });

  test.each([
    ["ada", "RESOURCE_NOT_FOUND: article not found"],
    [undefined, "AUTH_REQUIRED: login required"],
  ] as const)("of a missing article by the caller %s is an error", async (as, error) => {
    expect(await errors(UPDATE, { variables: { id: "999999" }, ...(as && { as }) })).toEqual([error]);
  });

  test("changes only the given fields and sets updatedAt", async () => {
    const id = await article({ author: 1, title: "Before", content: "Some content.", tags: ["one"] });
    const query = `mutation ($id: ID!, $input: UpdateArticleInput!) {
      updateArticle(id: $id, input: $input) { title content tags status updatedAt }
    }`;
    const update = async (input: object) => (await data(query, { variables: { id, input }, as: "ada" })).updateArticle;
    expect(await update({ title: "After", tags: [] })).toEqual({
      title: "After",
      content: "Some content.",
      tags: [],
      status: "DRAFT",
      updatedAt: expect.stringMatching(/Z$/),
    });
    expect(await update({ title: null, content: null, tags: null, status: null })).toMatchObject({
      title: "After",
      content: "Some content.",
      tags: [],
      status: "DRAFT",
    });
  });

  test("with a title shorter than 5 characters is refused", async () => {
    const id = await article({ author: 1 });
    expect(await errors(UPDATE, { variables: { id, title: "Four" }, as: "ada" })).toEqual([
      "VALIDATION_ERROR: title must have at least 5 characters",
    ]);
  });
});

describe("rule 6, publishArticle", () => {
  test.each([
    ["missing article", "999999", "ada", "RESOURCE_NOT_FOUND: article not found"],
    ["caller not the author", "1", "bob", "PERMISSION_DENIED: only the author may publish this article"],
    ["caller not authenticated", "1", undefined, "AUTH_REQUIRED: login required"],
  ] as const)("%s is an error and changes nothing", async (_, id, as, error) => {
    const before = await content();
    expect(await errors(PUBLISH, { variables: { id }, ...(as && { as }) })).toEqual([error]);
    expect(await content()).toBe(before);
  });

  test("by the author sets the status to PUBLISHED", async () => {
    const id = await article({ author: 2 });
    expect(await data(PUBLISH, { variables: { id }, as: "bob" })).toEqual({
      publishArticle: { id, status: "PUBLISHED" },
    });
    expect(await sql("select status from articles where id = $1", id)).toEqual([{ status: "PUBLISHED" }]);
  });
});

describe("rule 7, deleteArticle", () => {
  test("of a missing article returns false", async () => {
    expect(await data(DELETE, { variables: { id: "999999" }, as: "ada" })).toEqual({ deleteArticle: false });
  });

  test("by a caller who is not the author is an error, and the article stays", async () => {
    const before = await content();
    expect(await errors(DELETE, { variables: { id: "1" }, as: "bob" })).toEqual([
      "PERMISSION_DENIED: only the author may delete this article",
    ]);
    expect(await content()).toBe(before);
  });

  test("by the author deletes the article with its comments and returns true", async () => {
    const id = await article({ author: 1 });
    await sql("insert into comments (article_id, author_id, content) values ($1, 2, 'A comment.')", id);
    expect(await data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle: true });
    expect(await sql("select from articles where id = $1", id)).toEqual([]);
    expect(await sql("select from comments where article_id = $1", id)).toEqual([]);
    expect(await data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle: false });
  });

  test.each(["1", "999999", "abc"])("of article %s by an anonymous caller is AUTH_REQUIRED", async (id) => {
    const before = await content();
    expect(await errors(DELETE, { variables: { id } })).toEqual(["AUTH_REQUIRED: login required"]);
    expect(await content()).toBe(before);
  });

  test.each(["1", "999999"])(
    "caller not authenticated, article %s, GRAPHQL_DELETE_ANONYMOUS=false-result: false",
    async (id) => {
      const before = await anonymousDeletes.content();
      expect(await anonymousDeletes.data(DELETE, { variables: { id } })).toEqual({ deleteArticle: false });
      expect(await anonymousDeletes.content()).toBe(before);
    },
  );

  test("is the same for signed-in callers with GRAPHQL_DELETE_ANONYMOUS=false-result", async () => {
    expect(await anonymousDeletes.errors(DELETE, { variables: { id: "1" }, as: "bob" })).toEqual([
      "PERMISSION_DENIED: only the author may delete this article",
    ]);
    expect(await anonymousDeletes.data(DELETE, { variables: { id: "999999" }, as: "bob" })).toEqual({
      deleteArticle: false,
    });
    expect(await anonymousDeletes.data(DELETE, { variables: { id: "1" }, as: "ada" })).toEqual({ deleteArticle: true });
  });

  test("returns true for one of several concurrent calls", async () => {
    const id = await article({ author: 1 });
    const answers = await Promise.all(Array.from({ length: 5 }, () => data(DELETE, { variables: { id }, as: "ada" })));
    expect(answers.map(({ deleteArticle }) => deleteArticle).toSorted()).toEqual([false, false, false, false, true]);
  });
});

describe("rule 8, me", () => {
  test("is an error for an anonymous caller", async () => {
    expect(await gql("{ me { id } }")).toMatchObject({
      status: 200,
      data: null,
      errors: [{ message: "login required", path: ["me"], extensions: { code: "AUTH_REQUIRED" } }],
    });
  });

  test.each([
    ["ada", "1"],
    ["bob", "2"],
    ["admin", "3"],
  ] as const)("returns the user %s to that caller", async (as, id) => {
    expect(await data("{ me { id email } }", { as })).toEqual({ me: { id, email: `${as}@example.com` } });
  });
});

describe("rule 9, users", () => {
  test("limit defaults to 10 and offset to 0", async () => {
    await sql(
      "insert into users (name, email) select 'User ' || n, 'user' || n || '@example.com' from generate_series(1, 20) as n",
    );
    const { all, ...pages } = await data(`{
      all: users(limit: 1000) { id } plain: users { id } nulls: users(limit: null, offset: null) { id }
      explicit: users(limit: 10, offset: 0) { id } later: users(offset: 3) { id } few: users(limit: 2, offset: 5) { id }
    }`);
    expect(all.length).toBeGreaterThan(20);
    expect(pages).toEqual({
      plain: all.slice(0, 10),
      nulls: all.slice(0, 10),
      explicit: all.slice(0, 10),
      later: all.slice(3, 13),
      few: all.slice(5, 7),
    });
  });
});

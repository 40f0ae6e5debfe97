import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, content, data, errors, gql, sql } = useService();
const anonymousDeletes = useService({ GRAPHQL_DELETE_ANONYMOUS: "false-result" });

const CREATE_USER = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id name email age } }";
const CREATE_ARTICLE = `mutation ($input: CreateArticleInput!) {
  createArticle(input: $input) { success message article { title content status tags author { id } updatedAt } errors { field message code } }
}`;
const UPDATE = `mutation ($id: ID!, $input: UpdateArticleInput = { title: "Another title" }) {
  updateArticle(id: $id, input: $input) { title content tags status updatedAt }
}`;
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

describe("rule 3, createArticle with invalid input", () => {
  const TITLE = ["title", "title must have at least 5 characters"];
  const CONTENT = ["content", "content must not be empty"];
  const TAGS = ["tags", "each tag must have 1 to 50 characters"];
  test.each([
    [{ title: "" }, [TITLE]],
    [{ title: "Four" }, [TITLE]],
    [{ title: "😀😀😀😀" }, [TITLE]],
    [{ title: "  \u00a0\u2003\n " }, [["title", "title must not be blank"]]],
    [{ content: "" }, [CONTENT]],
    [{ content: " \t\n" }, [CONTENT]],
    [{ tags: ["good", ""] }, [TAGS]],
    [{ tags: ["good", "  "] }, [TAGS]],
    [{ tags: ["x".repeat(51)] }, [TAGS]],
    [{ title: "Four", content: "", tags: [""] }, [TITLE, CONTENT, TAGS]],
  ])("such as %j has a FieldError for each field and creates no article", async (given, faults) => {
    const before = await content();
    const input = { title: "Title", content: "Some content.", ...given };
    const messages = faults.map(([, message]) => message);
    expect(await data(CREATE_ARTICLE, { variables: { input }, as: "ada" })).toEqual({
      createArticle: {
        success: false,
        message: `the article was not created: ${messages.join("; ")}`,
        article: null,
        errors: faults.map(([field, message]) => ({ field, message, code: "VALIDATION_ERROR" })),
      },
    });
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

describe("rules 5 to 7", () => {
  const LOGIN = "AUTH_REQUIRED: login required";
  const MISSING = "RESOURCE_NOT_FOUND: article not found";
  const STATES = ["DRAFT", "PUBLISHED", "ARCHIVED"] as const;
  const statusOf = async (id: string) => (await sql("select status from articles where id = $1", id))[0]?.status;

  describe.each(STATES)("of an article with the status %s", (status) => {
    test.each(["ada", "admin"] as const)(
      "updateArticle sets any status, publishArticle PUBLISHED, and deleteArticle removes it, for %s",
      async (as) => {
        const id = await article({ author: 1, status });
        for (const to of STATES) {
          const other = await article({ author: 1, status });
          const { updateArticle } = await data(UPDATE, { variables: { id: other, input: { status: to } }, as });
          expect([updateArticle.status, await statusOf(other)]).toEqual([to, to]);
        }
        expect((await data(UPDATE, { variables: { id }, as })).updateArticle).toMatchObject({
          title: "Another title",
          status,
        });
        expect(await data(PUBLISH, { variables: { id }, as })).toEqual({ publishArticle: { id, status: "PUBLISHED" } });
        expect(await statusOf(id)).toBe("PUBLISHED");
        const gone = await article({ author: 1, status });
        expect(await data(DELETE, { variables: { id: gone }, as })).toEqual({ deleteArticle: true });
        expect(await statusOf(gone)).toBeUndefined();
      },
    );

    test.each([
      ["update", UPDATE],
      ["publish", PUBLISH],
      ["delete", DELETE],
    ])("%sArticle by another caller is an error and changes nothing", async (action, query) => {
      const id = await article({ author: 1, status });
      const before = await content();
      const denied = `PERMISSION_DENIED: only the author may ${action} this article`;
      expect(await errors(query, { variables: { id }, as: "bob" })).toEqual([denied]);
      expect(await errors(query, { variables: { id } })).toEqual([LOGIN]);
      expect(await content()).toBe(before);
    });
  });

  test.each(["999999", "abc"])("the missing article %s is an error, but false for deleteArticle", async (id) => {
    const before = await content();
    for (const query of [UPDATE, PUBLISH]) {
      expect(await errors(query, { variables: { id }, as: "ada" })).toEqual([MISSING]);
      expect(await errors(query, { variables: { id } })).toEqual([LOGIN]);
    }
    expect(await data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle: false });
    expect(await errors(DELETE, { variables: { id } })).toEqual([LOGIN]);
    expect(await content()).toBe(before);
  });

  test("updateArticle changes only the given fields, and sets updatedAt once a value is another", async () => {
    const id = await article({ author: 1, title: "Before", content: "Some content.", tags: ["one"] });
    const update = async (input: object) => (await data(UPDATE, { variables: { id, input }, as: "ada" })).updateArticle;
    const before = { title: "Before", content: "Some content.", tags: ["one"], status: "DRAFT", updatedAt: null };
    expect(await update({ title: "Before" })).toEqual(before);
    const after = { ...before, title: "After", tags: [], updatedAt: expect.stringMatching(/Z$/) };
    expect(await update({ title: "After", tags: [] })).toEqual(after);
    expect(await update({ title: null, content: null, tags: null, status: null })).toEqual(after);
  });

  test("updateArticle with a title shorter than 5 characters is refused", async () => {
    const id = await article({ author: 1 });
    expect(await errors(UPDATE, { variables: { id, input: { title: "Four" } }, as: "ada" })).toEqual([
      "VALIDATION_ERROR: title must have at least 5 characters",
    ]);
  });

  test("deleteArticle deletes the comments and translations too, and returns false the second time", async () => {
    const id = await article({ author: 1 });
    await sql("insert into comments (article_id, author_id, content) values ($1, 2, 'A comment.')", id);
    await sql("insert into article_translations values ($1, 'de', 'Ein Titel')", id);
    expect(await data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle: true });
    expect(await sql("select from comments where article_id = $1", id)).toEqual([]);
    expect(await sql("select from article_translations where article_id = $1", id)).toEqual([]);
    expect(await data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle: false });
  });

  test("deleteArticle returns false to anonymous callers with GRAPHQL_DELETE_ANONYMOUS=false-result", async () => {
    const before = await anonymousDeletes.content();
    for (const id of ["1", "999999"])
      expect(await anonymousDeletes.data(DELETE, { variables: { id } })).toEqual({ deleteArticle: false });
    expect(await anonymousDeletes.content()).toBe(before);
    expect(await anonymousDeletes.errors(DELETE, { variables: { id: "1" }, as: "bob" })).toEqual([
      "PERMISSION_DENIED: only the author may delete this article",
    ]);
    for (const [id, deleteArticle] of [
      ["999999", false],
      ["1", true],
    ])
      expect(await anonymousDeletes.data(DELETE, { variables: { id }, as: "ada" })).toEqual({ deleteArticle });
  });

  test("deleteArticle returns true for one of several concurrent calls", async () => {
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

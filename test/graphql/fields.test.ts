import { describe, expect, test, vi } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, data, errors, sql } = useService();

describe("User.avatar(size: Int = 80): String", () => {
  const AVATAR = "query ($size: Int) { user(id: 2) { avatar plain: avatar(size: $size) } }";
  const avatars = async (size?: number | null) =>
    (await data(AVATAR, { variables: size === undefined ? {} : { size } })).user;
  const useAddress = (address: string | null) => sql("update users set avatar_url = $1 where id = 2", address);

  test.each([
    [null, 40, null],
    ["https://example.com/bob.png", undefined, "https://example.com/bob.png?size=80"],
    ["https://example.com/bob.png", null, "https://example.com/bob.png?size=80"],
    ["https://example.com/bob.png", 1, "https://example.com/bob.png?size=1"],
    ["https://example.com/bob.png?v=2", 2048, "https://example.com/bob.png?v=2&size=2048"],
  ])("of the picture %s with size %j is %s", async (address, size, expected) => {
    await useAddress(address);
    expect(await avatars(size)).toEqual({ avatar: expected?.replace(/\d+$/, "80") ?? null, plain: expected });
  });

  test.each([0, -1, 2049])("with size %i is refused", async (size) => {
    await useAddress("https://example.com/bob.png");
    expect(await errors(AVATAR, { variables: { size } })).toEqual(["VALIDATION_ERROR: size must be from 1 to 2048"]);
  });
});

describe("Article.summary(length: Int = 200): String!", () => {
  const summary = async (content: string, length?: number | null) => {
    const id = await article({ content });
    const query = "query ($id: ID!, $length: Int) { article(id: $id) { summary(length: $length) } }";
    return (await data(query, { variables: { id, ...(length === undefined ? {} : { length }) } })).article.summary;
  };

  test.each([
    ["One two three four", 18, "One two three four"],
    ["One two three four", 17, "One two three…"],
    ["One two three four", 8, "One two…"],
    ["One two three four", 7, "One…"],
    ["One two three four", 2, "O…"],
    ["Unbreakable", 5, "Unbr…"],
    ["Unbreakable", 1, "…"],
    ["one two  three", 9, "one two…"],
    ["one\n\ntwo\nthree", 6, "one…"],
    ["   indented", 3, "…"],
    ["😀😀😀 😀😀😀", 7, "😀😀😀 😀😀😀"],
    ["😀😀😀 😀😀😀", 5, "😀😀😀…"],
    ["x".repeat(201), undefined, `${"x".repeat(199)}…`],
  ])("of the content %j with length %j is %j", async (content, length, expected) =>
    expect(await summary(content, length)).toBe(expected),
  );

  test("has at most 200 characters of whole words when length is omitted, or null", async () => {
    const content = "Word ".repeat(100).trim();
    for (const length of [undefined, null]) {
      const text = await summary(content, length);
      expect(text).toMatch(/^(Word ){38,}Word…$/);
      expect(text.length).toBeLessThanOrEqual(200);
    }
    expect(await data("{ article(id: 1) { summary } }")).toEqual({
      article: { summary: "The engine weaves algebraical patterns just as the loom weaves flowers and leaves." },
    });
  });

  test.each([0, -1, 10_001])("with length %i is refused", async (length) => {
    expect(await errors(`{ article(id: 1) { summary(length: ${length}) } }`)).toEqual([
      "VALIDATION_ERROR: length must be from 1 to 10000",
    ]);
  });
});

describe("Article.comments(limit: Int = 10): [Comment!]!", () => {
  test("returns the newest first, 10 when limit is omitted, with author and article", async () => {
    const id = await article();
    const insert =
      "insert into comments (article_id, author_id, content, created_at) values ($1, 2, $2, $3) returning id";
    for (let i = 1; i <= 12; i++)
      await sql(insert, id, `Comment ${i}`, `2026-01-${String(i).padStart(2, "0")}T00:00:00Z`);
    const query = `query ($id: ID!) {
      article(id: $id) { comments { content } two: comments(limit: 2) { content author { name } article { id } } all: comments(limit: 100) { id } }
    }`;
    const { comments, two, all } = (await data(query, { variables: { id } })).article;
    expect(comments.map(({ content }: { content: string }) => content)).toEqual(
      [12, 11, 10, 9, 8, 7, 6, 5, 4, 3].map((n) => `Comment ${n}`),
    );
    expect(two).toEqual(
      [12, 11].map((n) => ({ content: `Comment ${n}`, author: { name: "Bob Kahn" }, article: { id } })),
    );
    expect(all).toHaveLength(12);
  });

  test("has a new comment of the caller after createComment(articleId: ID!, content: String!): Comment!", async () => {
    const id = await article();
    const query = `mutation ($id: ID!) { createComment(articleId: $id, content: "Well said.") { content createdAt author { id } article { id comments { content } } } }`;
    expect(await data(query, { variables: { id }, as: "bob" })).toEqual({
      createComment: {
        content: "Well said.",
        createdAt: expect.stringMatching(/Z$/),
        author: { id: "2" },
        article: { id, comments: [{ content: "Well said." }] },
      },
    });
  });

  test.each([
    ["999999", "Hm.", "RESOURCE_NOT_FOUND: article not found"],
    ["abc", "Hm.", "RESOURCE_NOT_FOUND: article not found"],
    ["", "Hm.", "RESOURCE_NOT_FOUND: article not found"],
    ["1", "", "VALIDATION_ERROR: content must not be empty"],
  ])(
    "is unchanged after createComment on the article %j with the content %j, which is refused",
    async (id, text, error) => {
      const query = "mutation ($id: ID!, $text: String!) { createComment(articleId: $id, content: $text) { id } }";
      expect(await errors(query, { variables: { id, text }, as: "bob" })).toEqual([error]);
    },
  );
});

describe("Article.relatedArticles(limit: Int = 5): [Article!]!", () => {
  test("returns articles with common tags, those with the most first, 5 when limit is omitted, never the article itself", async () => {
    const id = await article({ tags: ["r1", "r2", "r3"] });
    const one = await article({ tags: ["r1"], createdAt: "2026-01-01T00:00:00Z" });
    const two = await article({ tags: ["r1", "r3", "other"], createdAt: "2026-01-02T00:00:00Z" });
    const three = await article({ tags: ["r1", "r2", "r3", "r3"], createdAt: "2026-01-01T00:00:00Z" });
    const newer = await article({ tags: ["r2", "r2", "r2", "r2"], createdAt: "2026-01-03T00:00:00Z" });
    const more = [
      await article({ tags: ["r3"], createdAt: "2025-01-02T00:00:00Z" }),
      await article({ tags: ["r3"], createdAt: "2025-01-01T00:00:00Z" }),
    ];
    const query =
      "query ($id: ID!, $limit: Int) { article(id: $id) { plain: relatedArticles { id } relatedArticles(limit: $limit) { id } } }";
    const related = async (limit?: number | null) =>
      (await data(query, { variables: { id, ...(limit === undefined ? {} : { limit }) } })).article;
    const all = [three, two, newer, one, ...more].map((id) => ({ id }));
    expect(await related(100)).toEqual({ plain: all.slice(0, 5), relatedArticles: all });
    expect((await related(2)).relatedArticles).toEqual(all.slice(0, 2));
    expect((await related(0)).relatedArticles).toEqual([]);
    expect((await related(null)).relatedArticles).toEqual(all.slice(0, 5));
    expect((await related()).relatedArticles).toEqual(all.slice(0, 5));
    for (const limit of [-1, 1001])
      expect(await errors(query, { variables: { id, limit } })).toEqual([
        "VALIDATION_ERROR: limit must be from 0 to 1000",
      ]);
  });

  test("is empty for an article without tags", async () => {
    const id = await article({ tags: [] });
    expect(
      await data("query ($id: ID!) { article(id: $id) { relatedArticles { id } } }", { variables: { id } }),
    ).toEqual({ article: { relatedArticles: [] } });
  });
});

describe("Article.title(language: String): String!", () => {
  const ORIGINAL = "Notes on the Analytical Engine";
  const GERMAN = "Anmerkungen zur Analytischen Maschine";

  test.each([
    ["de", GERMAN],
    ["DE", GERMAN],
    ["fr", ORIGINAL],
    ["", ORIGINAL],
    [null, ORIGINAL],
    [undefined, ORIGINAL],
  ])("in the language %j, as a literal and in a variable", async (language, expected) => {
    const literal = language === undefined ? "" : `(language: ${JSON.stringify(language)})`;
    const query = `query ($language: String) { article(id: 1) { given: title(language: $language) literal: title${literal} title } }`;
    const variables = language === undefined ? {} : { language };
    const article = { given: expected, literal: expected, title: ORIGINAL };
    expect(await data(query, { variables })).toEqual({ article });
  });

  test("returns several languages in one query, also in lists and pages", async () => {
    const titles = '{ de: title(language: "de") fr: title(language: "fr") title }';
    const query = `{ user(id: 2) { articles { ...T } } articles(first: 1, filter: { keyword: "analytical" }) { edges { node { ...T } } } search(keyword: "analytical") { ...T } } fragment T on Article ${titles}`;
    const { user, articles, search } = await data(query);
    const found = { de: GERMAN, fr: ORIGINAL, title: ORIGINAL };
    expect(articles.edges).toEqual([{ node: found }]);
    expect(search).toEqual([found]);
    expect(user.articles).toContainEqual({
      de: "Wie Pakete ihren Weg finden",
      fr: "How packets find their way",
      title: "How packets find their way",
    });
  });
});

describe("the order and format of", () => {
  test("User.articles and articles is newest first", async () => {
    const old = await article({ author: 4, createdAt: "2010-01-01T00:00:00Z" });
    const older = await article({ author: 4, createdAt: "2009-01-01T00:00:00Z" });
    const oldest = await article({ author: 4, createdAt: "2009-01-01T00:00:00Z", tags: ["same time, lower id"] });
    const { user, articles } = await data(
      "{ user(id: 4) { articles(limit: 100) { id } } articles(filter: { authorId: 4 }, first: 100) { edges { node { id } } } }",
    );
    const order = user.articles.map(({ id }: { id: string }) => id);
    expect(order.slice(-3)).toEqual([old, oldest, older]);
    expect(articles.edges.map(({ node }: { node: { id: string } }) => node.id)).toEqual(order);
  });

  test("users is by id", async () => {
    const { users } = await data("{ users { id } }");
    expect(users).toEqual([{ id: "1" }, { id: "2" }, { id: "3" }, { id: "4" }]);
  });

  test.each([
    ["2026-11-20 08:30:00.123456+00", "2026-11-20T08:30:00.123Z"],
    ["2026-11-20 08:30:00+00", "2026-11-20T08:30:00.000Z"],
    ["2026-11-20 08:30:00.5+02", "2026-11-20T06:30:00.500Z"],
    ["1969-12-31 23:59:59.999999+00", "1970-01-01T00:00:00.000Z"],
    ["0001-01-01 00:00:00+00", "0001-01-01T00:00:00.000Z"],
  ])("Time is ISO 8601 in UTC with milliseconds: %s → %s", async (createdAt, expected) => {
    const id = await article({ createdAt });
    expect(await data("query ($id: ID!) { article(id: $id) { createdAt updatedAt } }", { variables: { id } })).toEqual({
      article: { createdAt: expected, updatedAt: null },
    });
  });

  test("Time is independent of the time zone of the database", async () => {
    const [database] = await sql("select quote_ident(current_database()) as name");
    await sql(`alter database ${database!.name} set timezone to 'Asia/Tokyo'`);
    await sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'content-service'",
    );
    const id = await article({ createdAt: "2015-05-05T20:00:00Z" });
    const query = `{
      inside: articles(filter: { createdAfter: "2015-05-05T19:59:59", createdBefore: "2015-05-06" }) { edges { node { id createdAt } } }
      outside: articles(filter: { createdAfter: "2015-05-05 20:00", createdBefore: "2015-05-06" }) { totalCount }
    }`;
    await vi.waitFor(
      async () => {
        expect(await data(query)).toEqual({
          inside: { edges: [{ node: { id, createdAt: "2015-05-05T20:00:00.000Z" } }] },
          outside: { totalCount: 0 },
        });
      },
      { timeout: 120_000 },
    );
  });
});

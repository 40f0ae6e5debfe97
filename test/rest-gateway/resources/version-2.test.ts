import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();

const USER = ["id", "name", "email", "age", "createdAt", "updatedAt", "_links"];
const ARTICLE = ["id", "authorId", "title", "content", "status", "tags", "createdAt", "updatedAt", "_links"];
const COMMENT = ["id", "articleId", "authorId", "content", "createdAt", "_links"];

describe("a record", () => {
  test.each([
    ["/users/1", USER],
    ["/articles/1", ARTICLE],
    ["/comments/1", COMMENT],
  ])("%s has names in camelCase and links", async (path, names) =>
    expect(Object.keys(await body(`/api/v2${path}`))).toEqual(names),
  );

  test("has a link with path and method for each operation", async () => {
    expect((await body("/api/v2/users/1"))._links).toEqual({
      self: { href: "/api/v2/users/1" },
      articles: { href: "/api/v2/users/1/articles" },
      update: { href: "/api/v2/users/1", method: "PUT" },
      delete: { href: "/api/v2/users/1", method: "DELETE" },
    });
    expect((await body("/api/v2/articles/1"))._links).toEqual({
      self: { href: "/api/v2/articles/1" },
      author: { href: "/api/v2/users/1" },
      comments: { href: "/api/v2/articles/1/comments" },
      publish: { href: "/api/v2/articles/1/publish", method: "POST" },
      update: { href: "/api/v2/articles/1", method: "PUT" },
      delete: { href: "/api/v2/articles/1", method: "DELETE" },
    });
    expect((await body("/api/v2/comments/1"))._links).toEqual({
      self: { href: "/api/v2/comments/1" },
      article: { href: "/api/v2/articles/1" },
      author: { href: "/api/v2/users/2" },
      update: { href: "/api/v2/comments/1", method: "PUT" },
      delete: { href: "/api/v2/comments/1", method: "DELETE" },
    });
  });

  test("has links that work with their methods", async () => {
    const sent = { title: "An article to follow", content: "All of its links." };
    const made = await body("POST /api/v2/articles", { as: "ada", body: sent });
    const { self, author, comments, publish, update, delete: gone } = made._links;
    expect(await body(self.href)).toEqual(made);
    expect(await body(author.href)).toMatchObject({ id: 1, name: "Ada Lovelace" });
    expect((await body(comments.href)).data).toEqual([]);
    expect(await body(`${publish.method} ${publish.href}`, { as: "ada" })).toMatchObject({ status: "PUBLISHED" });
    const changed = await api(`${update.method} ${update.href}`, {
      as: "ada",
      body: { ...made, title: "Another title" },
    });
    expect([changed.status, changed.json.title]).toEqual([200, "Another title"]);
    expect((await api(`${gone.method} ${gone.href}`, { as: "ada" })).status).toBe(204);
    expect((await api(self.href)).status).toBe(404);
  });
});

describe("a list", () => {
  test("has exactly the members of the convention", async () => {
    const list = await body("/api/v2/users?limit=2&page=2");
    expect(Object.keys(list)).toEqual(["data", "pagination", "links"]);
    expect(list.pagination).toEqual({ page: 2, limit: 2, total: 4, totalPages: 2 });
    expect(list.links).toEqual({
      first: "/api/v2/users?limit=2&page=1",
      prev: "/api/v2/users?limit=2&page=1",
      next: null,
      last: "/api/v2/users?limit=2&page=2",
    });
    expect(Object.keys(list.data[0])).toEqual(USER);
  });

  test.each([
    ["/api/v2/users", 10],
    ["/api/v2/articles", 20],
    ["/api/v2/comments", 20],
    ["/api/v2/articles/1/comments", 20],
    ["/api/v2/users/1/articles", 20],
  ])("%s has its first page by default, of %i", async (path, limit) => {
    const { data, pagination } = await body(path);
    expect(pagination).toMatchObject({ page: 1, limit, total: data.length, totalPages: 1 });
  });

  test.each(["/api/v2/users?limit=1", "/api/v2/articles?limit=3&sort=title", "/api/v2/users/1/articles?limit=1"])(
    "%s leads from page to page, forwards and backwards, with each record once",
    async (start) => {
      const { pagination, links } = await body(start);
      const walk = async (from: string, direction: "next" | "prev") => {
        const pages: number[][] = [];
        for (let href: string | null = from; href !== null; ) {
          const page: any = await body(href);
          pages.push(page.data.map(({ id }: { id: number }) => id));
          href = page.links[direction];
        }
        return pages;
      };
      const forwards = (await walk(links.first, "next")).flat();
      const backwards = (await walk(links.last, "prev")).toReversed().flat();
      expect(new Set(forwards).size).toBe(pagination.total);
      expect(forwards).toHaveLength(pagination.total);
      expect(backwards).toEqual(forwards);
    },
  );

  test("keeps the parameters in its links", async () => {
    const { links } = await body("/api/v2/articles?status=PUBLISHED&sort=title:desc&fields=id,title&limit=1&keyword=a");
    const next = new URL(links.next, "http://x");
    expect(Object.fromEntries(next.searchParams)).toEqual({
      status: "PUBLISHED",
      sort: "title:desc",
      fields: "id,title",
      limit: "1",
      keyword: "a",
      page: "2",
    });
    expect(Object.keys((await body(links.next)).data[0])).toEqual(["id", "title"]);
  });

  test("is empty beyond its end, has no pages without records, and at most 100 records per page", async () => {
    const beyond = await body("/api/v2/users?page=9&limit=2");
    expect([beyond.data, beyond.pagination]).toEqual([[], { page: 9, limit: 2, total: 4, totalPages: 2 }]);
    expect(beyond.links).toMatchObject({ prev: "/api/v2/users?page=2&limit=2", next: null });
    const none = await body("/api/v2/users?name=Nobody");
    expect([none.data, none.pagination.total, none.pagination.totalPages]).toEqual([[], 0, 0]);
    expect([none.links.prev, none.links.next]).toEqual([null, null]);
    expect((await body("/api/v2/users?limit=1000")).pagination.limit).toBe(100);
  });

  test("never shows an API key in its links", async () => {
    const key = "not-a-key";
    expect((await api(`/api/v2/users?limit=1&api_key=${key}`)).text).not.toContain(key);
  });
});

describe("a body", () => {
  test.each([
    ["in camelCase", { articleId: 1, content: "In camels." }],
    ["in snake_case", { article_id: 1, content: "With snakes." }],
  ])("may have names %s", async (_how, sent) => {
    expect(await body("POST /api/v2/comments", { as: "bob", body: sent })).toMatchObject({
      articleId: 1,
      authorId: 2,
      content: sent.content,
    });
  });

  test("may be a record that was read, for PUT and PATCH", async () => {
    const read = await body("/api/v2/users/2");
    for (const method of ["PUT", "PATCH"]) {
      const sent = { body: { ...read, age: 42 }, prefer: "handling=strict" };
      const { updatedAt, ...rest } = await body(`${method} /api/v2/users/2`, sent);
      expect(rest).toEqual({ ...read, age: 42, updatedAt: undefined });
      expect(Date.parse(updatedAt)).toBeGreaterThan(Date.parse(read.updatedAt));
    }
  });

  const NAME = "name must have 1 to 200 characters";
  const EMAIL = "email must be a valid address";
  test.each<[resource: string, sent: object, faults: [field: string, message: string][]]>([
    [
      "users",
      { email: "none", age: "old" },
      [
        ["name", "name is required"],
        ["age", "age must be a whole number"],
        ["email", EMAIL],
      ],
    ],
    [
      "users",
      { name: " ", email: "none", age: 400 },
      [
        ["age", "age must be from 0 to 150"],
        ["email", EMAIL],
        ["name", NAME],
      ],
    ],
    ["comments", { content: "About what?" }, [["articleId", "articleId is required"]]],
  ])(
    "that is invalid is 422 with a list of all faults, in the spelling of the version: %s %j",
    async (resource, sent, faults) => {
      const { status, json } = await api(`POST /api/v2/${resource}`, { as: "ada", body: sent });
      const errors = faults.map(([field, message]) => ({
        field,
        code: message.endsWith("is required") ? "MISSING_FIELD" : "VALIDATION_ERROR",
        message,
      }));
      expect([status, json.status, json.errors]).toEqual([422, 422, errors]);
      expect(json.error).toMatchObject({ code: "VALIDATION_ERROR", details: errors });
    },
  );

  test.each([
    ["that is not JSON", "{", 400, "INVALID_JSON"],
    ["that is empty", "", 400, "INVALID_JSON"],
    ["that is a text", '"x"', 400, "VALIDATION_ERROR"],
    ["that is null", "null", 400, "VALIDATION_ERROR"],
    ["that is an empty list", "[]", 400, "VALIDATION_ERROR"],
  ])("%s is malformed: %s", async (_what, sent, status, code) => {
    expect((await failure("POST /api/v2/users", { body: sent })).slice(0, 2)).toEqual([status, code]);
  });

  test("with a value that is taken is 409", async () => {
    const sent = { name: "Ada", email: "ADA@example.com" };
    const { status, json } = await api("POST /api/v2/users", { body: sent });
    expect([status, json.error.code, json.error.details]).toEqual([
      409,
      "RESOURCE_CONFLICT",
      [{ field: "email", code: "RESOURCE_CONFLICT", message: "email already registered" }],
    ]);
    expect(json.errors).toBeUndefined();
  });
});

test("a page of a sub-collection is the same as that of a filter", async () => {
  await sql(
    "insert into comments (article_id, author_id, content) select 2, 1, 'Comment ' || n from generate_series(1, 30) as n",
  );
  const nested = await body("/api/v2/articles/2/comments?limit=7&page=3");
  const filtered = await body("/api/v2/comments?article=2&limit=7&page=3");
  expect([nested.data, nested.pagination]).toEqual([filtered.data, filtered.pagination]);
  expect(nested.links.next).toBe("/api/v2/articles/2/comments?limit=7&page=4");
});

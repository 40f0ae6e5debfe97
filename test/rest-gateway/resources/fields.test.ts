import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure } = useResources();

describe("?fields= selects", () => {
  test.each([
    ["id,title", { id: 1, title: "Notes on the Analytical Engine" }],
    ["title,id", { id: 1, title: "Notes on the Analytical Engine" }],
    ["id,id,id", { id: 1 }],
    [" id , author_id ", { id: 1, author_id: 1 }],
    ["authorId", { author_id: 1 }],
    ["author.name", { author: { name: "Ada Lovelace" } }],
    ["author.id,author.name,id", { id: 1, author: { id: 1, name: "Ada Lovelace" } }],
    [
      "author._links",
      {
        author: {
          _links: {
            self: { href: "/users/1" },
            articles: { href: "/users/1/articles" },
            update: { href: "/users/1", method: "PUT" },
            delete: { href: "/users/1", method: "DELETE" },
          },
        },
      },
    ],
  ])("fields of a record: %s", async (fields, expected) => {
    expect(await body(`/articles/1?fields=${encodeURIComponent(fields)}`)).toEqual(expected);
  });

  test("fields through two relations", async () => {
    expect(await body("/comments/3?fields=content,article.title,article.author.name")).toEqual({
      content: "And if a packet is lost?",
      article: { title: "How packets find their way", author: { name: "Bob Kahn" } },
    });
  });

  test("all fields of a relation, also beside one of them", async () => {
    const author = await body("/users/1");
    expect(await body("/articles/1?fields=author")).toEqual({ author });
    expect(await body("/articles/1?fields=author.name,author")).toEqual({ author });
  });

  test("links in version 1", async () => {
    const { _links, ...rest } = await body("/articles/1?fields=id,_links");
    expect([rest, _links.author]).toEqual([{ id: 1 }, { href: "/users/1" }]);
  });

  test("nothing else in version 2", async () => {
    expect(await body("/api/v2/articles/1?fields=id,createdAt,author.createdAt")).toEqual({
      id: 1,
      createdAt: expect.stringMatching(/Z|\+00:00$/),
      author: { createdAt: expect.any(String) },
    });
    expect((await body("/api/v2/articles/1?fields=_links"))._links.self).toEqual({ href: "/api/v2/articles/1" });
  });

  test.each([
    "/articles?fields=id,author.name",
    "/api/v2/articles?fields=id,author.name",
    "/users/1/articles?fields=id,author.name",
  ])("fields of each record of a list: %s", async (path) => {
    for (const { id, author, ...rest } of (await body(path)).data) {
      expect([typeof id, typeof author.name, rest]).toEqual(["number", "string", {}]);
    }
  });

  test("the fields in the response to a write", async () => {
    const sent = { as: "ada", body: { title: "A new title", content: "…" } } as const;
    const made = await api("POST /articles?fields=title,author.name", sent);
    expect([made.status, made.json]).toEqual([201, { title: "A new title", author: { name: "Ada Lovelace" } }]);
    const path = made.headers.get("location");
    expect(await body(`PATCH ${path}?fields=content`, { as: "ada", body: { content: "Less" } })).toEqual({
      content: "Less",
    });
    expect(await body(`PUT ${path}?fields=title`, { ...sent, body: { ...sent.body, title: "Again" } })).toEqual({
      title: "Again",
    });
    expect(await body(`POST ${path}/publish?fields=status,_links`, { as: "ada" })).toMatchObject({
      status: "PUBLISHED",
    });
    expect((await api("PATCH /users/4?fields=name", { body: { age: 5 } })).json).toEqual({ name: "Carol Shaw" });
  });
});

describe("?fields= rejects", () => {
  test.each([
    ["nope", '"nope" is not a field of articles: use id, author'],
    ["", '"" is not a field of articles'],
    ["id,", '"" is not a field of articles'],
    [",id", '"" is not a field of articles'],
    ["ID", '"ID" is not a field of articles'],
    ["author.nope", '"nope" is not a field of users'],
    ["author.", '"" is not a field of users'],
    [".name", '"" is not a field of articles'],
    ["author.name.first", "name has no fields"],
    ["title.first", "title has no fields"],
    ["_links.self", "_links has no fields"],
    ["comments", '"comments" is not a field of articles'],
    ["author.avatar_url", '"avatar_url" is not a field of users'],
    ["constructor", '"constructor" is not a field of articles'],
    ["__proto__", '"__proto__" is not a field of articles'],
    ["author.a.b.c.d", "fields must go through at most 3 relations"],
    ['id" from users--', "is not a field of articles"],
    ["*", '"*" is not a field of articles'],
  ])("%s", async (fields, message) => {
    for (const path of ["/articles", "/articles/1", "/api/v2/articles"]) {
      const [status, code, received] = await failure(`${path}?fields=${encodeURIComponent(fields)}`);
      expect([status, code]).toEqual([400, "BAD_REQUEST"]);
      expect(received).toContain(message);
    }
  });

  test.each([
    ["/articles", "id, author_id, title, content, status, tags, created_at, updated_at, author, _links"],
    ["/api/v2/articles", "id, authorId, title, content, status, tags, createdAt, updatedAt, author, _links"],
    ["/api/v2/comments/1", "id, articleId, authorId, content, createdAt, article, author, _links"],
  ])("an unknown field of %s and lists all fields: %s", async (path, names) => {
    const [, , message] = await failure(`${path}?fields=nope`);
    expect(message).toMatch(RegExp(`^"nope" is not a field of (articles|comments): use ${names}$`));
  });

  test("an unknown field before anything is written", async () => {
    const before = (await body("/articles")).pagination.total;
    const sent = { as: "ada", body: { title: "A new title", content: "…" } } as const;
    expect((await failure("POST /articles?fields=nope", sent))[0]).toBe(400);
    expect((await failure("DELETE /articles/1?fields=id", { as: "ada" }))[0]).toBe(400);
    expect((await body("/articles")).pagination.total).toBe(before);
  });
});

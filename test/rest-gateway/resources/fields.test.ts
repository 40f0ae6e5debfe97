import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body } = useResources();

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

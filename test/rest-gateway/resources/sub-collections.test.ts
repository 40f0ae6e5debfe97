import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const ids = async (path: string) => (await body(path)).data.map(({ id }: { id: number }) => id);
// Comments 1 and 2 are of article 1, comment 3 is of article 2.

test.each([
  ["/articles/1/comments", [2, 1]],
  ["/articles/2/comments", [3]],
  ["/articles/3/comments", []],
  ["/users/1/articles", [3, 1]],
  ["/users/3/articles", []],
  ["/api/v2/articles/1/comments?sort=id", [1, 2]],
  ["/articles/1/comments?limit=1&page=2", [1]],
])("%s has the records %j", async (path, expected) => expect(await ids(path)).toEqual(expected));

test("the total counts the records of the parent", async () => {
  const { headers, json } = await api("/articles/1/comments?limit=1");
  expect([headers.get("x-total-count"), json.pagination.total]).toEqual(["2", 2]);
});

describe("a record in it", () => {
  test("is the same as at its own path", async () => {
    expect(await body("/articles/1/comments/1")).toEqual(await body("/comments/1"));
    expect(await body("/api/v2/users/1/articles/3")).toEqual(await body("/api/v2/articles/3"));
    const nested = await api("/articles/1/comments/1");
    expect(nested.headers.get("etag")).toBe((await api("/comments/1")).headers.get("etag"));
  });

  test.each([
    ["GET /articles/1/comments/3", undefined],
    ["HEAD /articles/1/comments/3", undefined],
    ["PUT /articles/2/comments/1", { content: "x" }],
    ["PATCH /articles/2/comments/1", { content: "x" }],
    ["DELETE /articles/2/comments/1", undefined],
    ["GET /articles/999/comments/1", undefined],
    ["GET /articles/1/comments/999", undefined],
    ["GET /users/2/articles/1", undefined],
    ["DELETE /users/2/articles/1", undefined],
  ])("is 404 under another parent: %s", async (request, sent) => {
    expect((await api(request, { as: "admin", body: sent })).status).toBe(404);
    expect((await body("/comments/1")).content).toBe("The loom is a fine picture.");
  });

  test("can be changed and deleted", async () => {
    const { json } = await api("POST /articles/1/comments", { as: "bob", body: { content: "x" } });
    const path = `/articles/1/comments/${json.id}`;
    expect(await body(`PATCH ${path}`, { as: "bob", body: { content: "y" } })).toEqual({ ...json, content: "y" });
    expect(await body(`PUT ${path}`, { as: "bob", body: { content: "z" } })).toEqual({ ...json, content: "z" });
    expect((await api(`DELETE ${path}`, { as: "bob", headers: { "if-match": '"v1-1"' } })).status).toBe(412);
    expect((await api(`DELETE ${path}`, { as: "bob" })).status).toBe(204);
    expect(await sql("select from comments where id = $1", json.id)).toEqual([]);
  });
});

describe("POST to it", () => {
  test("creates a record of that parent, by the caller", async () => {
    const sent = { content: "Nice.", author_id: 1, authorId: 1, article_id: 2, articleId: 2 };
    const { status, headers, json } = await api("POST /articles/1/comments", { as: "bob", body: sent });
    expect([status, json.article_id, json.author_id]).toEqual([201, 1, 2]);
    expect(headers.get("location")).toBe(`/comments/${json.id}`);
    expect(await body(headers.get("location")!)).toEqual(json);
    expect(await body(`/articles/1/comments/${json.id}`)).toEqual(json);
  });

  test("ignores the parent in the body and does not require it", async () => {
    const made = await body("POST /api/v2/articles/2/comments", {
      as: "bob",
      body: { content: "x" },
      prefer: "handling=strict",
    });
    expect(made).toMatchObject({ articleId: 2, authorId: 2, _links: { article: { href: "/api/v2/articles/2" } } });
  });

  test("creates several records", async () => {
    const made = await body("POST /articles/3/comments", { as: "bob", body: [{ content: "a" }, { content: "b" }] });
    expect(made.map(({ article_id, content }: any) => [article_id, content])).toEqual([
      [3, "a"],
      [3, "b"],
    ]);
  });

  test("under an unknown parent is 404 and creates nothing", async () => {
    const received = [404, "RESOURCE_NOT_FOUND", "there is no article with this id"];
    expect(await failure("POST /articles/999/comments", { as: "bob", body: { content: "lost" } })).toEqual(received);
    expect(await failure("POST /articles/999/comments", { as: "bob", body: [{ content: "lost" }] })).toEqual(received);
    expect(await sql("select from comments where content = 'lost'")).toEqual([]);
  });
});

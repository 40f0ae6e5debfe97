import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const newComment = async (): Promise<string> =>
  (await api("POST /comments", { as: "bob", body: { article_id: 1, content: "A comment." } })).headers.get("location")!;

test("a comment is created, read, changed and deleted", async () => {
  const made = await api("POST /comments", { as: "bob", body: { article_id: 1, content: "A comment." } });
  expect([made.status, made.headers.get("location")]).toEqual([201, `/comments/${made.json.id}`]);
  expect(made.json).toEqual({
    id: expect.any(Number),
    article_id: 1,
    author_id: 2,
    content: "A comment.",
    created_at: expect.any(String),
  });
  const path = made.headers.get("location")!;
  expect(await body(path)).toEqual(made.json);
  const changed = { ...made.json, content: "Changed." };
  expect(await body(`PATCH ${path}`, { as: "bob", body: { content: "Changed." } })).toEqual(changed);
  expect(await body(`PUT ${path}`, { as: "bob", body: { content: "Again." } })).toEqual({
    ...changed,
    content: "Again.",
  });
  expect((await api(`DELETE ${path}`, { as: "bob" })).status).toBe(204);
  expect(await failure(path)).toEqual([404, "RESOURCE_NOT_FOUND", "there is no comment with this id"]);
});

test("the article and the author of a comment cannot be changed", async () => {
  const path = await newComment();
  for (const method of ["PUT", "PATCH"]) {
    const sent = { content: "Moved?", article_id: 2, author_id: 1 };
    expect(await body(`${method} ${path}`, { as: "bob", body: sent })).toMatchObject({ article_id: 1, author_id: 2 });
  }
});

describe("an invalid body is rejected", () => {
  test.each([
    [{ content: "About what?" }, 400, "MISSING_FIELD", "article_id is required"],
    [{ article_id: 1 }, 400, "MISSING_FIELD", "content is required"],
    [{ article_id: "1", content: "x" }, 400, "VALIDATION_ERROR", "article_id must be a whole number"],
    [{ article_id: 1.5, content: "x" }, 400, "VALIDATION_ERROR", "article_id must be a whole number"],
    [{ article_id: 1, content: "" }, 400, "VALIDATION_ERROR", "content must not be empty"],
    [{ article_id: 999, content: "x" }, 409, "RESOURCE_CONFLICT", "article not found"],
  ])("%j", async (sent, status, code, message) =>
    expect(await failure("POST /comments", { as: "bob", body: sent })).toEqual([status, code, message]),
  );
});

describe("access", () => {
  test.each([
    ["POST /comments", { article_id: 1, content: "x" }],
    ["POST /articles/1/comments", { content: "x" }],
    ["PUT /comments/1", { content: "x" }],
    ["PATCH /comments/1", { content: "x" }],
    ["DELETE /comments/1", undefined],
  ])("%s requires credentials", async (request, sent) =>
    expect((await failure(request, { body: sent })).slice(0, 2)).toEqual([401, "AUTH_REQUIRED"]),
  );

  test.each([
    ["PUT /comments/1", { content: "x" }, "you may not change this comment"],
    ["PATCH /comments/1", { content: "x" }, "you may not change this comment"],
    ["DELETE /comments/1", undefined, "you may not delete this comment"],
    ["PATCH /articles/1/comments/1", { content: "x" }, "you may not change this comment"],
    ["DELETE /articles/1/comments/1", undefined, "you may not delete this comment"],
  ])("%s is forbidden to other users, including the author of the article", async (request, sent, message) => {
    expect(await failure(request, { as: "ada", body: sent })).toEqual([403, "PERMISSION_DENIED", message]);
    expect((await body("/comments/1")).content).toBe("The loom is a fine picture.");
  });

  test.each(["bob", "admin", "service"] as const)("is granted to %s", async (who) => {
    const path = await newComment();
    expect((await api(`PATCH ${path}`, { as: who, body: { content: "x" } })).json).toMatchObject({ author_id: 2 });
    expect((await api(`DELETE ${path}`, { as: who })).status).toBe(204);
  });

  test("of POST: every signed-in user creates comments under their own name", async () => {
    for (const [who, id] of [
      ["ada", 1],
      ["bob", 2],
      ["admin", 3],
    ] as const) {
      const sent = { as: who, body: { article_id: 4, content: "x", author_id: 4 } };
      expect(await body("POST /comments", sent)).toMatchObject({ article_id: 4, author_id: id });
    }
    expect(await sql("select from comments where author_id = 4")).toEqual([]);
  });
});

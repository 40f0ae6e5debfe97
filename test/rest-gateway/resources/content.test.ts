import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const INPUT = { title: "A new article", content: "Some content." };
/** An article by ada. */
const newArticle = async (input: object = INPUT): Promise<string> =>
  (await api("POST /articles", { as: "ada", body: input })).headers.get("location")!;

test("an article is created, read, changed, published and deleted with its comments", async () => {
  const made = await api("POST /articles", { as: "ada", body: INPUT });
  expect([made.status, made.headers.get("location")]).toEqual([201, `/articles/${made.json.id}`]);
  expect(made.json).toEqual({
    id: expect.any(Number),
    author_id: 1,
    ...INPUT,
    status: "DRAFT",
    tags: [],
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$/),
    updated_at: null,
  });
  const path = made.headers.get("location")!;
  expect(await body(path)).toEqual(made.json);

  const changed = await body(`PATCH ${path}`, { as: "ada", body: { tags: ["sql", "rest"] } });
  expect(changed).toEqual({ ...made.json, tags: ["sql", "rest"], updated_at: expect.any(String) });
  const published = await body(`POST ${path}/publish`, { as: "ada" });
  expect(published).toEqual({ ...changed, status: "PUBLISHED", updated_at: expect.any(String) });
  const { status, tags } = await body(`PUT ${path}`, { as: "ada", body: INPUT });
  expect([status, tags]).toEqual(["DRAFT", []]);

  await api(`POST ${path}/comments`, { as: "bob", body: { content: "Nice." } });
  const gone = await api(`DELETE ${path}`, { as: "ada" });
  expect([gone.status, gone.text]).toEqual([204, ""]);
  expect(await failure(path)).toEqual([404, "RESOURCE_NOT_FOUND", "there is no article with this id"]);
  expect(await sql("select from comments where content = 'Nice.'")).toEqual([]);
});

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
  for (const [method, content] of [
    ["PATCH", "Changed."],
    ["PUT", "Again."],
  ])
    expect(await body(`${method} ${path}`, { as: "bob", body: { content } })).toEqual({ ...made.json, content });
  expect((await api(`DELETE ${path}`, { as: "bob" })).status).toBe(204);
  expect(await failure(path)).toEqual([404, "RESOURCE_NOT_FOUND", "there is no comment with this id"]);
});

describe("a caller cannot choose", () => {
  const CHOSEN = { id: 99, author_id: 4, authorId: 4, created_at: "2000-01-01", updated_at: "2000-01-01" };

  test.each(["articles", "comments"])("the id, the author and the times of %s", async (resource) => {
    const sent = { ...(resource === "articles" ? INPUT : { content: "x", article_id: 1 }), ...CHOSEN };
    const made = await body(`POST /${resource}`, { as: "ada", body: sent });
    expect([made.id === 99, made.author_id, made.created_at.startsWith("2000")]).toEqual([false, 1, false]);
    for (const method of ["PUT", "PATCH"]) {
      const changed = await body(`${method} /${resource}/${made.id}`, { as: "ada", body: sent });
      expect({ ...changed, updated_at: made.updated_at }).toEqual({ ...made, updated_at: made.updated_at });
    }
  });

  test("another article for a comment", async () => {
    const { id } = await body("POST /comments", { as: "bob", body: { article_id: 1, content: "x" } });
    for (const method of ["PUT", "PATCH"])
      expect(
        await body(`${method} /comments/${id}`, { as: "bob", body: { content: "Moved?", article_id: 2 } }),
      ).toMatchObject({ article_id: 1 });
  });
});

describe("an invalid body is rejected, and nothing is written", () => {
  const COMMENT = { article_id: 1, content: "x" };
  test.each([
    ["articles", { content: "…" }, "MISSING_FIELD", "title is required"],
    ["articles", { title: "A title" }, "MISSING_FIELD", "content is required"],
    ["articles", {}, "MISSING_FIELD", "title is required; content is required"],
    ["articles", { ...INPUT, title: "Tiny" }, "VALIDATION_ERROR", "title must have at least 5 characters"],
    ["articles", { ...INPUT, title: null }, "VALIDATION_ERROR", "title must not be null"],
    ["articles", { ...INPUT, title: 12345 }, "VALIDATION_ERROR", "title must be a text"],
    ["articles", { ...INPUT, content: "" }, "VALIDATION_ERROR", "content must not be empty"],
    ["articles", { ...INPUT, status: "draft" }, "VALIDATION_ERROR", "status must be one of DRAFT, PUBLISHED, ARCHIVED"],
    ["articles", { ...INPUT, status: null }, "VALIDATION_ERROR", "status must not be null"],
    ["articles", { ...INPUT, status: 1 }, "VALIDATION_ERROR", "status must be one of DRAFT, PUBLISHED, ARCHIVED"],
    ["articles", { ...INPUT, tags: "sql" }, "VALIDATION_ERROR", "tags must be a list"],
    ["articles", { ...INPUT, tags: { 0: "sql" } }, "VALIDATION_ERROR", "tags must be a list"],
    ["articles", { ...INPUT, tags: ["a", 1] }, "VALIDATION_ERROR", "tags at index 1 must be a text"],
    ["articles", { ...INPUT, tags: ["a", null] }, "VALIDATION_ERROR", "tags at index 1 must not be null"],
    ["articles", { ...INPUT, tags: [["a"]] }, "VALIDATION_ERROR", "tags at index 0 must be a text"],
    ["articles", { ...INPUT, tags: [""] }, "VALIDATION_ERROR", "each tag must have 1 to 50 characters"],
    ["articles", { ...INPUT, tags: null }, "VALIDATION_ERROR", "tags must not be null"],
    ["comments", { article_id: 1 }, "MISSING_FIELD", "content is required"],
    ["comments", { ...COMMENT, article_id: 1.5 }, "VALIDATION_ERROR", "article_id must be a whole number"],
    ["comments", { ...COMMENT, article_id: "1" }, "VALIDATION_ERROR", "article_id must be a whole number"],
    ["comments", { ...COMMENT, content: "" }, "VALIDATION_ERROR", "content must not be empty"],
    ["comments", { ...COMMENT, article_id: 999 }, "RESOURCE_CONFLICT", "article not found"],
  ])("%s: %j", async (resource, sent, code, message) => {
    const count = () => sql(`select count(*) from ${resource}`);
    const before = await count();
    const [first, second] = code === "RESOURCE_CONFLICT" ? [409, 409] : [400, 422];
    expect(await failure(`POST /${resource}`, { as: "ada", body: sent })).toEqual([first, code, message]);
    const { status, json } = await api(`POST /api/v2/${resource}`, { as: "ada", body: sent });
    const spelled = message.replace("article_id", "articleId");
    expect([status, json.error.message]).toEqual([second, spelled]);
    expect(json.error.code).toBe(code === "MISSING_FIELD" ? "VALIDATION_ERROR" : code);
    expect(await count()).toEqual(before);
  });

  test("tags with all kinds of characters are returned unchanged", async () => {
    const tags = ["a,b", '"', "{}", "\\", "NULL", "ä ö", "😀", " a "];
    const path = await newArticle({ ...INPUT, tags });
    expect((await body(path)).tags).toEqual(tags);
    for (const tag of tags) {
      const { data } = await body(`/articles?fields=id&tag=${encodeURIComponent(tag)}`);
      expect([tag, `/articles/${data[0]?.id}`]).toEqual([tag, path]);
    }
  });
});

describe("POST /articles/{id}/publish", () => {
  test("has the same effect twice", async () => {
    const path = await newArticle();
    const once = await body(`POST ${path}/publish`, { as: "ada" });
    expect(await body(`POST ${path}/publish`, { as: "ada" })).toEqual(once);
  });

  test.each(["", "/api/v2"])("returns the entity tag and the date of the published article: %s", async (prefix) => {
    const path = `${prefix}${await newArticle()}`;
    const published = await api(`POST ${path}/publish`, { as: "ada" });
    const read = await api(path);
    expect(read.json).toEqual(published.json);
    for (const name of ["etag", "last-modified"])
      expect([name, published.headers.get(name)]).toEqual([name, read.headers.get(name)]);
    const sent = { as: "ada", body: { content: "More." }, headers: { "if-match": read.headers.get("etag")! } } as const;
    expect((await api(`PATCH ${path}`, sent)).status).toBe(200);
  });

  test.each([
    ["an empty object", "{}", {}],
    ["an object", '{"status":"ARCHIVED"}', {}],
    ["text that is not JSON", "publish!", { "content-type": "text/plain" }],
    ["a body over the size limit", "x".repeat(1_100_000), {}],
  ])("ignores a body, as DELETE does: %s", async (_what, sent, headers) => {
    const path = await newArticle();
    const { status, json } = await api(`POST ${path}/publish`, { as: "ada", body: sent, headers });
    expect([status, json.status]).toEqual([200, "PUBLISHED"]);
  });

  test.each([
    ["/articles/99999999999999999999/publish", 404, "RESOURCE_NOT_FOUND"],
    ["/articles/-1/publish", 404, "RESOURCE_NOT_FOUND"],
    ["/articles/abc/publish", 400, "INVALID_ID"],
    ["/articles/1/publish?status=x", 400, "BAD_REQUEST"],
    ["/articles/1/publish?fields=nope", 400, "BAD_REQUEST"],
    ["/articles/1/unpublish", 404, "RESOURCE_NOT_FOUND"],
    ["/comments/1/publish", 404, "RESOURCE_NOT_FOUND"],
  ])("at %s is %i %s", async (path, status, code) =>
    expect((await failure(`POST ${path}`, { as: "ada" })).slice(0, 2)).toEqual([status, code]),
  );
});

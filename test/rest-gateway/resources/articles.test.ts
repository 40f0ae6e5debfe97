import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const INPUT = { title: "A new article", content: "Some content." };
const count = async () => (await sql("select count(*)::int as n from articles"))[0].n;
/** An article by ada. */
const newArticle = async (input: object = INPUT): Promise<string> =>
  (await api("POST /articles", { as: "ada", body: input })).headers.get("location")!;

test("an article is created, read, changed, published and deleted", async () => {
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

  const gone = await api(`DELETE ${path}`, { as: "ada" });
  expect([gone.status, gone.text]).toEqual([204, ""]);
  expect(await failure(path)).toEqual([404, "RESOURCE_NOT_FOUND", "there is no article with this id"]);
  expect((await failure(`DELETE ${path}`, { as: "ada" }))[0]).toBe(404);
});

describe("PUT", () => {
  test("sets absent fields to their defaults", async () => {
    const path = await newArticle({ ...INPUT, status: "PUBLISHED", tags: ["a", "b"] });
    const put = await body(`PUT ${path}`, { as: "ada", body: { title: "Another title", content: "Other." } });
    expect(put).toMatchObject({ title: "Another title", content: "Other.", status: "DRAFT", tags: [], author_id: 1 });
  });

  test("keeps absent fields with dialect=partial", async () => {
    const path = await newArticle({ ...INPUT, status: "PUBLISHED", tags: ["a"] });
    const put = await body(`PUT ${path}`, { as: "ada", body: { title: "Another title" }, prefer: "dialect=partial" });
    expect(put).toMatchObject({ title: "Another title", content: INPUT.content, status: "PUBLISHED", tags: ["a"] });
  });

  test("requires the fields that POST requires", async () => {
    const path = await newArticle();
    expect(await failure(`PUT ${path}`, { as: "ada", body: { title: "Another title" } })).toEqual([
      400,
      "MISSING_FIELD",
      "content is required",
    ]);
  });

  test("has the same effect twice", async () => {
    const path = await newArticle();
    const once = await body(`PUT ${path}`, { as: "ada", body: INPUT });
    const { updated_at, ...twice } = await body(`PUT ${path}`, { as: "ada", body: INPUT });
    expect({ ...twice, updated_at: once.updated_at }).toEqual(once);
  });
});

describe("the id, the author and the times", () => {
  test.each([
    ["POST", "/articles"],
    ["PUT", null],
    ["PATCH", null],
  ])("are ignored by %s", async (method, at) => {
    const path = at ?? (await newArticle());
    const before = at ? null : await body(path);
    const wanted = { id: 99, author_id: 2, authorId: 2, created_at: "2000-01-01", updated_at: "2000-01-01" };
    const { id, author_id, created_at } = await body(`${method} ${path}`, { as: "ada", body: { ...INPUT, ...wanted } });
    expect([id === 99, author_id, created_at.startsWith("2000")]).toEqual([false, 1, false]);
    if (before) expect([id, created_at]).toEqual([before.id, before.created_at]);
  });
});

describe("an invalid body is rejected, and nothing is written", () => {
  test.each([
    [{ content: "…" }, "MISSING_FIELD", "title is required"],
    [{ title: "A title" }, "MISSING_FIELD", "content is required"],
    [{}, "MISSING_FIELD", "title is required; content is required"],
    [{ ...INPUT, title: "Tiny" }, "VALIDATION_ERROR", "title must have at least 5 characters"],
    [{ ...INPUT, title: null }, "VALIDATION_ERROR", "title must not be null"],
    [{ ...INPUT, title: 12345 }, "VALIDATION_ERROR", "title must be a text"],
    [{ ...INPUT, content: "" }, "VALIDATION_ERROR", "content must not be empty"],
    [{ ...INPUT, status: "draft" }, "VALIDATION_ERROR", "status must be one of DRAFT, PUBLISHED, ARCHIVED"],
    [{ ...INPUT, status: null }, "VALIDATION_ERROR", "status must not be null"],
    [{ ...INPUT, status: 1 }, "VALIDATION_ERROR", "status must be one of DRAFT, PUBLISHED, ARCHIVED"],
    [{ ...INPUT, tags: "sql" }, "VALIDATION_ERROR", "tags must be a list"],
    [{ ...INPUT, tags: { 0: "sql" } }, "VALIDATION_ERROR", "tags must be a list"],
    [{ ...INPUT, tags: ["a", 1] }, "VALIDATION_ERROR", "tags at index 1 must be a text"],
    [{ ...INPUT, tags: ["a", null] }, "VALIDATION_ERROR", "tags at index 1 must not be null"],
    [{ ...INPUT, tags: [["a"]] }, "VALIDATION_ERROR", "tags at index 0 must be a text"],
    [{ ...INPUT, tags: [""] }, "VALIDATION_ERROR", "each tag must have 1 to 50 characters"],
    [{ ...INPUT, tags: null }, "VALIDATION_ERROR", "tags must not be null"],
  ])("%j", async (sent, code, message) => {
    const before = await count();
    expect(await failure("POST /articles", { as: "ada", body: sent })).toEqual([400, code, message]);
    expect(await count()).toBe(before);
    const [status, ...received] = await failure("POST /api/v2/articles", { as: "ada", body: sent });
    expect([status, ...received]).toEqual([422, "VALIDATION_ERROR", message]);
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

describe("access", () => {
  const requests = [
    ["POST /articles", INPUT],
    ["PUT /articles/1", INPUT],
    ["PATCH /articles/1", { content: "Changed." }],
    ["DELETE /articles/3", undefined],
    ["POST /articles/1/publish", undefined],
  ] as const;

  test.each(requests)("%s requires credentials", async (request, sent) => {
    const { status, json, headers } = await api(request, { body: sent });
    expect([status, json.error.code, json.error.message]).toEqual([401, "AUTH_REQUIRED", "login required"]);
    expect(headers.get("www-authenticate")).toBe("Bearer");
  });

  test.each([
    ["PUT /articles/1", INPUT, "you may not change this article"],
    ["PATCH /articles/1", { content: "Changed." }, "you may not change this article"],
    ["DELETE /articles/3", undefined, "you may not delete this article"],
    ["POST /articles/1/publish", undefined, "only the author may publish this article"],
  ])("%s is forbidden to other users", async (request, sent, message) => {
    const [status, code, received] = await failure(request, { as: "bob", body: sent });
    expect([status, code, received]).toEqual([403, "PERMISSION_DENIED", message]);
    expect((await body("/articles/1")).title).toBe("Notes on the Analytical Engine");
    expect((await api("/articles/3")).status).toBe(200);
  });

  test.each(["ada", "admin", "service"] as const)("is granted to %s", async (who) => {
    const path = await newArticle();
    expect((await api(`PATCH ${path}`, { as: who, body: { title: `By ${who} it is` } })).json.author_id).toBe(1);
    expect((await api(`PUT ${path}`, { as: who, body: INPUT })).status).toBe(200);
    expect((await api(`POST ${path}/publish`, { as: who })).status).toBe(200);
    expect((await api(`DELETE ${path}`, { as: who })).status).toBe(204);
  });

  test("is checked after the existence of the record", async () => {
    for (const request of ["PATCH /articles/999", "DELETE /articles/999", "PUT /articles/999"])
      expect(await failure(request, { as: "bob", body: request.startsWith("D") ? undefined : INPUT })).toEqual([
        404,
        "RESOURCE_NOT_FOUND",
        "there is no article with this id",
      ]);
  });

  test("deletion of an article deletes its comments", async () => {
    const path = await newArticle();
    await api(`POST ${path}/comments`, { as: "bob", body: { content: "Nice." } });
    expect((await api(`DELETE ${path}`, { as: "ada" })).status).toBe(204);
    expect(await sql("select from comments where content = 'Nice.'")).toEqual([]);
  });

  test("is refused to the service key for POST: an article needs an author", async () => {
    expect((await api("POST /articles", { as: "service", body: INPUT })).status).toBe(400);
  });
});

test("several articles are created at once, with defaults for absent fields", async () => {
  const sent = [{ ...INPUT, tags: ["a"] }, { ...INPUT, title: "Second one", status: "ARCHIVED" }, INPUT];
  const made = await body("POST /articles", { as: "ada", body: sent });
  expect(made.map(({ title, status, tags, author_id }: any) => [title, status, tags, author_id])).toEqual([
    ["A new article", "DRAFT", ["a"], 1],
    ["Second one", "ARCHIVED", [], 1],
    ["A new article", "DRAFT", [], 1],
  ]);
});

test.each([
  ["/articles", "GET, HEAD, POST, OPTIONS"],
  ["/articles/1", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"],
  ["/articles/1/publish", "POST, OPTIONS"],
])("%s has the methods %s", async (path, allow) => {
  for (const method of ["OPTIONS", "PROPFIND"]) {
    const { status, headers } = await api(`${method} ${path}`);
    expect([status, headers.get("allow")]).toEqual([method === "OPTIONS" ? 204 : 405, allow]);
  }
});

import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure } = useResources();
/** An article by ada; DRAFT. */
async function newArticle(): Promise<string> {
  const made = await api("POST /articles", { as: "ada", body: { title: "To be published", content: "…" } });
  return made.headers.get("location")!;
}

describe("POST /articles/{id}/publish", () => {
  test("publishes the article and returns it", async () => {
    const path = await newArticle();
    const { status, json } = await api(`POST ${path}/publish`, { as: "ada" });
    expect([status, json.status]).toEqual([200, "PUBLISHED"]);
    expect(await body(path)).toEqual(json);
  });

  test("has the same effect twice", async () => {
    const path = await newArticle();
    const once = await body(`POST ${path}/publish`, { as: "ada" });
    expect(await body(`POST ${path}/publish`, { as: "ada" })).toEqual(once);
  });

  test.each(["", "/api/v2"])("returns the entity tag and the date of the published article: %s", async (prefix) => {
    const path = `${prefix}${await newArticle()}`;
    const published = await api(`POST ${path}/publish`, { as: "ada" });
    const read = await api(path);
    for (const name of ["etag", "last-modified"])
      expect([name, published.headers.get(name)]).toEqual([name, read.headers.get(name)]);
    const sent = { as: "ada", body: { content: "More." }, headers: { "if-match": read.headers.get("etag")! } } as const;
    expect((await api(`PATCH ${path}`, sent)).status).toBe(200);
  });

  test.each([
    ["none", undefined, {}],
    ["an empty object", "{}", {}],
    ["an object", '{"status":"ARCHIVED"}', {}],
    ["text that is not JSON", "publish!", { "content-type": "text/plain" }],
    ["a body over the size limit", "x".repeat(1_100_000), {}],
  ])("ignores a body, as DELETE does: %s", async (_what, sent, headers) => {
    const path = await newArticle();
    const { status, json } = await api(`POST ${path}/publish`, { as: "ada", body: sent, headers });
    expect([status, json.status]).toEqual([200, "PUBLISHED"]);
  });

  test("responds in the form of the version, with the selected fields", async () => {
    const path = await newArticle();
    const made = await body(`POST /api/v2${path}/publish`, { as: "ada" });
    expect(made).toMatchObject({ authorId: 1, _links: { self: { href: `/api/v2${path}` } } });
    expect(await body(`POST ${path}/publish?fields=status`, { as: "ada" })).toEqual({ status: "PUBLISHED" });
  });

  test.each([
    ["a stranger", "bob", 403, "PERMISSION_DENIED"],
    ["anonymous", undefined, 401, "AUTH_REQUIRED"],
  ] as const)("is refused to %s", async (_who, as, status, code) => {
    const path = await newArticle();
    expect((await failure(`POST ${path}/publish`, { as })).slice(0, 2)).toEqual([status, code]);
    expect((await body(path)).status).toBe("DRAFT");
  });

  test.each(["admin", "service"] as const)("is allowed for %s", async (as) =>
    expect(await body(`POST ${await newArticle()}/publish`, { as })).toMatchObject({
      status: "PUBLISHED",
      author_id: 1,
    }),
  );

  test.each([
    ["/articles/999/publish", 404, "RESOURCE_NOT_FOUND"],
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

  test("of an unknown article is 404 in every form of errors", async () => {
    const received = await failure("/articles/999");
    expect(await failure("POST /articles/999/publish", { as: "ada" })).toEqual(received);
    expect(await failure("POST /articles/999/publish", { as: "ada", headers: { "if-match": "*" } })).toEqual(received);
  });

  test.each(["GET", "HEAD", "PUT", "PATCH", "DELETE"])("does not support %s", async (method) => {
    const { status, headers } = await api(`${method} /articles/1/publish`, { as: "ada" });
    expect([status, headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  });
});

import { describe, expect, test } from "vitest";
import { type ApiReply, useResources } from "../../support/resource-client.ts";

const { api, body, sql } = useResources();
const tagOf = ({ headers }: ApiReply) => headers.get("etag")!;
const OTHER = '"v1-1"';

/** A user of its own for a test, and its tag. */
async function newUser(): Promise<{ path: string; tag: string }> {
  const made = await api("POST /users", { body: { name: "Zed", email: `zed${Math.random()}@example.com` } });
  return { path: made.headers.get("location")!, tag: tagOf(made) };
}

describe("the tag of a record", () => {
  test("is the same for each read and different after each change", async () => {
    const { path, tag } = await newUser();
    expect(tag).toMatch(/^"v1-\d+"$/);
    expect(tagOf(await api(path))).toBe(tag);
    expect(tagOf(await api(path))).toBe(tag);
    const patched = await api(`PATCH ${path}`, { body: { age: 5 } });
    expect(tagOf(patched)).not.toBe(tag);
    expect(tagOf(await api(path))).toBe(tagOf(patched));
    const put = await api(`PUT ${path}`, { body: { ...patched.json, age: 6 } });
    expect(tagOf(put)).not.toBe(tagOf(patched));
    expect(tagOf(await api(path))).toBe(tagOf(put));
  });

  test("is returned by POST too", async () => {
    const made = await api("POST /articles", { as: "ada", body: { title: "A title", content: "…" } });
    expect(tagOf(await api(made.headers.get("location")!))).toBe(tagOf(made));
  });

  test("changes when the row is changed in the database", async () => {
    const before = tagOf(await api("/articles/2"));
    await sql("update articles set content = content || '!' where id = 2");
    expect(tagOf(await api("/articles/2"))).not.toBe(before);
  });

  test("differs between forms of the response", async () => {
    const tags = [
      tagOf(await api("/users/1")),
      tagOf(await api("/users/1", { prefer: "dialect=case" })),
      tagOf(await api("/api/v2/users/1")),
    ];
    expect(new Set(tags).size).toBe(3);
  });

  test("is strong", async () => {
    for (const path of ["/users/1", "/users", "/api/v2/articles", "/articles/1?fields=author.name"])
      expect(tagOf(await api(path))).toMatch(/^"[^"]+"$/);
  });

  test("is a hash of the body when other rows are part of it", async () => {
    const before = await api("/articles/1?fields=author.name");
    expect(tagOf(before)).not.toMatch(/^"v1/);
    await sql("update users set name = 'Ada King' where id = 1");
    expect(tagOf(await api("/articles/1?fields=author.name"))).not.toBe(tagOf(before));
    await sql("update users set name = 'Ada Lovelace' where id = 1");
    expect(tagOf(await api("/articles/1?fields=author.name"))).toBe(tagOf(before));
  });
});

describe("a read with If-None-Match", () => {
  test.each([
    ["the tag", (tag: string) => tag, 304],
    ["the tag, weak", (tag: string) => `W/${tag}`, 304],
    ["a list with the tag", (tag: string) => `${OTHER}, W/"x" ,${tag}`, 304],
    ["anything", () => "*", 304],
    ["another tag", () => OTHER, 200],
    ["a list without the tag", () => `${OTHER}, "v1-2"`, 200],
    ["the tag without its quotes", (tag: string) => tag.slice(1, -1), 200],
    ["a text that is not a tag", () => "nonsense", 200],
    ["nothing", () => "", 200],
  ])("of %s", async (_what, header, status) => {
    for (const path of ["/users/2", "/users", "/api/v2/users/2", "/api/v2/users?limit=2", "/articles/1/comments"]) {
      const first = await api(path);
      const again = await api(path, { headers: { "if-none-match": header(tagOf(first)) } });
      expect([path, again.status]).toEqual([path, status]);
      expect(again.text).toBe(status === 304 ? "" : first.text);
    }
  });

  test("and status 304 has the headers that a cache needs", async () => {
    const first = await api("/users/2");
    const again = await api("/users/2", { headers: { "if-none-match": tagOf(first) } });
    for (const name of ["etag", "cache-control", "vary", "last-modified", "x-api-version"])
      expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)]);
    expect(again.headers.get("cache-control")).toBe("private, no-cache");
    expect(again.headers.get("content-type")).toBeNull();
    expect(again.headers.get("content-length")).toBeNull();
  });

  test("has the same response to HEAD", async () => {
    const first = await api("HEAD /users/2");
    expect(tagOf(first)).toBe(tagOf(await api("/users/2")));
    expect((await api("HEAD /users/2", { headers: { "if-none-match": tagOf(first) } })).status).toBe(304);
    expect((await api("HEAD /users/2", { headers: { "if-none-match": OTHER } })).status).toBe(200);
  });

  test("of a list is 200 after a creation, a change and a deletion", async () => {
    const tags = [tagOf(await api("/users?limit=100"))];
    const { path } = await newUser();
    tags.push(tagOf(await api("/users?limit=100")));
    await api(`PATCH ${path}`, { body: { age: 7 } });
    tags.push(tagOf(await api("/users?limit=100")));
    await api(`DELETE ${path}`);
    expect(new Set(tags).size).toBe(3);
    expect(tagOf(await api("/users?limit=100"))).toBe(tags[0]);
  });

  test("of an envelope is 200 after a change of the total", async () => {
    const before = tagOf(await api("/api/v2/users?limit=1"));
    await newUser();
    expect(tagOf(await api("/api/v2/users?limit=1"))).not.toBe(before);
  });

  test("does not hide a problem", async () => {
    expect((await api("/users/999", { headers: { "if-none-match": "*" } })).status).toBe(404);
    expect((await api("/users?sort=nope", { headers: { "if-none-match": "*" } })).status).toBe(400);
  });
});

describe("a read with If-Modified-Since", () => {
  const since = async (date: string, headers = {}) =>
    (await api("/users/3", { headers: { "if-modified-since": date, ...headers } })).status;
  const shifted = (text: string, seconds: number) => new Date(Date.parse(text) + seconds * 1000).toUTCString();

  test("is 304 unless the record is newer", async () => {
    const { headers, json } = await api("/users/3");
    const date = headers.get("last-modified")!;
    expect(Math.floor(Date.parse(json.updated_at) / 1000)).toBe(Date.parse(date) / 1000);
    expect(await since(date)).toBe(304);
    expect(await since(shifted(date, 1))).toBe(304);
    expect(await since(shifted(date, -1))).toBe(200);
  });

  test.each([
    "yesterday",
    "2026-11-20T08:30:00Z",
    "0",
    "",
    "Sun, 31 Feb 2099 00:00:00 GMT",
    "Sun, 06 Nov 2099 08:49:37 +0000",
  ])("is 200 for a malformed date: %s", async (date) => expect(await since(date)).toBe(200));

  test("is ignored beside If-None-Match", async () => {
    const { headers } = await api("/users/3");
    const date = headers.get("last-modified")!;
    expect(await since(date, { "if-none-match": OTHER })).toBe(200);
    expect(await since(date, { "if-none-match": "nonsense" })).toBe(200);
    expect(await since(shifted(date, -100), { "if-none-match": headers.get("etag")! })).toBe(304);
  });

  test("uses the time of creation for an article that was never changed", async () => {
    const [{ created_at }] = await sql("select created_at from articles where id = 3");
    expect((await api("/articles/3")).headers.get("last-modified")).toBe(created_at.toUTCString());
    const changed = await api("PATCH /articles/3", { as: "ada", body: { content: "Longer." } });
    expect(changed.headers.get("last-modified")).toBe(new Date(changed.json.updated_at).toUTCString());
  });

  test("is 200 when fields of other records are returned", async () => {
    for (const path of ["/articles/1?fields=title,author.name", "/api/v2/articles/1?fields=author"]) {
      const { headers } = await api(path);
      expect([headers.get("last-modified"), headers.get("etag") !== null]).toEqual([null, true]);
      const sent = { headers: { "if-modified-since": shifted(new Date().toUTCString(), 100) } };
      expect((await api(path, sent)).status).toBe(200);
    }
    expect((await api("/articles/1?fields=title,_links")).headers.get("last-modified")).not.toBeNull();
  });

  test("is 200 for records without a date", async () => {
    const { headers } = await api("/comments/1");
    expect([headers.get("last-modified"), headers.get("etag") !== null]).toEqual([null, true]);
    const sent = { headers: { "if-modified-since": shifted(new Date().toUTCString(), 100) } };
    expect((await api("/comments/1", sent)).status).toBe(200);
    expect((await api("/users", sent)).status).toBe(200);
  });
});

test("only responses with several new records, and problems, have no tag", async () => {
  const many = [1, 2].map((n) => ({ name: "Many", email: `many${n}@example.com` }));
  expect(tagOf(await api("POST /users", { body: many }))).toBeNull();
  expect(tagOf(await api("/users/999"))).toBeNull();
});

test("two processes return a list with the same tag", async () => {
  const [one, two] = [await body("/comments"), await body("/comments")];
  expect(one).toEqual(two);
});

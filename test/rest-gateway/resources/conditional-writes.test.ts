import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const STALE = [412, "PRECONDITION_FAILED", "the record has changed: read it again before you change it"];

type Zed = { path: string; tag: string; json: any };
/** A user of its own for a test, and its tag. */
async function newUser(prefix = ""): Promise<Zed> {
  const sent = { name: "Zed", email: `zed${Math.random()}@example.com`, age: 1 };
  const { headers, json } = await api(`POST ${prefix}/users`, { body: sent });
  return { path: headers.get("location")!, tag: headers.get("etag")!, json };
}

const WRITES = [
  ["PUT", { name: "Changed", email: "changed@example.com" }],
  ["PATCH", { name: "Changed" }],
  ["DELETE", undefined],
] as const;

test("If-Unmodified-Since is ignored when fields of other records are returned; If-Match is not", async () => {
  const path = (await api("POST /articles", { as: "ada", body: { title: "A title", content: "…" } })).headers.get(
    "location",
  )!;
  const change = (fields: string, headers: Record<string, string>) =>
    api(`PATCH ${path}?fields=${fields}`, { as: "ada", body: { content: "More." }, headers });
  const longAgo = { "if-unmodified-since": "Sun, 06 Nov 1994 08:49:37 GMT" };
  expect((await change("title", longAgo)).status).toBe(412);
  expect((await change("title,author.name", longAgo)).status).toBe(200);
  expect((await change("title,author.name", { "if-match": '"v1-1"' })).status).toBe(412);
});

describe.each(WRITES)("%s with If-Match", (method, sent) => {
  const write = (path: string, ifMatch: string, more = {}) =>
    api(`${method} ${path}`, { body: sent, headers: { "if-match": ifMatch, ...more } });
  const done = method === "DELETE" ? 204 : 200;
  const unchanged = async ({ path, json }: Zed) => expect(await body(path)).toEqual(json);
  const cleanUp = () => sql("delete from users where email = 'changed@example.com'");

  test.each([
    ["the tag", (tag: string) => tag],
    ["a list with the tag", (tag: string) => `"v1-1", ${tag}`],
    ["anything", () => "*"],
  ])("of %s succeeds", async (_what, header) => {
    await cleanUp();
    const { path, tag } = await newUser();
    expect((await write(path, header(tag))).status).toBe(done);
  });

  test.each([
    ["another tag", () => '"v1-1"'],
    ["the tag, weak", (tag: string) => `W/${tag}`],
    ["a tag of something else", () => '"Kq5sNclPz7QV2-lf"'],
    ["an empty tag", () => '""'],
    ["the tag of a version that does not exist", () => '"v1-99999999999999999999999999"'],
  ])("of %s is 412 and changes nothing", async (_what, header) => {
    const zed = await newUser();
    const { status, json } = await write(zed.path, header(zed.tag));
    expect([status, json.error.code, json.error.message]).toEqual(STALE);
    await unchanged(zed);
  });

  test("of the tag from before the last change is 412", async () => {
    const { path, tag } = await newUser();
    await api(`PATCH ${path}`, { body: { age: 2 } });
    expect((await write(path, tag)).status).toBe(412);
    expect(await body(path)).toMatchObject({ name: "Zed", age: 2 });
  });

  test.each(["nonsense", "", '"v1-1', "v1-1", '"v1-1" "v1-2"'])(
    "of %j is 400: it would not protect",
    async (header) => {
      const zed = await newUser();
      const { status, json } = await write(zed.path, header);
      expect([status, json.error.code]).toEqual([400, "BAD_REQUEST"]);
      expect(json.error.message).toBe('If-Match must be * or a list of entity tags in quotes, such as "v1-734"');
      await unchanged(zed);
    },
  );

  test("accepts the tag of another version", async () => {
    await cleanUp();
    const { path, tag } = await newUser();
    expect((await write(`/api/v2${path}`, tag)).status).toBe(done);
    await cleanUp();
    const second = await newUser("/api/v2");
    expect(second.tag).toMatch(/^"v2-\d+"$/);
    expect((await write(second.path.replace("/api/v2", ""), second.tag)).status).toBe(done);
  });

  test("of an unknown record is 404", async () => {
    expect((await write("/users/999", "*")).status).toBe(404);
    expect((await write("/users/999", '"v1-1"')).status).toBe(404);
  });
});

describe.each(WRITES)("%s with If-None-Match", (method, sent) => {
  test("of * or of the tag is 412", async () => {
    const { path, tag } = await newUser();
    for (const header of ["*", tag, `W/${tag}`, `"v1-1", ${tag}`])
      expect(await failure(`${method} ${path}`, { body: sent, headers: { "if-none-match": header } })).toEqual(STALE);
  });

  test("of another tag succeeds", async () => {
    await sql("delete from users where email = 'changed@example.com'");
    const { path } = await newUser();
    const { status } = await api(`${method} ${path}`, { body: sent, headers: { "if-none-match": '"v1-1"' } });
    expect(status).toBe(method === "DELETE" ? 204 : 200);
  });

  test("that is malformed is 400", async () => {
    const { path } = await newUser();
    expect((await failure(`${method} ${path}`, { body: sent, headers: { "if-none-match": "x" } }))[0]).toBe(400);
  });
});

describe("a write with If-Unmodified-Since", () => {
  const patch = async (path: string, since: string, headers = {}) =>
    (await api(`PATCH ${path}`, { body: { age: 9 }, headers: { "if-unmodified-since": since, ...headers } })).status;

  test("succeeds unless the record is newer", async () => {
    const { path, json } = await newUser();
    const date = Date.parse(json.updated_at);
    expect(await patch(path, new Date(date - 1000).toUTCString())).toBe(412);
    expect(await patch(path, new Date(date).toUTCString())).toBe(200);
  });

  test("is ignored beside If-Match, and if it is not a date", async () => {
    const { path, tag } = await newUser();
    expect(await patch(path, "Sun, 06 Nov 1994 08:49:37 GMT", { "if-match": tag })).toBe(200);
    expect(await patch(path, "1994-11-06")).toBe(200);
  });

  test("is ignored for records without a date", async () => {
    const sent = {
      as: "bob",
      body: { content: "Still fine." },
      headers: { "if-unmodified-since": "Sun, 06 Nov 1994 08:49:37 GMT" },
    } as const;
    expect((await api("PATCH /comments/1", sent)).status).toBe(200);
  });
});

test("of parallel writes with the same tag exactly one succeeds", async () => {
  for (let round = 0; round < 5; round++) {
    const { path, tag } = await newUser();
    const ages = [11, 12, 13, 14];
    const answers = await Promise.all(
      ages.map((age) => api(`PATCH ${path}`, { body: { age }, headers: { "if-match": tag } })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
    const won = ages[answers.findIndex(({ status }) => status === 200)];
    expect(await body(path)).toMatchObject({ age: won });
  }
});

/** How many requests wait for what the owner's transaction has changed. */
const waitingNow = async () =>
  (
    await sql(
      // Replication slots that are created wait for transactions too.
      `select from pg_locks join pg_stat_activity using (pid)
       where not granted and transactionid = pg_current_xact_id()::xid and backend_type = 'client backend'`,
    )
  ).length;

test.each(WRITES)("%s that waits for a concurrent change of the record is rejected", async (method, sent) => {
  const { path, tag, json } = await newUser();
  await sql("begin");
  await sql("update users set age = 77 where id = $1", json.id);
  const waiting = failure(`${method} ${path}`, { body: sent, headers: { "if-match": tag } });
  await expect.poll(waitingNow).toBe(1);
  await sql("commit");
  expect(await waiting).toEqual(STALE);
});

test.each(WRITES)("%s that waits for the deletion of its record is 404", async (method, sent) => {
  const { path, json } = await newUser();
  await sql("begin");
  await sql("delete from users where id = $1", json.id);
  const waiting = api(`${method} ${path}`, { body: sent });
  await expect.poll(waitingNow).toBe(1);
  await sql("commit");
  expect((await waiting).status).toBe(404);
});

test("a caller who may not write gets 403 whatever the tag", async () => {
  const { headers } = await api("/articles/1");
  const sent = { body: { content: "Mine now." }, headers: { "if-match": headers.get("etag")! } };
  expect((await api("PATCH /articles/1", { ...sent, as: "bob" })).status).toBe(403);
  expect((await api("PATCH /articles/1", sent)).status).toBe(401);
  expect((await api("PATCH /articles/1", { ...sent, as: "ada" })).status).toBe(200);
});

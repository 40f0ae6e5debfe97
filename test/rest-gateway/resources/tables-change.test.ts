import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { useResources } from "../../support/resource-client.ts";
import { startTestService } from "../../support/service.ts";

const logged: any[] = [];
const log = pino({ level: "warn" }, { write: (line) => void logged.push(JSON.parse(line)) });
const { api, body, failure, sql } = useResources({}, "", log);

const SOON = { timeout: 120_000, interval: 20 };
const OUT_OF_ORDER = [503, "INTERNAL_ERROR", "comments are not available at the moment: try again later"];
const status = async (path: string) => (await api(path)).status;
const untilStatus = (path: string, code: number) => vi.waitFor(async () => expect(await status(path)).toBe(code), SOON);
const reasons = () => logged.flatMap(({ reason }) => reason ?? []);
beforeEach(() => void logged.splice(0));

describe("a resource whose table has lost a required column", () => {
  beforeAll(async () => {
    await sql("alter table comments rename column content to text");
    await untilStatus("/comments", 503);
    expect(await failure("/comments")).toEqual(OUT_OF_ORDER);
    const missing = "the description of comments has the column content, which public.comments does not have";
    await vi.waitFor(() => expect(reasons()).toEqual([missing]), SOON);
  });
  afterAll(async () => {
    await sql("alter table comments rename column text to content");
    await untilStatus("/comments/1", 200);
    expect(await body("/comments/3")).toMatchObject({ content: "And if a packet is lost?" });
  });

  test("is 503 with Retry-After", async () => {
    for (const request of ["/comments", "/comments/1", "POST /comments", "DELETE /comments/1", "/articles/1/comments"])
      expect(await failure(request, { as: "bob" })).toEqual(OUT_OF_ORDER);
    const { headers } = await api("/comments/1");
    expect([headers.get("retry-after"), headers.get("x-api-version")]).toEqual(["5", "1"]);
  });

  test("does not affect the others", async () => {
    expect(await body("/users/1")).toMatchObject({ name: "Ada Lovelace" });
    expect(await body("/articles/1?fields=author.name")).toEqual({ author: { name: "Ada Lovelace" } });
    expect((await body("/api/v2/articles/1"))._links.comments).toEqual({ href: "/api/v2/articles/1/comments" });
  });

  test("is logged once, not with each request", async () => {
    await status("/comments");
    await status("/comments");
    expect(reasons()).toEqual([]);
  });
});

describe("a resource that others refer to", () => {
  beforeAll(async () => {
    await sql("alter table users rename column age to years");
    await untilStatus("/users", 503);
  });
  afterAll(async () => {
    await sql("alter table users rename column years to age");
    await untilStatus("/users", 200);
  });

  test("affects only requests for it", async () => {
    expect((await body("/api/v2/articles/1"))._links.author).toEqual({ href: "/api/v2/users/1" });
    expect((await body("/articles")).data).toHaveLength(4);
    await expect.poll(() => status("/articles/1?fields=title,author.name"), SOON).toBe(503);
    expect(await status("/users/1/articles")).toBe(503);
  });
});

test("a dropped table makes its path 503 until it is created again, and the log names it", async () => {
  await sql("alter table comments rename to remarks");
  await expect.poll(() => failure("/comments/1"), SOON).toEqual(OUT_OF_ORDER);
  expect(await status("/articles/1/comments")).toBe(503);
  const missing = "the description of comments has the table public.comments, which does not exist";
  await expect.poll(reasons, SOON).toContain(missing);
  expect(await status("/api/v2/articles/1")).toBe(200);
  await sql("alter table remarks rename to comments");
  await expect.poll(() => status("/comments/1"), SOON).toBe(200);
});

test("a new label of an enum, and a column of another type, are known at once", async () => {
  await sql("alter type article_status add value 'HIDDEN'");
  await sql("alter table comments alter column created_at type timestamptz(0)");
  const hide = () => api("PATCH /articles/3?fields=status", { as: "ada", body: { status: "HIDDEN" } });
  await expect.poll(async () => (await hide()).json, SOON).toEqual({ status: "HIDDEN" });
  expect((await body("/articles?status=HIDDEN&fields=id")).data).toEqual([{ id: 3 }]);
  const sent = { as: "bob", body: { article_id: 1, content: "As before." } } as const;
  expect(await body("POST /comments", sent)).toMatchObject({ content: "As before." });
});

describe("a change without event triggers", () => {
  const both = "announce_schema_change disable; alter event trigger announce_schema_drop disable";
  beforeAll(() => sql(`alter event trigger ${both}`));
  afterAll(() => sql(`alter event trigger ${both.replaceAll("disable", "enable")}`));

  test("is noticed by the next request", async () => {
    expect(await status("/comments")).toBe(200);
    await sql("alter table comments rename column content to text");
    expect(await failure("/comments")).toEqual(OUT_OF_ORDER);
    expect(await failure("POST /comments", { as: "bob", body: { article_id: 1, content: "x" } })).toEqual(OUT_OF_ORDER);
    await sql("alter table comments rename column text to content; notify pgrst, 'reload schema'");
    await expect.poll(() => status("/comments"), SOON).toBe(200);
  });

  test("such as a dropped function affects only requests that need it", async () => {
    await sql("alter function internal.comment_matches rename to comment_fits");
    expect(await failure("/comments?keyword=a")).toEqual(OUT_OF_ORDER);
    expect(await status("/comments")).toBe(200);
    await sql("alter function internal.comment_fits rename to comment_matches");
    expect(await status("/comments?keyword=a")).toBe(200);
  });
});

test("requests during a change of their table succeed or are 503 with Retry-After", async () => {
  const seen = new Set<number>();
  let isOver = false;
  const ask = async () => {
    while (!isOver) {
      seen.add((await api("PATCH /comments/1", { as: "bob", body: { content: `${Math.random()}` } })).status);
      seen.add(await status("/articles/1/comments"));
    }
  };
  const asking = [ask(), ask(), ask()];
  try {
    for (let round = 0; round < 10; round++) {
      await sql("alter table comments rename column content to text");
      await sql("alter table comments rename column text to content");
    }
  } finally {
    isOver = true;
    await Promise.all(asking);
  }
  expect([...seen].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(logged.filter(({ msg }) => msg === "unhandled error")).toEqual([]);
});

describe("at start", () => {
  const RENAMED = "alter table comments rename column content to text";

  test("a resource with an invalid description is 503, and the others are served", async () => {
    const database = await createTestDatabase();
    await database.owner.query(RENAMED);
    const started = await startTestService({ GRAPHQL_DOCUMENTS: "none" }, database);
    const answers = await Promise.all(["/comments/1", "/users/1"].map((path) => fetch(`${started.url}${path}`)));
    expect(answers.map(({ status }) => status)).toEqual([503, 200]);
    await started.stop();
  });
});

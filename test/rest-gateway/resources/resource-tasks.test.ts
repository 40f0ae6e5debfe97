import { beforeAll, describe, expect, test } from "vitest";
import { type ApiSent, useResources } from "../../support/resource-client.ts";
import { POLL } from "../../support/until.ts";
import { newEmail, type User } from "./users.ts";

/** Reading the user `gate` waits until the lock 77 is free. */
const GATE = `
  create function internal.gate(name text) returns boolean language plpgsql volatile as $$
    begin
      if name = 'gate' then perform pg_advisory_xact_lock_shared(77); end if;
      return true;
    end $$;
  grant execute on function internal.gate to anon, authenticated;
  create policy "one is read last" on users as restrictive for select using (internal.gate(name));`;

const client = useResources({ apiMaxRecords: 2000, TASK_CONCURRENCY: "2", taskMaxResultBytes: 1_000_000 }, GATE);
const { api, body, sql } = client;

const PREFER = "respond-async";

/** The address of the task that a request becomes. */
async function accepted(request: string, sent: ApiSent = {}): Promise<string> {
  const { status, headers, text } = await api(request, { prefer: PREFER, ...sent });
  expect([status, text]).toEqual([202, expect.any(String)]);
  return headers.get("location")!;
}

async function ended(address: string, sent: ApiSent = {}): Promise<any> {
  let task: any;
  await expect
    .poll(async () => {
      task = await body(address, sent);
      return task.status;
    }, POLL)
    .toMatch(/succeeded|failed|cancelled/);
  return task;
}

const outcome = async (request: string, sent: ApiSent = {}) =>
  ended(await accepted(request, sent), sent.as ? { as: sent.as } : {});

const several = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `User ${i}`, email: newEmail() }));
const countUsers = async () => (await sql("select count(*)::integer from users"))[0].count;

describe("an asynchronous POST of an array", () => {
  test("creates all records in order", async () => {
    const records = several(1200);
    const task = await outcome("POST /users", { body: records });
    expect(task.status).toBe("succeeded");
    expect(task.result.map(({ email }: User) => email)).toEqual(records.map(({ email }) => email));
  });

  test.each([
    [[1100], 1100],
    [[3, 700], 700],
  ])("with a taken e-mail names the record: of the indexes %j %i", async (places, place) => {
    const before = await countUsers();
    const taken = places.length > 1 ? { name: "Twin", email: newEmail() } : { name: "Ada", email: "Ada@example.com" };
    const records = several(1200).map((record, i) => ((places as number[]).includes(i) ? taken : record));
    const { status, error } = await outcome("POST /users", { body: records });
    const message = `[${place}]: email already registered`;
    expect([status, error.status, error.error]).toEqual([
      "failed",
      409,
      expect.objectContaining({
        code: "RESOURCE_CONFLICT",
        message,
        details: [{ field: `[${place}].email`, code: "RESOURCE_CONFLICT", message }],
      }),
    ]);
    expect(await countUsers()).toBe(before);
  });

  test("with broken rules lists all of them with their indexes", async () => {
    const records = several(600).with(1, { name: " ", email: newEmail() }).with(599, { name: "Bob", email: "b" });
    const { error } = await outcome("POST /users", { body: records });
    expect([error.status, error.error.code, error.error.fields]).toEqual([
      400,
      "VALIDATION_ERROR",
      {
        "[1].name": "[1]: name must have 1 to 200 characters",
        "[599].email": "[599]: email must be a valid address",
      },
    ]);
  });

  test("in a dialect has its error in the dialect", async () => {
    const records = [...several(1), { name: "Ada", email: "ada@example.com" }];
    const { error } = await outcome("POST /users", { body: records, prefer: `${PREFER}, dialect=flat` });
    const message = "[1]: email already registered";
    expect(error).toEqual({ status: 409, error: "RESOURCE_CONFLICT", message, field: "[1].email" });
  });

  test("in the collection of an unknown record names no record", async () => {
    const sent = { as: "ada", body: [{ content: "one" }, { content: "two" }] } as const;
    const { error } = await outcome("POST /articles/999/comments", sent);
    expect([error.status, Object.keys(error.error.fields)]).toEqual([409, ["article_id"]]);
  });
});

describe("an asynchronous GET of a collection", () => {
  /** More than are read at once; the oldest two are by `gate`. */
  const ARTICLES = 2600;
  beforeAll(async () => {
    await sql("insert into users (name, email) values ('gate', 'gate@example.com')");
    await sql(
      `insert into articles (author_id, title, content, tags, created_at)
       select case when i <= 2 then u.id else 2 end, 'Title ' || i % 7, '…', '{"many"}', '2020-01-01'::date + i
       from generate_series(1, $1) as i, users as u where u.name = 'gate'`,
      ARTICLES,
    );
  });

  test("returns all matching records in order", async () => {
    const { status, result } = await outcome("GET /articles?tag=many&sort=title:desc&fields=id,title");
    const expected = await sql(
      "select id::integer, title from articles where tags = '{many}' order by title desc, id desc",
    );
    expect(status).toBe("succeeded");
    expect(result).toEqual(expected);
  });

  test.each([0, 1, 1999, 2000, 2001])("returns an array for %i records", async (count) => {
    const last = await sql(
      "select created_at from articles where tags = '{many}' order by created_at limit 1 offset $1",
      count,
    );
    const before = encodeURIComponent(last[0].created_at.toISOString());
    const path = `/articles?tag=many&sort=created_at&created_before=${before}&fields=created_at`;
    const { result } = await outcome(`GET ${path}`);
    expect(result).toHaveLength(count);
    expect((await body(`${path}&limit=100`)).data).toEqual(result.slice(0, 100));
  });

  test.each([
    ["/api/v2/articles/1?fields=_links,title,author.name", "/api/v2/articles?sort=id&fields=_links,title,author.name"],
    ["/articles/1?fields=_links", "/articles?sort=id&fields=_links"],
    ["/articles/1?fields=author.name", "/articles?sort=id&fields=author.name"],
    ["/users/1", "/users"],
    ["/comments/1?fields=content,article.author.name", "/comments?sort=id&fields=content,article.author.name"],
    ["/articles/1/comments/1", "/articles/1/comments?sort=id"],
  ])("formats each record like %s", async (one, all) => {
    expect((await outcome(`GET ${all}`)).result[0]).toEqual(await body(one));
  });

  test("finds by keyword", async () => {
    const { result } = await outcome("GET /users?keyword=LOVE&fields=name");
    expect(result).toEqual([{ name: "Ada Lovelace" }]);
  });

  test("can be cancelled and leaves nothing", async () => {
    await sql("select pg_advisory_lock(77)");
    const address = await accepted("GET /articles?tag=many&fields=id,author.name");
    const waiting = "select from pg_locks where locktype = 'advisory' and objid = 77 and not granted";
    await expect.poll(async () => (await sql(waiting)).length, POLL).toBe(1);
    expect((await body(`POST ${address}/cancel`)).status).toBe("cancelled");
    await expect.poll(async () => (await sql(waiting)).length, POLL).toBe(0);
    await sql("select pg_advisory_unlock(77)");
    expect(await sql("select from tasks.results where task_id = $1", address.split("/").at(-1))).toEqual([]);
  });

  test("over the size limit fails with the reason", async () => {
    const { status, error } = await outcome("GET /api/v2/articles?tag=many");
    const message = "the result of the task is larger than 1000000 bytes: request less data at a time";
    expect([status, error.status, error.error.message]).toEqual(["failed", 400, message]);
  });

  test("reads only the columns that it needs", async () => {
    await sql("revoke select on articles from anon");
    await sql("grant select (id, title, tags) on articles to anon");
    const { status, result } = await outcome("GET /articles?tag=many&sort=id&fields=title");
    await sql("grant select on articles to anon");
    expect([status, result.length]).toEqual(["succeeded", ARTICLES]);
  });
});

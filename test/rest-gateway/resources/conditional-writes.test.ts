import { describe, expect, test } from "vitest";
import { useOwnResources } from "../../support/own-resources.ts";
import { type ApiSent, useResources } from "../../support/resource-client.ts";
import { DDL, MAKERS, PRODUCTS } from "./fixtures.ts";

const { api, body, sql } = useResources();
const STALE = [412, "PRECONDITION_FAILED", "the record has changed: read it again before you change it"];
const LONG_AGO = "Sun, 06 Nov 1994 08:49:37 GMT";

type Draft = { readonly path: string; readonly tag: string; readonly json: any };

/** An article by ada; DRAFT. */
async function newDraft(prefix = ""): Promise<Draft> {
  const sent = { as: "ada", body: { title: "To be changed", content: "…" } } as const;
  const { headers, json } = await api(`POST ${prefix}/articles`, sent);
  return { path: headers.get("location")!, tag: headers.get("etag")!, json };
}

type Write = (path: string, headers: Readonly<Record<string, string>>, as?: ApiSent["as"] | null) => Promise<any[]>;

/** A change of a record by ada, and its status and error. */
const writer =
  (method: string, sent?: object, suffix = ""): Write =>
  async (path, headers, as = "ada") => {
    const { status, json } = await api(`${method} ${path}${suffix}`, { ...(as && { as }), body: sent, headers });
    return status < 300 ? [status] : [status, json.error.code, json.error.message];
  };
const patch = writer("PATCH", { content: "Changed." });
const WRITES: readonly (readonly [what: string, write: Write, done: number])[] = [
  ["PUT", writer("PUT", { title: "Changed", content: "Changed." }), 200],
  ["PATCH", patch, 200],
  ["DELETE", writer("DELETE"), 204],
  ["POST /publish", writer("POST", undefined, "/publish"), 200],
];

describe.each(WRITES)("%s", (_what, write, done) => {
  test.each([
    ["the tag", (tag: string) => tag],
    ["a list with the tag", (tag: string) => `"v1-1", ${tag}`],
    ["anything", () => "*"],
  ])("with If-Match of %s succeeds", async (_what, header) => {
    const { path, tag } = await newDraft();
    expect(await write(path, { "if-match": header(tag) })).toEqual([done]);
  });

  test.each([
    ["another tag", () => '"v1-1"'],
    ["the tag, weak", (tag: string) => `W/${tag}`],
    ["a tag of something else", () => '"Kq5sNclPz7QV2-lf"'],
    ["an empty tag", () => '""'],
    ["the tag of a version that does not exist", () => '"v1-99999999999999999999999999"'],
  ])("with If-Match of %s is 412 and changes nothing", async (_what, header) => {
    const { path, tag, json } = await newDraft();
    expect(await write(path, { "if-match": header(tag) })).toEqual(STALE);
    expect(await body(path)).toEqual(json);
    expect((await api(path)).headers.get("etag")).toBe(tag);
  });

  test("with If-Match of the tag from before the last change is 412", async () => {
    const { path, tag } = await newDraft();
    const changed = await body(`PATCH ${path}`, { as: "ada", body: { title: "Another title" } });
    expect(await write(path, { "if-match": tag })).toEqual(STALE);
    expect(await body(path)).toEqual(changed);
  });

  test.each(["nonsense", "", '"v1-1', "v1-1", '"v1-1" "v1-2"'])(
    "with If-Match or If-None-Match of %j is 400: it would not protect",
    async (header) => {
      const { path, json } = await newDraft();
      const message = 'must be * or a list of entity tags in quotes, such as "v1-734"';
      expect(await write(path, { "if-match": header })).toEqual([400, "BAD_REQUEST", `If-Match ${message}`]);
      expect(await write(path, { "if-none-match": header })).toEqual([400, "BAD_REQUEST", `If-None-Match ${message}`]);
      expect(await body(path)).toEqual(json);
    },
  );

  test("accepts the tag of another version", async () => {
    const { path, tag } = await newDraft();
    expect(await write(`/api/v2${path}`, { "if-match": tag })).toEqual([done]);
    const second = await newDraft("/api/v2");
    expect(second.tag).toMatch(/^"v2-\d+"$/);
    expect(await write(second.path.replace("/api/v2", ""), { "if-match": second.tag })).toEqual([done]);
  });

  test("of an unknown record is 404, and 401 or 403 for callers who may not write, whatever the tag", async () => {
    for (const header of ["*", '"v1-1"']) expect((await write("/articles/999", { "if-match": header }))[0]).toBe(404);
    const { path, tag, json } = await newDraft();
    expect((await write(path, { "if-match": tag }, "bob"))[0]).toBe(403);
    expect((await write(path, { "if-match": tag }, null))[0]).toBe(401);
    expect(await body(path)).toEqual(json);
  });

  test("with If-None-Match of * or of the tag is 412, of another tag succeeds", async () => {
    const { path, tag, json } = await newDraft();
    for (const header of ["*", tag, `W/${tag}`, `"v1-1", ${tag}`])
      expect(await write(path, { "if-none-match": header })).toEqual(STALE);
    expect(await body(path)).toEqual(json);
    expect(await write(path, { "if-none-match": '"v1-1"' })).toEqual([done]);
  });

  test("with If-Unmodified-Since succeeds unless the record is newer", async () => {
    const { path, json } = await newDraft();
    const date = Date.parse(json.created_at);
    expect(await write(path, { "if-unmodified-since": new Date(date - 1000).toUTCString() })).toEqual(STALE);
    expect(await body(path)).toEqual(json);
    expect(await write(path, { "if-unmodified-since": new Date(date).toUTCString() })).toEqual([done]);
  });

  test.each([
    ["update articles set title = 'Changed concurrently' where id = $1", "commit", STALE],
    ["update articles set title = 'Changed concurrently' where id = $1", "rollback", [done]],
    ["delete from articles where id = $1", "commit", [404, "RESOURCE_NOT_FOUND"]],
  ])("that waits for the concurrent %s and a %s has the expected response", async (change, end, expected) => {
    const { path, tag, json } = await newDraft();
    await sql("begin");
    await sql(change, json.id);
    const waiting = write(path, { "if-match": tag });
    await expect.poll(waitingNow).toBe(1);
    await sql(end);
    expect((await waiting).slice(0, expected.length)).toEqual(expected);
    const left = await sql("select title, status from articles where id = $1", json.id);
    if (expected === STALE) expect(left).toEqual([{ title: "Changed concurrently", status: "DRAFT" }]);
  });

  test("of parallel requests with the same tag exactly one succeeds", async () => {
    for (let round = 0; round < 3; round++) {
      const { path, tag } = await newDraft();
      const answers = await Promise.all([1, 2, 3, 4].map(() => write(path, { "if-match": tag })));
      const lost = done === 204 ? 404 : 412;
      expect(answers.map(([status]) => status).sort()).toEqual([done, lost, lost, lost]);
    }
  });
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

test("If-Unmodified-Since is ignored beside If-Match, for what is not a date, and for records without a date", async () => {
  const { path, tag } = await newDraft();
  expect(await patch(path, { "if-unmodified-since": LONG_AGO, "if-match": tag })).toEqual([200]);
  expect(await patch(path, { "if-unmodified-since": "1994-11-06" })).toEqual([200]);
  const sent = { as: "bob", body: { content: "Still fine." }, headers: { "if-unmodified-since": LONG_AGO } } as const;
  expect((await api("PATCH /comments/1", sent)).status).toBe(200);
});

test("If-Unmodified-Since is ignored when fields of other records are returned; If-Match is not", async () => {
  const { path } = await newDraft();
  expect((await patch(`${path}?fields=title`, { "if-unmodified-since": LONG_AGO }))[0]).toBe(412);
  expect((await patch(`${path}?fields=title,author.name`, { "if-unmodified-since": LONG_AGO }))[0]).toBe(200);
  expect((await patch(`${path}?fields=title,author.name`, { "if-match": '"v1-1"' }))[0]).toBe(412);
});

const PRAISE = `${DDL}
  create table praises (product_id uuid not null references products, by bigint not null default auth.uid());
  grant insert (product_id) on praises to authenticated;
  create function praise_product(product_id uuid) returns products language plpgsql volatile as $$
    declare product products;
    begin
      insert into praises (product_id) values (praise_product.product_id);
      select * into product from products as g where g.product_id = praise_product.product_id;
      return product;
    end $$;
  grant execute on function praise_product to authenticated;`;

const own = useOwnResources(PRAISE, [
  {
    ...PRODUCTS,
    actions: { ...PRODUCTS.actions, praise: { function: "public.praise_product", about: "Praises it." } },
  },
  MAKERS,
]);

test("an action that changes other rows respects If-Match, also for callers who may not change the record", async () => {
  const { headers, json } = await own.api("POST /products", { as: 1, body: { name: "cog" } });
  const praise = (tag: string) => own.api(`POST /products/${json.id}/praise`, { as: 2, headers: { "if-match": tag } });
  expect((await praise('"v1-1"')).status).toBe(412);
  expect(await own.sql("select from praises")).toEqual([]);
  const done = await praise(headers.get("etag")!);
  expect([done.status, done.json]).toEqual([200, json]);
  expect(await own.sql("select by::integer from praises")).toEqual([{ by: 2 }]);
});

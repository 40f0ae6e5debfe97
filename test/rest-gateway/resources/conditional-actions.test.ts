import { describe, expect, test } from "vitest";
import { useOwnResources } from "../../support/own-resources.ts";
import { useResources } from "../../support/resource-client.ts";
import { DDL, MAKERS, PRODUCTS } from "./fixtures.ts";

const { api, body, failure, sql } = useResources();
const STALE = [412, "PRECONDITION_FAILED", "the record has changed: read it again before you change it"];

type Draft = { readonly path: string; readonly tag: string; readonly json: any };

/** An article by ada; DRAFT. */
async function newDraft(prefix = ""): Promise<Draft> {
  const sent = { as: "ada", body: { title: "To be published", content: "…" } } as const;
  const { headers, json } = await api(`POST ${prefix}/articles`, sent);
  return { path: headers.get("location")!, tag: headers.get("etag")!, json };
}

const publish = (path: string, headers: Record<string, string>, as?: "ada" | "bob") =>
  failure(`POST ${path}/publish`, { as, headers });
const statusOf = async (path: string) => (await body(path)).status;

describe("POST /articles/{id}/publish with If-Match", () => {
  test.each([
    ["the tag", (tag: string) => tag],
    ["a list with the tag", (tag: string) => `"v1-1", ${tag}`],
    ["anything", () => "*"],
  ])("of %s publishes the article and returns it", async (_what, header) => {
    const { path, tag } = await newDraft();
    const { status, json } = await api(`POST ${path}/publish`, { as: "ada", headers: { "if-match": header(tag) } });
    expect([status, json.status]).toEqual([200, "PUBLISHED"]);
    expect(await body(path)).toEqual(json);
  });

  test.each([
    ["another tag", () => '"v1-1"'],
    ["the tag, weak", (tag: string) => `W/${tag}`],
    ["a tag of something else", () => '"Kq5sNclPz7QV2-lf"'],
  ])("of %s is 412 and changes nothing", async (_what, header) => {
    const { path, tag, json } = await newDraft();
    expect(await publish(path, { "if-match": header(tag) }, "ada")).toEqual(STALE);
    expect(await body(path)).toEqual(json);
    expect((await api(path)).headers.get("etag")).toBe(tag);
  });

  test("of the tag from before the last change is 412", async () => {
    const { path, tag } = await newDraft();
    await body(`PATCH ${path}`, { as: "ada", body: { title: "Another title" } });
    expect(await publish(path, { "if-match": tag }, "ada")).toEqual(STALE);
    expect(await body(path)).toMatchObject({ title: "Another title", status: "DRAFT" });
  });

  test("that is malformed is 400", async () => {
    const { path } = await newDraft();
    const message = 'If-Match must be * or a list of entity tags in quotes, such as "v1-734"';
    expect(await publish(path, { "if-match": "nonsense" }, "ada")).toEqual([400, "BAD_REQUEST", message]);
    expect(await statusOf(path)).toBe("DRAFT");
  });

  test("accepts the tag of another version", async () => {
    const { path, tag } = await newDraft("/api/v2");
    expect(tag).toMatch(/^"v2-\d+"$/);
    expect((await publish(path.replace("/api/v2", ""), { "if-match": tag }, "ada"))[0]).toBe(200);
  });

  test.each(["*", '"v1-1"'])("%s of an unknown article is 404, like other changes", async (header) => {
    expect((await publish("/articles/999", { "if-match": header }, "ada"))[0]).toBe(404);
    expect((await failure("PATCH /articles/999", { as: "ada", body: {}, headers: { "if-match": header } }))[0]).toBe(
      404,
    );
  });

  test("is 403 for callers who may not publish, whatever the tag", async () => {
    const { path, tag } = await newDraft();
    expect((await publish(path, { "if-match": tag }, "bob")).slice(0, 2)).toEqual([403, "PERMISSION_DENIED"]);
    expect((await publish(path, { "if-match": tag })).slice(0, 2)).toEqual([401, "AUTH_REQUIRED"]);
    expect(await statusOf(path)).toBe("DRAFT");
  });

  test("and the same tag in parallel requests publishes exactly once", async () => {
    for (let round = 0; round < 5; round++) {
      const { path, tag } = await newDraft();
      const answers = await Promise.all([1, 2, 3, 4].map(() => publish(path, { "if-match": tag }, "ada")));
      expect(answers.map(([status]) => status).sort()).toEqual([200, 412, 412, 412]);
    }
  });
});

describe("POST /articles/{id}/publish", () => {
  test("with If-None-Match is 412 for * and for the tag, and publishes for another tag", async () => {
    const { path, tag } = await newDraft();
    for (const header of ["*", tag, `W/${tag}`])
      expect(await publish(path, { "if-none-match": header }, "ada")).toEqual(STALE);
    expect(await statusOf(path)).toBe("DRAFT");
    expect((await publish(path, { "if-none-match": '"v1-1"' }, "ada"))[0]).toBe(200);
  });

  test("with If-Unmodified-Since publishes unless the article is newer", async () => {
    const { path, json } = await newDraft();
    const date = Date.parse(json.created_at);
    expect(await publish(path, { "if-unmodified-since": new Date(date - 1000).toUTCString() }, "ada")).toEqual(STALE);
    expect(await statusOf(path)).toBe("DRAFT");
    expect((await publish(path, { "if-unmodified-since": new Date(date).toUTCString() }, "ada"))[0]).toBe(200);
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

describe("an action that waits for a concurrent change of its record", () => {
  test.each([
    ["update articles set title = 'Changed concurrently' where id = $1", "commit", STALE],
    ["update articles set title = 'Changed concurrently' where id = $1", "rollback", [200]],
    ["delete from articles where id = $1", "commit", [404, "RESOURCE_NOT_FOUND"]],
  ])("by %s and a %s has the expected response", async (change, end, expected) => {
    const { path, tag, json } = await newDraft();
    await sql("begin");
    await sql(change, json.id);
    const waiting = publish(path, { "if-match": tag }, "ada");
    await expect.poll(waitingNow).toBe(1);
    await sql(end);
    expect((await waiting).slice(0, expected.length)).toEqual(expected);
    const left = await sql("select title, status from articles where id = $1", json.id);
    if (expected[0] === 412) expect(left).toEqual([{ title: "Changed concurrently", status: "DRAFT" }]);
  });
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

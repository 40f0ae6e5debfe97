import { beforeAll, describe, expect, test } from "vitest";
import { cacheMemory } from "../../../cache/cache.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const { rest, rows, service, sql } = useRest(
  {
    DB_POOL: "1",
    DB_PLAN: "on",
    DB_TX_END: "commit-allow-override",
    DB_PRE_REQUEST: "before_each",
    GRAPHQL_DOCUMENTS: "none",
  },
  `
  create function before_each() returns void language plpgsql as
    $$ begin perform set_config('response.headers', '[{"X-Before": "yes"}]', true); end $$;
  create function prepared() returns table (statement text, generic int, custom int) stable language sql as
    $$ select statement, generic_plans, custom_plans from pg_prepared_statements order by prepare_time $$;
  create function add(a int, b int) returns int immutable language sql return a + b;
  create function last_articles(n int) returns setof articles stable language sql as
    $$ select * from articles order by id desc limit n $$;
  create function exactly() returns int volatile language sql set default_transaction_isolation = 'serializable' return 1;

  -- Is immutable, so it runs when a query is planned. The statistics count its calls.
  create function planned() returns bool language plpgsql immutable as $$ begin return true; end $$;
  do $$ begin execute format('alter database %I set track_functions = pl', current_database()); end $$;
  create function flush_statistics() returns void volatile language sql as 'select pg_stat_force_next_flush()';
  create table counted (id int primary key, value int);
  insert into counted values (1, 1), (2, 2);
  alter table counted enable row level security;
  create policy "counts plannings" on counted using (planned());
  grant select, insert, update on counted to anon, authenticated;

  do $$ begin
    execute (select format('create table wide (%s)', string_agg(format('c%s date', to_char(n, 'fm000')), ', ')) from generate_series(1, 120) as n);
  end $$;
  grant insert on wide to anon;
  create table late (id int primary key, other int references late deferrable initially deferred);
  grant select, insert on late to anon;
  grant execute on function before_each(), prepared(), add(int, int), last_articles(int), exactly(), flush_statistics(), planned()
    to anon, authenticated, service_role`,
);

const waits = () => service().service.databaseWaits();

// The account of a token is read once and then cached.
beforeAll(async () => {
  for (const as of ["ada", "bob", "admin"] as const) await rows("articles?id=eq.1", { as });
});

describe("a request makes one round trip to the database", () => {
  const comment = { article_id: 1, content: "A comment." };
  test.each<[what: string, path: string, sent?: RestSent]>([
    ["a read", "articles?select=id,title&id=eq.1"],
    ["relations in relations", "users?select=id,articles(title,comments(content,author:users(name)))&limit=2"],
    ["an inner join, and an order by a relation", "articles?select=id,users!inner(name)&order=users(name)"],
    ["aggregates", "articles?select=status,count()"],
    ["a HEAD request", "articles", { method: "HEAD", prefer: "count=exact" }],
    ["a response in CSV", "articles?select=id", { headers: { accept: "text/csv" } }],
    ["a single object", "articles?id=eq.1", { headers: { accept: "application/vnd.pgrst.object+json" } }],
    ["a plan", "articles?id=eq.1", { headers: { accept: "application/vnd.pgrst.plan" } }],
    ["an exact count", "articles?limit=1", { prefer: "count=exact" }],
    ["a planned count", "articles?limit=1", { prefer: "count=planned" }],
    ["an estimated count", "articles?limit=1", { prefer: "count=estimated" }],
    ["a timezone", "articles?limit=1", { prefer: "timezone=Asia/Tokyo" }],
    ["an insert", "comments", { as: "ada", body: comment }],
    ["an insert of several rows", "comments", { as: "ada", body: [comment, comment], prefer: "return=representation" }],
    ["an insert that returns the Location", "comments", { as: "ada", body: comment, prefer: "return=headers-only" }],
    ["an upsert", "counted", { body: { id: 1, value: 1 }, prefer: "resolution=merge-duplicates" }],
    ["an upsert that changes nothing", "counted", { body: [{ id: 1 }], prefer: "resolution=ignore-duplicates" }],
    ["a PUT request", "counted?id=eq.2", { method: "PUT", body: { id: 2, value: 2 }, prefer: "return=representation" }],
    ["a read with the service key", "articles?id=eq.1", { as: "service" }],
    ["an update", "comments?id=eq.1", { as: "ada", method: "PATCH", body: { content: "Changed." } }],
    ["a deletion", "comments?id=gt.3", { as: "ada", method: "DELETE", prefer: "return=representation" }],
    ["a rollback", "comments", { as: "ada", body: comment, prefer: "tx=rollback,return=representation" }],
    ["a limit on rows", "comments?id=eq.1", { as: "ada", method: "DELETE", prefer: "handling=strict,max-affected=1" }],
    ["a call with GET", "rpc/add?a=1&b=2"],
    ["a call with POST", "rpc/add", { body: { a: 1, b: 2 } }],
    ["a call that returns rows and their count", "rpc/last_articles?n=2&select=id&limit=1", { prefer: "count=exact" }],
    ["a call with an isolation level of the function", "rpc/exactly", { method: "POST" }],
  ])("for %s", async (_what, path, sent) => {
    // The second request uses the prepared statements.
    for (const _ of ["first", "second"]) {
      const before = waits();
      const { status, text, headers } = await rest(path, sent);
      expect(status, text).toBeLessThan(300);
      expect(headers.get("x-before")).toBe(headers.get("content-type")?.includes("plan") ? null : "yes");
      expect(waits() - before).toBe(1);
    }
  });

  test.each(["articles?id=eq.x&title=eq.y", "articles?id=in.(1,x)", "articles?created_at=gt.2026-02-30"])(
    "even if the database rejects it because of a value in a filter: %s",
    async (path) => {
      const before = waits();
      const { status, json } = await rest(path);
      expect([status, json.details, waits() - before]).toEqual([400, null, 1]);
    },
  );

  test.each([
    ["c100", "in c100"],
    ["c101", null],
  ])("and a second one to find which of 100 values in a body the database rejects: %s", async (column, details) => {
    const dates = Object.fromEntries(
      Array.from({ length: 120 }, (_, i) => [`c${String(i + 1).padStart(3, "0")}`, "2026-01-01"]),
    );
    const before = waits();
    const { status, json } = await rest("wide", { body: { ...dates, [column]: "soon" } });
    expect([status, json.details, waits() - before]).toEqual([400, details, 2]);
  });

  test.each<[what: string, path: string, status: number, sent?: RestSent]>([
    ["a missing privilege", "articles?id=eq.1", 401, { method: "DELETE" }],
    [
      "more than one row where one is required",
      "articles",
      406,
      { headers: { accept: "application/vnd.pgrst.object+json" } },
    ],
  ])("even if the database rejects it because of %s", async (_what, path, status, sent) => {
    const before = waits();
    expect((await rest(path, sent)).status).toBe(status);
    expect(waits() - before).toBe(1);
  });

  test("and a second one if a row violates a rule, to name every fault of the body", async () => {
    const before = waits();
    const body = { article_id: 1, content: "" };
    expect((await rest("comments", { as: "ada", body })).status).toBe(400);
    expect(waits() - before).toBe(2);
  });

  test.each<[what: string, path: string, sent?: RestSent]>([
    ["a URL that cannot be parsed", "articles?id=1"],
    ["unknown names", "articles?select=nowhere"],
    ["an OPTIONS request", "articles", { method: "OPTIONS" }],
    ["the OpenAPI description", ""],
    ["an invalid key", "articles", { headers: { apikey: "bad" } }],
  ])("and none at all for %s", async (_what, path, sent) => {
    const before = waits();
    await rest(path, sent);
    expect(waits() - before).toBe(0);
  });
});

test("a request succeeds only after the commit, so that a deferred constraint fails the request", async () => {
  const before = waits();
  expect((await rest("late", { body: { id: 1, other: 2 }, prefer: "return=representation" })).json).toMatchObject({
    code: "23503",
  });
  expect((await rest("late", { body: { id: 1, other: 2 }, prefer: "tx=rollback" })).json).toMatchObject({
    code: "23503",
  });
  expect(
    (
      await rest("late", {
        body: [
          { id: 1, other: 2 },
          { id: 2, other: 1 },
        ],
      })
    ).status,
  ).toBe(201);
  expect(await rows("late?select=id&order=id")).toEqual([{ id: 1 }, { id: 2 }]);
  expect(waits() - before).toBe(4);
});

/** The prepared statements of the only connection that match. */
async function prepared(pattern: RegExp): Promise<{ statement: string; generic: number; custom: number }[]> {
  return (await rows("rpc/prepared")).filter(({ statement }: { statement: string }) => pattern.test(statement));
}

describe("Postgres reuses plans,", () => {
  test("which are generic from the sixth request of a shape, for each role", async () => {
    // Of anonymous callers, a text is prepared when it comes for the second time.
    for (let id = 1; id <= 8; id++)
      for (const as of [undefined, "ada"] as const)
        await rows(`article_translations?select=language,title&article_id=eq.${id}&limit=5`, { as });
    const known = await prepared(/"article_translations"/);
    expect(known).toHaveLength(2);
    for (const { generic, custom } of known) {
      expect(generic).toBeGreaterThanOrEqual(2);
      expect(custom).toBeLessThanOrEqual(5);
    }
  });

  const ask = async (n: number) => {
    await rows(`comments?select=id,content&id=eq.${n}&content=not.like.*${n}*&or=(id.gt.${n},author_id.in.(${n},1))`);
    await rows("comments?id=eq.1", { as: "ada", method: "PATCH", body: { content: `Number ${n}.` } });
    await rows("rpc/add", { body: { a: n, b: n } });
    await rows(`rpc/add?a=${n}&b=2`);
  };

  test("because requests that differ only in values share a prepared statement", async () => {
    for (let n = 0; n < 2; n++) await ask(n);
    const { length } = await prepared(/./);
    for (let n = 2; n < 20; n++) await ask(n);
    expect(await prepared(/./)).toHaveLength(length);
  });

  test("and requests that differ only in values take no further memory of the caches", async () => {
    const bytes = () => {
      const { parsed, statements, prepared } = Object.fromEntries(cacheMemory.bytesByName());
      return { parsed, statements, prepared };
    };
    // A text is cached when it occurs for the second time.
    for (let n = 100; n < 102; n++) await ask(n);
    const known = bytes();
    for (let n = 102; n < 140; n++) await ask(n);
    expect(bytes()).toEqual(known);
  });

  test("for the session settings and the call of DB_PRE_REQUEST too", async () => {
    for (let i = 0; i < 7; i++) await rows("users?select=id&limit=1", { as: "bob" });
    for (const { generic, custom } of [...(await prepared(/set_config\('role'/)), ...(await prepared(/before_each/))]) {
      expect(generic + custom).toBeGreaterThan(0);
      expect(custom).toBeLessThanOrEqual(5);
    }
  });

  test("and does not plan again when roles or callers alternate", async () => {
    const ask = async () => {
      for (const as of [undefined, "ada", undefined, "bob", "ada"] as const) {
        expect(await rows("counted?id=eq.1&select=value", { as })).toEqual([{ value: 1 }]);
        await rows("counted?id=eq.2", { as, method: "PATCH", body: { value: 2 } });
      }
    };
    const plannings = async () => {
      await rest("rpc/flush_statistics", { method: "POST" });
      return Number((await sql("select calls from pg_stat_user_functions where funcname = 'planned'"))[0].calls);
    };
    const planningsOf = async (rounds: number) => {
      const before = await plannings();
      for (let i = 0; i < rounds; i++) await ask();
      return (await plannings()) - before;
    };
    await ask();
    expect(await planningsOf(6)).toBeGreaterThan(0);
    // The server discards plans now and then, for example when its queue of catalog changes overflows.
    await expect.poll(() => planningsOf(5)).toBe(0);
  });
});

import { describe, expect, test } from "vitest";
import { openRaw } from "../../support/raw-socket.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const DDL = `
  create table notes (id int primary key, text text);
  insert into notes select n, 'note ' || n from generate_series(1, 5) as n;
  create function sum_of(numbers int[]) returns bigint immutable language sql return (select sum(n) from unnest(numbers) as n);
  create function whole(json) returns text immutable language sql return 'taken';
  create function rename_note(id int, text text) returns setof notes volatile language sql as
    $$ update notes set text = $2 where notes.id = $1 returning * $$;
  create function shout(text text) returns text volatile language sql as
    $$ update notes set text = $1 where id = 1; select upper($1) $$;
  create function many() returns setof notes stable language sql as $$ select * from notes $$;
  create function sleeps() returns void stable language sql as $$ select pg_sleep(10) $$;
  grant all on notes to anon;
  grant execute on function sum_of(int[]), whole(json), rename_note(int, text), shout(text), many(), sleeps() to anon`;

const usual = useRest({ GRAPHQL_DOCUMENTS: "none" }, DDL);
const narrow = useRest(
  {
    GRAPHQL_DOCUMENTS: "none",
    restMaxEmbedDepth: 2,
    restMaxConditionDepth: 2,
    restMaxEmbeds: 3,
    restMaxEmbedFilters: 2,
    restMaxConditions: 4,
    restMaxPatterns: 2,
    restMaxPatternLength: 8,
    restBodyLimit: 2000,
    jsonMaxDepth: 4,
    DB_MAX_ROWS: "2",
    dbMaxResultBytes: 1000,
    DB_STATEMENT_TIMEOUT: "4000",
    DB_POOL: "1",
    dbPoolTimeout: 1000,
  },
  DDL,
);

/** `many(3, "a")` → `a,a,a` */
const many = (count: number, text: string, separator = ",") => Array(count).fill(text).join(separator);
const embeds = (levels: number, within = "id"): string =>
  levels === 0
    ? within
    : levels % 2 === 0
      ? `users(${embeds(levels - 1, within)})`
      : `articles(${embeds(levels - 1, within)})`;
const conditions = (levels: number): string => (levels === 1 ? "(id.eq.1)" : `(and${conditions(levels - 1)})`);
const brackets = (levels: number) => "[".repeat(levels) + "]".repeat(levels);

describe("a request at the limit is served, and a request above it is refused,", () => {
  const within = async (client: typeof usual, path: string, sent?: RestSent) => {
    const { status, text } = await client.rest(path, sent);
    expect(status, text).toBeLessThan(300);
  };
  const beyond = async (client: typeof usual, path: string, sent: RestSent | undefined, problem: object) => {
    const { status, json } = await client.rest(path, sent);
    expect({ status, ...json }).toMatchObject(problem);
    // The connection still works after the rejected request.
    await within(client, "notes?select=id&limit=1");
  };

  test.each([
    ["restMaxEmbedDepth", 2, narrow],
    ["the default restMaxEmbedDepth", 10, usual],
  ])("for %s and %i levels of relations", async (_name, max, client) => {
    const refused = { status: 400, code: "PGRST100", message: `select is nested more than ${max} levels deep` };
    const source = (levels: number) => (levels % 2 === 0 ? "articles" : "users");
    await within(client, `${source(max)}?select=${embeds(max)}&limit=1&id=eq.0`);
    await beyond(client, `${source(max + 1)}?select=${embeds(max + 1)}`, undefined, refused);
    await beyond(client, `articles?select=${"users(".repeat(2000)}id${")".repeat(2000)}`, undefined, refused);
    await beyond(client, `articles?select=${"...users(".repeat(1500)}`, undefined, refused);
  });

  test.each([
    ["restMaxConditionDepth", 2, narrow],
    ["the default restMaxConditionDepth", 20, usual],
  ])("for %s and %i levels of and(…) and or(…)", async (_name, max, client) => {
    const refused = { status: 400, code: "PGRST100", message: `the logic tree is nested more than ${max} levels deep` };
    await within(client, `notes?or=${conditions(max)}&select=id`);
    await beyond(client, `notes?or=${conditions(max + 1)}`, undefined, refused);
    await beyond(client, `notes?not.and=(not.or${conditions(2000)})`, undefined, refused);
  });

  test.each([
    ["restMaxEmbeds", 3, narrow],
    ["the default restMaxEmbeds", 500, usual],
  ])("for %s and %i embedded relationships", async (_name, max, client) => {
    const refused = {
      status: 400,
      code: "PGRST100",
      message: `a request may have at most ${max} embedded relationships`,
    };
    const relations = (count: number) => Array.from({ length: count }, (_, i) => `r${i}:users(id)`).join();
    await within(client, `articles?id=eq.0&select=${relations(max)}`);
    await beyond(client, `articles?select=${relations(max + 1)}`, undefined, refused);
    await beyond(client, `articles?select=${relations(max - 1)},r:users(articles(id))`, undefined, refused);
    await beyond(client, `rpc/search?keyword=x&select=${relations(max + 1)}`, undefined, refused);
  });

  test.each([
    ["restMaxEmbedFilters", 2, narrow],
    ["the default restMaxEmbedFilters", 20, usual],
  ])("for %s and %i filters on embedded relationships", async (_name, max, client) => {
    const message = `a request may have at most ${max} !inner and null filters on embedded relationships`;
    const refused = { status: 400, code: "PGRST100", message };
    const inner = (count: number) => Array.from({ length: count }, (_, i) => `r${i}:users!inner(id)`).join();
    const filters = (count: number) => `users(id)&${many(count, "users=not.is.null", "&")}`;
    const change = { method: "PATCH", body: { title: "Never seen" }, as: "ada" } as const;
    await within(client, `articles?select=${inner(max)}`);
    await beyond(client, `articles?select=${inner(max + 1)}`, undefined, refused);
    await beyond(client, `articles?select=${inner(max)}&r0=is.null`, undefined, refused);
    await within(client, `articles?select=${filters(max)}`);
    await beyond(client, `articles?select=${filters(max + 1)}`, undefined, refused);
    await beyond(client, `articles?select=users(id)&or=(${many(max + 1, "users.is.null")})`, undefined, refused);
    await within(client, `articles?id=eq.0&select=users(id)&users=is.null`, change);
    await beyond(client, `articles?id=eq.0&select=users(id)&${many(max + 1, "users=is.null", "&")}`, change, refused);
  });

  test.each([
    ["GET", "notes?", {}],
    ["PATCH", "notes?", { method: "PATCH", body: { text: "x" } }],
    ["DELETE", "notes?", { method: "DELETE" }],
    ["a call", "rpc/many?", {}],
    ["a call by POST", "rpc/many?", { body: {} }],
    ["a call as a task", "rpc/many?", { body: {}, prefer: "respond-async" }],
  ])("for the filters and patterns of %s", async (_what, path, sent) => {
    const refused = (message: string) => ({ status: 400, code: "PGRST100", message });
    const none = "id=eq.0&";
    await within(narrow, `${path}${none}${many(3, "text=neq.x", "&")}`, sent);
    await beyond(
      narrow,
      `${path}${none}${many(4, "text=neq.x", "&")}`,
      sent,
      refused("a request may have at most 4 conditions"),
    );
    await within(narrow, `${path}${none}text=match.x{8}&text=like.*1234567`, sent);
    const tooMany = "a request may have at most 2 patterns (like, match, full-text search)";
    await beyond(narrow, `${path}${none}or=(text.match.x,text.wfts.y,text.ilike.z)`, sent, refused(tooMany));
    const tooLong = "a pattern may have at most 8 characters";
    await beyond(narrow, `${path}${none}text=match.x{9}`, sent, { status: 400, code: "2201B" });
    await beyond(narrow, `${path}${none}text=phfts.123456789`, sent, refused(tooLong));
  });

  test("for restBodyLimit and the bytes of a body, with or without Content-Length", async () => {
    const refused = { status: 413, code: "PGRST102", message: "the body must not be larger than 2000 bytes" };
    const body = (size: number) => `[${" ".repeat(size - 2)}]`;
    await within(narrow, "rpc/whole", { body: body(2000) });
    await beyond(narrow, "rpc/whole", { body: body(2001) }, refused);
    await beyond(narrow, "notes?id=eq.1", { method: "PATCH", body: body(2001) }, refused);
    await beyond(narrow, "notes?id=eq.1", { method: "PUT", body: body(9000) }, refused);
    const raw = await openRaw(narrow.service().url);
    const key = narrow.service().service.tokens.issueKey("anon");
    const chunk = `400\r\n${" ".repeat(1024)}\r\n`;
    raw.write(
      `POST /rest/v1/rpc/whole HTTP/1.1\r\nHost: x\r\napikey: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(3)}`,
    );
    expect((await raw.head()).status).toBe(413);
  });

  test("for the default restBodyLimit, which is 16 MiB", async () => {
    const MIB16 = 16 * 1024 * 1024;
    await within(usual, "rpc/whole", { body: `[${" ".repeat(MIB16 - 2)}]` });
    await beyond(usual, "rpc/whole", { body: `[${" ".repeat(MIB16 - 1)}]` }, { status: 413, code: "PGRST102" });
  });

  test.each([
    ["jsonMaxDepth", 4, narrow],
    ["the default jsonMaxDepth", 64, usual],
  ])("for %s and %i levels of brackets in a body", async (_name, max, client) => {
    const refused = { status: 400, code: "PGRST102", details: `the body is nested more than ${max} levels deep` };
    await within(client, "rpc/whole", { body: brackets(max) });
    await beyond(client, "rpc/whole", { body: brackets(max + 1) }, refused);
    await beyond(client, "rpc/whole", { body: brackets(900) }, refused);
  });

  test("except for DB_MAX_ROWS, which cuts each list of a read, and not the rows of a write", async () => {
    expect(await narrow.rows("notes?select=id")).toEqual([{ id: 1 }, { id: 2 }]);
    expect(await narrow.rows("notes?select=id&limit=3")).toHaveLength(2);
    expect(await narrow.rows("rpc/many?select=id")).toHaveLength(2);
    expect(await narrow.rows("users?select=id,comments(id)&id=eq.2")).toEqual([{ id: 2, comments: expect.any(Array) }]);
    const update = { method: "PATCH", body: { text: "x" }, prefer: "return=representation" };
    expect(await narrow.rows("notes?id=lt.4&select=id", update)).toHaveLength(3);
  });

  test("for DB_STATEMENT_TIMEOUT and dbPoolTimeout, the milliseconds of a statement and of waiting for a connection", async () => {
    const first = beyond(narrow, "rpc/sleeps", undefined, { status: 504, code: "57014" });
    const running =
      "select count(*)::int from pg_stat_activity where datname = current_database() and query like '%sleeps%'";
    await expect
      .poll(async () => (await narrow.sql(`${running} and state = 'active' and pid <> pg_backend_pid()`))[0])
      .toEqual({ count: 1 });
    expect(await narrow.failure("notes")).toEqual([504, "PGRST003"]);
    await first;
  });

  test("with a JSON error, for 16 KiB of URL and headers", async () => {
    await within(usual, `notes?id=in.(${many(7000, "1")})&select=id`);
    const { status, json, headers } = await usual.rest(`notes?id=in.(${many(10_000, "1")})`);
    const error = {
      code: "VALIDATION_ERROR",
      message: "the URL and the headers must not be larger than 16384 bytes: send long lists in a body",
    };
    expect({ status, json }).toEqual({ status: 431, json: { error, ...error, details: null, hint: null } });
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(await usual.rows("rpc/sum_of", { body: { numbers: Array(10_000).fill(1) } })).toBe(10_000);
  });
});

describe("dbMaxResultBytes", () => {
  const long = "x".repeat(1200);
  const texts = () => narrow.sql("select text from notes order by id");

  test.each<[what: string, path: string]>([
    ["a read", `notes?select=${many(90, "text")}`],
    ["a function that only reads", `rpc/many?select=${many(90, "text")}`],
  ])("refuses %s with a larger result", async (_what, path) => {
    expect(await narrow.rest(path)).toMatchObject({
      status: 400,
      json: { code: "54000", message: "the result is larger than 1000 bytes; request less at a time" },
    });
    expect(await narrow.rows("notes?select=id&id=eq.1")).toEqual([{ id: 1 }]);
  });

  test.each<[what: string, path: string, sent: RestSent]>([
    ["an insert", "notes", { body: { id: 9, text: long }, prefer: "return=representation" }],
    [
      "an upsert",
      "notes",
      { body: [{ id: 1, text: long }], prefer: "resolution=merge-duplicates,return=representation" },
    ],
    ["PUT", "notes?id=eq.1", { method: "PUT", body: { id: 1, text: long }, prefer: "return=representation" }],
    ["an update", "notes?id=eq.1", { method: "PATCH", body: { text: long }, prefer: "return=representation" }],
    ["a deletion", `notes?id=gt.0&select=${many(90, "text")}`, { method: "DELETE", prefer: "return=representation" }],
    [
      "an update that returns CSV",
      "notes?id=eq.1",
      { method: "PATCH", body: { text: long }, prefer: "return=representation", headers: { accept: "text/csv" } },
    ],
    [
      "an update that returns a single object",
      "notes?id=eq.1",
      {
        method: "PATCH",
        body: { text: long },
        prefer: "return=representation",
        headers: { accept: "application/vnd.pgrst.object+json" },
      },
    ],
    ["a function that writes", "rpc/rename_note", { body: { id: 1, text: long } }],
    ["a function that writes and returns a value", "rpc/shout", { body: { text: long } }],
    [
      "a function that writes and returns text/plain",
      "rpc/shout",
      { body: { text: long }, headers: { accept: "text/plain" } },
    ],
  ])("rolls back %s with a larger response and returns an error", async (_what, path, sent) => {
    const before = await texts();
    expect(await narrow.rest(path, sent)).toMatchObject({
      status: 400,
      json: { code: "54000", message: "the response would be larger than 1000 bytes, so nothing was written" },
    });
    expect(await texts()).toEqual(before);
  });

  test("does not limit how much a write with a small response writes", async () => {
    const update = { method: "PATCH", body: { text: long } };
    expect((await narrow.rest("notes?id=eq.5", update)).status).toBe(204);
    expect(await narrow.rows("notes?id=eq.5&select=id", { ...update, prefer: "return=representation" })).toEqual([
      { id: 5 },
    ]);
    expect((await narrow.sql("select length(text) from notes where id = 5"))[0]).toEqual({ length: 1200 });
  });
});

describe("the largest URL", () => {
  test.each<[what: string, expected: number, path: string, sent?: RestSent]>([
    ["500 relations", 200, `users?select=id,${many(500, "comments(id)")}&id=eq.1`],
    ["1,200 relations that are not returned", 200, `users?select=id,${many(1200, "articles()")}&id=eq.1`],
    ["20 inner relations", 200, `articles?select=id,${many(20, "users!inner(id)")}&id=eq.1`],
    ["1,600 columns", 200, `notes?select=${many(1600, "id")}&id=eq.1`],
    ["1,665 columns", 400, `notes?select=${many(1665, "id")}&id=eq.1`],
    ["800 aggregates", 200, `notes?select=${many(800, "id.sum()")}`],
    ["1,000 filters", 200, `notes?${many(1000, "id=eq.1", "&")}&select=id`],
    ["1,000 conditions", 200, `notes?or=(${many(1000, "id.eq.1")})&select=id`],
    ["700 filters of a relation", 200, `users?select=id,articles(id)&${many(700, "articles.id=eq.1", "&")}`],
    ["2,000 terms of order", 200, `notes?order=${many(2000, "text")}&select=id`],
    ["a JSON path of 2,000 steps", 200, `notes?select=text${many(2000, "->a", "")}&limit=1`],
    ["an array of 5,000 dimensions", 400, `notes?select=text::text${many(5000, "[]", "")}&limit=1`],
    ["brackets that do not form a type", 400, `notes?select=text::text${many(5000, "[]", "")}x&limit=1`],
    ["the same argument 1,000 times", 200, `rpc/sum_of?${many(1000, "numbers={1}", "&")}`],
    ["1,500 arguments", 404, `rpc/sum_of?${many(1500, "other=1", "&")}`],
    ["2,500 media types", 406, "notes", { headers: { accept: many(2500, "a/b") } }],
    ["2,500 preferences", 200, "notes", { prefer: many(2500, "a=b") }],
    ["4,000 quotes", 400, `notes?select=${many(4000, "%22", "")}`],
    ["a name of 14,000 characters", 400, `notes?${many(14_000, "a", "")}=eq.1`],
  ])("with %s is %i", async (_what, expected, path, sent) => {
    const { status, text, headers } = await usual.rest(path, sent);
    expect(status, text.slice(0, 200)).toBe(expected);
    // Clients and proxies reject responses with a longer header.
    expect(headers.get("content-location")?.length ?? 0).toBeLessThan(2100);
  });
});

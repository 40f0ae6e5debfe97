import { readFileSync } from "node:fs";
import jwt from "jsonwebtoken";
import pino from "pino";
import { beforeEach, describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";
import { JWT_SECRET } from "../../support/service.ts";

const DDL = `
  create schema faults;
  create table faults.authors (id int primary key, name text not null unique, age int constraint age_range check (age < 150));
  comment on constraint age_range on faults.authors is 'the age is out of range';
  create table faults.books (
    id int primary key, title text,
    author_id int references faults.authors, editor_id int references faults.authors
  );
  create table faults.closed (id int primary key);
  insert into faults.authors values (1, 'Ada'), (2, 'Bob');
  insert into faults.books values (1, 'Notes', 1, 2);
  create function faults.fail(code text, message text default 'boom', detail text default null, hint text default null)
  returns void language plpgsql volatile as $$
  begin
    if detail is null then raise exception using errcode = code, message = message; end if;
    raise exception using errcode = code, message = message, detail = detail, hint = coalesce(hint, '');
  end $$;
  create function faults.same(n int) returns int language sql stable return n;
  create function faults.same(n text) returns text language sql stable return n;
  create function faults.respond(name text, value text) returns text language sql stable return set_config(name, value, true);
  create function faults.many() returns setof int language sql volatile as 'select generate_series(1, 5)';
  create sequence faults.numbers;
  create materialized view faults.totals as select count(*) as n from faults.books with no data;
  create extension hstore schema public;
  create table faults.pairs (id int primary key, attrs public.hstore default 'd=>1');
  grant select on faults.totals to anon;
  grant all on faults.pairs to anon;
  create domain faults.attrs as public.hstore;
  create function faults.shown(attrs public.hstore) returns public.hstore language sql stable return attrs;
  create function faults.shown_all(list public.hstore[], d faults.attrs) returns public.hstore[] language sql stable
    return list || d::public.hstore;
  grant usage on faults.numbers to anon;
  create function faults.write() returns bigint language sql volatile return nextval('faults.numbers');
  create function faults.slow() returns text language sql volatile return pg_sleep(5)::text;
  create function faults.quick() returns text language sql volatile set statement_timeout = '20ms' return pg_sleep(5)::text;
  create function faults.sort_on_disk() returns bigint language sql volatile set work_mem = '64kB'
    as 'select count(*) from (select from generate_series(1, 100000) as n order by n desc offset 1) as sorted';
  do $$ begin execute format('alter database %I set temp_file_limit = ''100kB''', current_database()); end $$;
  grant usage on schema faults to anon, authenticated;
  grant all on faults.authors, faults.books to anon, authenticated;
  grant execute on all functions in schema faults to anon, authenticated;`;

const logged: { requestId?: string; msg: string; err?: { message: string; code: string } }[] = [];
const log = pino({ level: "error" }, { write: (line: string) => void logged.push(JSON.parse(line)) });
const { rest, failure, service, sql } = useRest({ DB_SCHEMAS: "faults", restBodyLimit: 10_000 }, DDL, log);
const strict = useRest(
  {
    DB_SCHEMAS: "faults",
    DB_AGGREGATES: "off",
    OPENAPI: "off",
    DB_POOL: "1",
    dbPoolTimeout: 1000,
    DB_STATEMENT_TIMEOUT: "4000",
  },
  DDL,
);

const OBJECT = { headers: { accept: "application/vnd.pgrst.object+json" } };
const fail = (body: object): [string, RestSent] => ["rpc/fail", { body }];
const put = (body: object): RestSent => ({ method: "PUT", body });
const bearer = (token: string): RestSent => ({ headers: { authorization: `Bearer ${token}` } });

/** A request for each code of PostgREST. */
const PRODUCED: [code: string, status: number, path: string, sent?: RestSent][] = [
  ["PT412", 412, "books?id=eq.1", { method: "DELETE", headers: { "if-match": '"1"' } }],
  ["PGRST100", 400, "books?id=eq"],
  ["PGRST100", 400, "books?select=id,(title)"],
  ["PGRST101", 405, "rpc/many", { method: "DELETE" }],
  ["PGRST102", 400, "books", { body: "{" }],
  ["PGRST102", 400, "books", { body: [{ id: 7 }, { title: "x" }] }],
  ["PGRST102", 413, "books", { body: JSON.stringify({ title: "x".repeat(20_000) }) }],
  ["PGRST102", 415, "books", { body: "x", headers: { "content-type": "image/png" } }],
  ["PGRST103", 416, "books?limit=-1"],
  ["PGRST103", 416, "books", { headers: { range: "5-1" } }],
  ["PGRST103", 416, "books?offset=9", { prefer: "count=exact" }],
  ["PGRST105", 405, "books?title=eq.x", put({ id: 1 })],
  ["PGRST106", 406, "books", { headers: { "accept-profile": "public" } }],
  ["PGRST107", 406, "books", { headers: { accept: "image/png" } }],
  ["PGRST107", 406, "books", { headers: { accept: "application/vnd.pgrst.plan+text" } }],
  ["PGRST108", 400, "books?select=id&authors.name=eq.x"],
  ["PGRST111", 500, "rpc/respond?name=response.headers&value=none"],
  ["PGRST112", 500, "rpc/respond?name=response.status&value=99"],
  ["PGRST114", 400, "books?id=eq.1&limit=1", put({ id: 1 })],
  ["PGRST115", 400, "books?id=eq.1", put({ id: 2 })],
  ["PGRST116", 406, "authors", OBJECT],
  ["PGRST117", 405, "books", { method: "PURGE" }],
  ["PGRST118", 400, "authors?select=books!books_author_id_fkey(id)&order=books(id)"],
  ["PGRST120", 400, "books?select=authors!books_author_id_fkey(id)&authors=eq.1"],
  ["PGRST121", 500, ...fail({ code: "PGRST", message: "none" })],
  ["PGRST122", 400, "books", { prefer: "handling=strict, made=up" }],
  ["PGRST124", 400, "books?id=gt.0", { method: "DELETE", prefer: "handling=strict, max-affected=0" }],
  ["PGRST125", 404, "books/1"],
  ["PGRST127", 400, "authors?select=...books!books_author_id_fkey(count())"],
  ["PGRST128", 400, "rpc/write", { body: {}, prefer: "handling=strict, max-affected=1" }],
  ["PGRST200", 400, "books?select=shelves(*)"],
  ["PGRST201", 300, "books?select=authors(*)"],
  ["PGRST202", 404, "rpc/none"],
  ["PGRST203", 300, "rpc/same?n=1"],
  ["PGRST204", 400, "books", { body: { pages: 1 } }],
  ["PGRST205", 404, "shelves"],
  ["PGRST301", 401, "books", bearer("garbage")],
  ["PGRST302", 401, "books", { headers: { apikey: "" } }],
  [
    "PGRST303",
    401,
    "books",
    bearer(jwt.sign({ role: "anon" }, JWT_SECRET, { issuer: "content-service", expiresIn: -5 })),
  ],
  ["PGRSTX00", 500, ...fail({ code: "XX000" })],
];

const invalidToken = (message: string) => `Bearer error="invalid_token", error_description="${message}"`;

describe("an error has the code", () => {
  test.each(PRODUCED)("%s, %i: %s", async (code, status, path, sent = {}) => {
    const answer = await rest(path, sent);
    expect([answer.status, answer.json]).toEqual([
      status,
      {
        code,
        message: expect.stringMatching(/./),
        details: answer.json.details,
        hint: answer.json.hint,
      },
    ]);
    expect(Object.keys(answer.json)).toEqual(["code", "message", "details", "hint"]);
    expect(answer.headers.get("proxy-status")).toBe(`content-service; error=${code}`);
    const challenge = code === "PGRST301" || code === "PGRST303" ? invalidToken(answer.json.message) : "Bearer";
    expect(answer.headers.get("www-authenticate")).toBe(status === 401 ? challenge : null);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test.each<[code: string, status: number, path: string]>([
    ["PGRST123", 400, "books?select=count()"],
    ["PGRST126", 404, ""],
  ])("%s, %i, if a setting enables the check", async (code, status, path) => {
    expect(await strict.failure(path)).toEqual([status, code]);
  });

  test("PGRST003, 504: no database connection became free in time", async () => {
    const first = strict.failure("rpc/slow", { method: "POST" });
    await expect
      .poll(() =>
        strict.sql(
          "select from pg_stat_activity where datname = current_database() and query like '%slow%' and wait_event = 'PgSleep'",
        ),
      )
      .toHaveLength(1);
    expect(await strict.failure("books")).toEqual([504, "PGRST003"]);
    expect(await first).toEqual([504, "57014"]);
    expect((await strict.rest("books?select=id")).json).toEqual([{ id: 1 }]);
  });

  test("PGRST000, 503: the database refuses connections", async () => {
    const login = `${strict.service().database.name}_data`;
    await strict.sql(`alter role ${login} nologin`);
    await strict.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", login);
    await expect.poll(() => strict.failure("books")).toEqual([503, "PGRST000"]);
    expect((await strict.rest("books")).headers.get("retry-after")).toBe("5");
    await strict.sql(`alter role ${login} login`);
    expect((await strict.rest("books?select=id")).json).toEqual([{ id: 1 }]);
  });

  /** The code of the rate limit, which has tests in test/gate/rate-limit.test.ts. */
  const OF_RATE_LIMIT = "PT429";

  /** The code of tokens without a key to verify them, which has a test in test/identity/table-credentials.test.ts. */
  const OF_MISSING_SECRET = "PGRST300";

  test("that docs/errors.md lists, and the tests produce every code of the list", () => {
    const section = readFileSync("docs/errors.md", "utf8")
      .split("### Codes of the table interface")[1]!
      .split("###")[0]!;
    const listed = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, code]) => code);
    const others = ["PGRST000", "PGRST003", "PGRST123", "PGRST126", OF_MISSING_SECRET, OF_RATE_LIMIT];
    const produced = [...PRODUCED.map(([code]) => code), ...others];
    expect(listed.sort()).toEqual([...new Set(produced)].sort());
  });
});

test("a materialized view without data says how it gets data", async () => {
  expect((await rest("totals")).json).toEqual({
    code: "55000",
    message: 'materialized view "totals" has not been populated',
    details: null,
    hint: "Use the REFRESH MATERIALIZED VIEW command.",
  });
});

describe("a uuid as the id of a user, which is a number,", () => {
  const path = "books?author_id=eq.6c84fb90-12c4-11e1-840d-7b25c5ee775a";
  const hintOf = async (sent: RestSent) => (await rest(path, sent)).json.hint;

  test("has a hint with the id of the caller", async () => {
    const hint =
      "If this is user.id of supabase-js: in rows, the id of this user is 1, the claim sub of the access token.";
    expect(await hintOf({ as: "ada" })).toBe(hint);
    expect(await hintOf({ as: "ada", method: "PATCH", body: { title: "Notes" } })).toBe(hint);
  });

  test("has none for a caller without an id, and no other value has one", async () => {
    expect(await hintOf({})).toBeNull();
    expect((await rest("books?author_id=eq.ada", { as: "ada" })).json.hint).toBeNull();
  });
});

describe("a column or an argument of hstore", () => {
  const sent = (attrs: unknown, more: RestSent = {}) => ({
    body: { id: 2, attrs },
    prefer: "return=representation",
    ...more,
  });
  beforeEach(() => sql("truncate faults.pairs; insert into faults.pairs values (1, 'a=>1')"));

  test.each([
    [
      { z: "1", n: null, 'q"\\': 'a"\\b\n' },
      { z: "1", n: null, 'q"\\': 'a"\\b\n' },
    ],
    [{}, {}],
    ["z=>1, y=>NULL", { z: "1", y: null }],
    [null, null],
  ])("takes %j", async (given, attrs) => {
    expect((await rest("pairs", sent(given))).json).toEqual([{ id: 2, attrs }]);
    expect((await rest("rpc/shown", { body: { attrs: given } })).json).toEqual(attrs);
    expect((await rest("rpc/shown_all", { body: { list: [given], d: given } })).json).toEqual([attrs, attrs]);
    expect((await rest("pairs?id=eq.1", sent(given, { method: "PATCH", body: { attrs: given } }))).json).toEqual([
      { id: 1, attrs },
    ]);
    expect(
      (
        await rest("pairs?columns=id,attrs", {
          ...sent(given),
          body: [{ id: 3, attrs: given }, { id: 4 }],
          prefer: "missing=default, return=representation",
        })
      ).json,
    ).toEqual([
      { id: 3, attrs },
      { id: 4, attrs: { d: "1" } },
    ]);
  });

  test.each(["z=>", "{", 7, [1]])("refuses %j", async (given) => {
    const refused = await failure("pairs", sent(given));
    expect(refused).toEqual([400, expect.stringMatching(/^(22P02|42601)$/)]);
    expect(await failure("rpc/shown", { body: { attrs: given } })).toEqual(refused);
    expect((await rest("pairs?attrs=eq.z%3D>")).status).toBe(400);
  });
});

describe("an error of PostgreSQL", () => {
  test.each<[sqlstate: string, status: number, path: string, sent?: RestSent]>([
    ["23505", 409, "authors", { body: { id: 1, name: "x" } }],
    ["23503", 409, "books", { body: { id: 9, author_id: 99 } }],
    ["23503", 409, "authors?id=eq.1", { method: "DELETE" }],
    ["23502", 400, "authors", { body: { id: 9 } }],
    ["23514", 400, "authors", { body: { id: 9, name: "x", age: 999 } }],
    ["22P02", 400, "books?id=eq.x"],
    ["22003", 400, "books?id=eq.99999999999"],
    ["42703", 400, "books?pages=eq.1"],
    ["42883", 404, "books?title=sl.x"],
    ["42704", 400, "books?select=id::nonsense"],
    ["42501", 401, "closed"],
    ["42501", 403, "closed", { as: "ada" }],
    ["25006", 405, "rpc/write"],
    ["21000", 400, "books", { method: "DELETE" }],
    ["57014", 504, "rpc/quick", { method: "POST" }],
    ["55000", 503, "totals"],
  ])("with SQLSTATE %s has the status %i: %s", async (sqlstate, status, path, sent) => {
    expect(await failure(path, sent)).toEqual([status, sqlstate]);
  });

  test.each<[sqlstate: string, status: number]>([
    ["01000", 400],
    ["0A000", 400],
    ["0L000", 403],
    ["0P000", 403],
    ["20000", 400],
    ["21000", 400],
    ["22000", 400],
    ["23001", 409],
    ["23P01", 409],
    ["28000", 401],
    ["28P01", 403],
    ["3F000", 400],
    ["40001", 409],
    ["40P01", 409],
    ["42501", 401],
    ["42601", 400],
    ["42P01", 404],
    ["53300", 503],
    ["54001", 400],
    ["55P03", 409],
    ["57P01", 503],
    ["P0001", 400],
    ["P0002", 404],
    ["XY123", 400],
    ["PT402", 402],
    ["PT200", 200],
    ["PT500", 500],
    ["PT503", 503],
  ])("with SQLSTATE %s that is raised has the status %i", async (sqlstate, status) => {
    expect(await failure(...fail({ code: sqlstate }))).toEqual([status, sqlstate]);
  });

  test.each([204, 304])("with the status %i has neither a body nor a length", async (status) => {
    const { status: sent, text, headers } = await rest("rpc/fail", { body: { code: `PT${status}` } });
    expect([sent, text, headers.get("content-length")]).toEqual([status, "", null]);
  });

  test.each([
    "09000",
    "25P02",
    "26000",
    "2D000",
    "38000",
    "39000",
    "3B001",
    "40003",
    "55000",
    "57000",
    "58000",
    "F0000",
    "HV000",
    "P0000",
    "P0004",
    "PT40A",
    "PT999",
    "XX000",
    "XX001",
  ])("with SQLSTATE %s that is raised is a masked internal error, and the log has the details", async (sqlstate) => {
    const headers = { "x-request-id": `fault-${sqlstate}` };
    const body = { code: sqlstate, message: "the secret is 42", detail: "row (1, secret)", hint: "ask Bob" };
    const answer = await rest("rpc/fail", { body, headers });
    expect([answer.status, answer.json]).toEqual([
      500,
      {
        code: "PGRSTX00",
        message: "internal error",
        details: null,
        hint: `The service log has the details under request id fault-${sqlstate}.`,
      },
    ]);
    const [line] = logged.filter(({ requestId, err }) => err && requestId === headers["x-request-id"]);
    expect(line!.err).toMatchObject({
      message: "the secret is 42",
      code: sqlstate,
    });
  });

  test.each([
    ["42P17", "a mistake in the database: infinite recursion (42P17)"],
    ["53400", "unhandled error"],
  ])("with SQLSTATE %s, which the DBA has to fix, has its message, and is in the log", async (sqlstate, line) => {
    const headers = { "x-request-id": `fix-${sqlstate}` };
    const body = { code: sqlstate, message: "infinite recursion", detail: "row (1, secret)", hint: "ask Bob" };
    const { status, json } = await rest("rpc/fail", { body, headers });
    expect([status, json]).toEqual([500, { code: sqlstate, message: "infinite recursion", details: null, hint: null }]);
    const lines = logged.filter(({ requestId }) => requestId === headers["x-request-id"]).map(({ msg }) => msg);
    expect(lines.filter((msg) => msg === line)).toEqual([line]);
  });

  test("of a statement that exceeds temp_file_limit is 53400 with Postgres' message", async () => {
    const { status, json } = await rest("rpc/sort_on_disk", { body: {} });
    const message = 'temporary file size exceeds "temp_file_limit" (100kB)';
    expect([status, json]).toEqual([500, { code: "53400", message, details: null, hint: null }]);
  });

  test("with the status 503 does not reveal the cause", async () => {
    const { json, headers } = await rest(...fail({ code: "53100", message: "could not extend file base/1/2" }));
    expect(json).toEqual({
      code: "53100",
      message: "the database is not available; try again",
      details: null,
      hint: null,
    });
    expect(headers.get("retry-after")).toBe("5");
  });

  test("for a violated constraint does not reveal the row, and has the constraint's comment as its hint", async () => {
    const { json } = await rest("authors", { body: { id: 9, name: "Secret", age: 999 } });
    const { fields, ...error } = json;
    expect(error).toEqual({
      code: "23514",
      message: 'new row for relation "authors" violates check constraint "age_range"',
      details: "in age",
      hint: "the age is out of range",
    });
    expect(fields).toEqual([
      { field: "age", message: "the age is out of range", code: "VALIDATION_ERROR", constraint: "age_range" },
    ]);
    expect((await rest("authors", { body: { id: 9 } })).json.details).toBe("in name");
  });

  test("for a duplicate key names the key", async () => {
    expect((await rest("authors", { body: { id: 1, name: "x" } })).json).toEqual({
      code: "23505",
      message: 'duplicate key value violates unique constraint "authors_pkey"',
      details: "Key (id)=(1) already exists.",
      hint: null,
      fields: [expect.objectContaining({ field: "id", code: "RESOURCE_CONFLICT", constraint: "authors_pkey" })],
    });
  });

  test("is 401 if the token has a role that the account does not have", async () => {
    const claims = { role: "nobody_of_that_name", sub: "1", type: "access" };
    const token = jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn: 60 });
    const { status, json, headers } = await rest("books", bearer(token));
    expect([status, json.code]).toEqual([401, "PGRST301"]);
    expect(headers.get("www-authenticate")).toBe(invalidToken("the access token is not valid: sign in again"));
  });

  test("is 401 if the token has the owner's role", async () => {
    const claims = { role: "postgres", sub: "1", type: "access" };
    const token = jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn: 60 });
    expect(await failure("books", bearer(token))).toEqual([401, "PGRST301"]);
  });
});

describe("raise", () => {
  test("without an SQLSTATE is 400 with the message of the exception", async () => {
    const { status, json } = await rest(
      ...fail({ code: "P0001", message: "not like that", detail: "why", hint: "how" }),
    );
    expect([status, json]).toEqual([400, { code: "P0001", message: "not like that", details: "why", hint: "how" }]);
  });

  test("sqlstate 'PT402' is 402", async () => {
    const { status, json } = await rest(
      ...fail({ code: "PT402", message: "Payment needed", detail: "why", hint: "Renew it." }),
    );
    expect([status, json]).toEqual([
      402,
      { code: "PT402", message: "Payment needed", details: "why", hint: "Renew it." },
    ]);
  });

  const raise = (message: unknown, detail: unknown): [string, RestSent] =>
    fail({ code: "PGRST", message: JSON.stringify(message), detail: JSON.stringify(detail) });

  test("sqlstate 'PGRST' sets the status, its reason phrase, headers and the whole body", async () => {
    const message = { code: "E-17", message: "Too late", details: { since: 3 }, hint: "Come earlier." };
    const sent = raise(message, { status: 419, status_text: "Page Expired", headers: { "X-Since": "drei Übungen" } });
    const { status, json, headers } = await rest(...sent);
    expect([status, json]).toEqual([419, message]);
    expect(Buffer.from(headers.get("x-since")!, "latin1").toString()).toBe("drei Übungen");
    expect(headers.get("proxy-status")).toBe("content-service; error=E-17");
    const { url, service: running } = service();
    const init = {
      method: "POST",
      headers: { apikey: running.tokens.issueKey("anon"), "content-type": "application/json" },
    };
    const response = await fetch(`${url}/rest/v1/rpc/fail`, { ...init, body: JSON.stringify(sent[1].body) });
    expect(response.statusText).toBe("Page Expired");
  });

  test("sqlstate 'PGRST' replaces headers of the service, and its code may be any text", async () => {
    const { headers } = await rest(
      ...raise({ code: "a b;c", message: "x" }, { status: 400, headers: { "cache-control": "public" } }),
    );
    expect([headers.get("cache-control"), headers.get("proxy-status")]).toEqual([
      "public",
      "content-service; error=a_b_c",
    ]);
  });

  test("sqlstate 'PGRST' with the status 401 has WWW-Authenticate, and with 500 is not masked", async () => {
    const unauthorized = await rest(...raise({ code: "1", message: "x" }, { status: 401, headers: {} }));
    expect([unauthorized.status, unauthorized.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect(await failure(...raise({ code: "1", message: "x" }, { status: 500, headers: {} }))).toEqual([500, "1"]);
  });

  test.each<[message: unknown, detail: unknown, details: string]>([
    ["text", { status: 400, headers: {} }, "Invalid JSON value for MESSAGE"],
    [{ code: "1" }, { status: 400, headers: {} }, "Invalid JSON value for MESSAGE"],
    [{ message: "x" }, { status: 400, headers: {} }, "Invalid JSON value for MESSAGE"],
    [{ code: "1", message: "x" }, "text", "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 400 }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { headers: {} }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 99, headers: {} }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: "400", headers: {} }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 400, headers: { a: 1 } }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 400, headers: { "a b": "1" } }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 400, headers: { a: "1\r\nb: 2" } }, "Invalid JSON value for DETAIL"],
    [{ code: "1", message: "x" }, { status: 400, headers: { "Content-Length": "1" } }, "Invalid JSON value for DETAIL"],
  ])(
    "sqlstate 'PGRST' with the message %j and the detail %j is malformed, and the response is 500",
    async (message, detail, details) => {
      const { status, json } = await rest(...raise(message, detail));
      expect([status, json.code, json.details]).toEqual([500, "PGRST121", details]);
    },
  );
});

test("HEAD returns the status and headers of an error and no body", async () => {
  const { status, text, headers } = await rest("books?id=eq.x", { method: "HEAD" });
  expect([status, text, headers.get("proxy-status")]).toEqual([400, "", "content-service; error=22P02"]);
});

test("a failed request leaves no changes", async () => {
  expect(
    await failure("authors", {
      body: [
        { id: 8, name: "x" },
        { id: 1, name: "y" },
      ],
    }),
  ).toEqual([409, "23505"]);
  expect(await sql("select from faults.authors")).toHaveLength(2);
});

test("a query plan is refused while DB_PLAN is off, and the hint names the setting", async () => {
  const { json } = await rest("books", { headers: { accept: "application/vnd.pgrst.plan+text" } });
  expect(json.hint).toBe("Query plans, such as those of explain(), are off: the operator sets DB_PLAN=on.");
});

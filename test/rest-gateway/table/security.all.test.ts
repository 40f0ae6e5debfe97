import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { Tokens } from "../../../identity/tokens.ts";
import { nodeStart } from "../../support/command.ts";
import { openRaw } from "../../support/raw-socket.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";
import { JWT_SECRET } from "../../support/service.ts";

const DDL = readFileSync(new URL("security.sql", import.meta.url), "utf8");
/** With a single connection, which all requests share. */
const client = useRest(
  { DB_POOL: "1", GRAPHQL_DOCUMENTS: "none", DB_EXTRA_SEARCH_PATH: "public, extensions, internal" },
  DDL,
);
const { rest, rows, failure, service, sql } = client;

const LONG = "23456789_123456789_123456789_123456789_123456789_123456789_123";
const OBJECT = { headers: { accept: "application/vnd.pgrst.object+json" } };

/** The rows of all writable tables. */
const contents = () => sql("select s::text from secrets as s union all select l::text from long_names as l order by 1");

const inHeader = (encoded: string) => JSON.stringify(decodeURIComponent(encoded).replace(/[^ -~]/g, "?"));

describe("text of a request never becomes SQL", () => {
  const payloads = [
    "id'; delete from secrets; --",
    'id"; delete from secrets; --',
    "id) from articles; delete from secrets; --",
    "1 or 1=1",
    "id::text; delete from secrets",
    "\\'; delete from secrets; --",
    "$1; delete from secrets",
    "/*",
    "*/",
    "--",
    "e'\\x27'",
    'U&"d\\0061t\\+000061"',
    "$$; delete from secrets; $$",
    "id\u2019; delete from secrets",
    "public.secrets",
    "(select text from secrets)",
    "pg_sleep(5)",
    "articles, secrets",
    "*/ union select text from secrets --",
  ];
  const places: Readonly<Record<string, (text: string) => [path: string, sent?: RestSent]>> = {
    table: (text) => [text],
    function: (text) => [`rpc/${text}`],
    argument: (text) => [`rpc/search?${text}=x`],
    column: (text) => [`articles?${text}=eq.1`],
    "quoted column": (text) => [`articles?${encodeURIComponent('"')}${text}${encodeURIComponent('"')}=eq.1`],
    operator: (text) => [`articles?id=${text}.1`],
    value: (text) => [`articles?id=eq.${text}`],
    "value of in": (text) => [`articles?id=in.(${text})`],
    language: (text) => [`articles?title=fts(${text}).a`],
    select: (text) => [`articles?select=${text}`],
    alias: (text) => [`articles?select=${text}:id&limit=0`],
    cast: (text) => [`articles?select=id::${text}`],
    "cast after an aggregate": (text) => [`articles?select=id.sum()::${text}`],
    relation: (text) => [`articles?select=${text}(id)`],
    hint: (text) => [`articles?select=users!${text}(id)`],
    "JSON path": (text) => [`secrets?payload->>${text}=eq.1`],
    order: (text) => [`articles?order=${text}`],
    limit: (text) => [`articles?limit=${text}`],
    columns: (text) => [`secrets?columns=${text}`, { body: {}, as: "ada" }],
    on_conflict: (text) => [
      `secrets?on_conflict=${text}`,
      { body: {}, as: "ada", prefer: "resolution=merge-duplicates" },
    ],
    "key of a body": (text) => ["secrets", { body: { [decodeURIComponent(text)]: 1 }, as: "ada" }],
    schema: (text) => ["articles", { headers: { "accept-profile": inHeader(text) } }],
    timezone: (text) => ["articles", { prefer: `timezone=${inHeader(text)}` }],
    "media type": (text) => ["articles", { headers: { accept: `application/vnd.pgrst.plan;for=${inHeader(text)}` } }],
  };

  /** Here the payload is a valid name, value or time zone. */
  const harmless = new Set(["alias", "value of in", "JSON path", "timezone"]);

  test.each(Object.keys(places))("in the place of: %s", async (place) => {
    const before = await contents();
    for (const payload of payloads) {
      const [path, sent] = places[place]!(encodeURIComponent(payload));
      const { status, text } = await rest(path, sent);
      expect(status, `${path}: ${text}`).toBeLessThan(500);
      expect(text).not.toContain("secret of");
      if (!harmless.has(place)) expect(status, `${path}: ${text}`).toBeGreaterThanOrEqual(400);
    }
    expect(await contents()).toEqual(before);
  });
});

describe("a name longer than 63 bytes, which Postgres would truncate,", () => {
  test.each<[path: string, code: string, sent?: RestSent]>([
    [`t${LONG}4`, "PGRST205"],
    [`rpc/f${LONG}4`, "PGRST202"],
    [`rpc/f${LONG}?p${LONG}4=1`, "PGRST202"],
    [`long_names?a${LONG}4=eq.cut`, "42703"],
    [`long_names?select=a${LONG}4`, "42703"],
    [`long_names?select=x:a${LONG}4`, "42703"],
    [`long_names?order=a${LONG}4`, "42703"],
    [`long_names?or=(a${LONG}4.eq.cut,id.eq.0)`, "42703"],
    [`long_names?select=a${LONG}4:id`, "PGRST100"],
    [`long_names?select=${"é".repeat(32)}:id`, "PGRST100"],
    [`long_names?select=id::t${LONG}4`, "42704"],
    [`articles?select=users!t${LONG}4(id)`, "PGRST200"],
    [`long_names?columns=id,a${LONG}4`, "PGRST204", { body: { id: 2 } }],
    [`long_names?on_conflict=a${LONG}4`, "42703", { body: { id: 2 }, prefer: "resolution=merge-duplicates" }],
    ["long_names", "PGRST204", { body: { id: 2, [`a${LONG}4`]: "x" } }],
  ])("does not match an existing name in %s and is the error %s", async (path, code, sent) => {
    expect((await failure(path, sent))[1]).toBe(code);
  });

  test("is refused, and names of 63 bytes are served", async () => {
    expect(await rows(`long_names?a${LONG}=eq.cut&select=id,a${LONG}`)).toEqual([{ id: 1, [`a${LONG}`]: "cut" }]);
    expect(await rows(`rpc/f${LONG}?p${LONG}=7`)).toBe(1);
    expect(await rows(`t${LONG}`)).toEqual([]);
  });
});

describe("schemas that are not exposed", () => {
  const schemas = [
    "auth_private",
    "auth_api",
    "auth",
    "internal",
    "extensions",
    "pg_catalog",
    "information_schema",
    "pg_temp",
    "PUBLIC",
  ];

  test.each(schemas)("such as %s cannot be selected", async (schema) => {
    expect(await failure("accounts", { headers: { "accept-profile": schema } })).toEqual([406, "PGRST106"]);
    expect(await failure("accounts", { body: {}, headers: { "content-profile": schema } })).toEqual([406, "PGRST106"]);
    expect(await failure("rpc/uid", { headers: { "accept-profile": schema } })).toEqual([406, "PGRST106"]);
  });

  test.each<[path: string, status: number, code: string]>([
    ["accounts", 404, "PGRST205"],
    ["auth_private.accounts", 404, "PGRST205"],
    ['auth_private"."accounts', 404, "PGRST205"],
    ["pg_authid", 404, "PGRST205"],
    ["pg_catalog.pg_authid", 404, "PGRST205"],
    ["seeds", 404, "PGRST205"],
    ["articles?select=accounts(*)", 400, "PGRST200"],
    ["users?select=auth_private.accounts(*)", 400, "PGRST100"],
    ['users?select="auth_private.accounts"(*)', 400, "PGRST200"],
    ["users?select=articles!accounts_user_id_fkey(*)", 400, "PGRST200"],
    ["users?select=accounts_user_id_fkey(*)", 400, "PGRST200"],
    ["users?select=id::auth_private.accounts", 400, "42704"],
    ["users?select=id::accounts", 400, "42704"],
    ['users?select=id::"auth_private"."accounts"', 400, "42704"],
    ["users?select=id::seeds", 400, "42704"],
    ...[
      "pg_sleep",
      "set_config",
      "query_to_xml",
      "current_setting",
      "pg_read_file",
      "pg_ls_dir",
      "lo_import",
      "dblink",
    ].map((name): [string, number, string] => [`rpc/${name}`, 404, "PGRST202"]),
    ["rpc/pg_catalog.pg_sleep?seconds=5", 404, "PGRST202"],
    ["rpc/uid", 404, "PGRST202"],
    ["rpc/claims", 404, "PGRST202"],
    ["rpc/announce_change", 404, "PGRST202"],
    ["rpc/substring_pattern?keyword=a", 404, "PGRST202"],
    ["rpc/auth_api.open_session", 404, "PGRST202"],
  ])("cannot be reached by %s", async (path, status, code) => {
    expect(await failure(path)).toEqual([status, code]);
    expect(await failure(path, { as: "service" })).toEqual([status, code]);
  });
});

describe("the connection keeps no changes of a request, such as", () => {
  afterEach(async () => {
    expect(await rows("rpc/whoami")).toBe("anon -");
    expect(await rows("rpc/whoami", { as: "bob" })).toBe("authenticated 2");
    expect(await rows("secrets?select=id", { as: "bob" })).toEqual([{ id: 2 }]);
    expect(await rows("secrets?select=id")).toEqual([]);
  });

  test("a role that a function sets", async () => {
    expect(await rows("rpc/become", { body: { name: "anon" }, as: "ada" })).toBe("anon");
    expect(await rows("rpc/become", { body: { name: "authenticated" } })).toBe("authenticated");
  });

  test("a role that a function resets", async () => {
    expect(await rows("rpc/unbecome", { method: "POST", as: "ada" })).toMatch(/_data$/);
  });

  test("a role that the login may not set, which is refused", async () => {
    for (const name of ["service_role", "auth_owner", "postgres"])
      expect(await failure("rpc/become", { body: { name }, as: "admin" })).toEqual([403, "42501"]);
    expect(await failure("rpc/become", { body: { name: "admin" }, as: "ada" })).toEqual([403, "42501"]);
  });

  test.each([
    ["request.jwt.claims", '{"sub": "1", "role": "admin"}'],
    ["role", "authenticated"],
    ["search_path", "auth_private"],
    ["statement_timeout", "1"],
    ["response.status", "418"],
    ["response.headers", '[{"X-Left": "behind"}]'],
    ["request.headers", '{"x-admin": "yes"}'],
  ])("the session setting %s", async (name, value) => {
    await rest("rpc/keep", { body: { name, value }, as: "ada" });
    const { status, headers } = await rest("rpc/whoami");
    expect([status, headers.get("x-left")]).toEqual([200, null]);
    expect(await rows(`rpc/stored?name=${name}`)).not.toBe(value);
    expect((await rest("secrets?id=eq.2", { method: "PATCH", body: { code: 8 }, as: "bob" })).status).toBe(204);
  });
});

describe("a read never writes", () => {
  test.each<[what: string, path: string, sent?: RestSent]>([
    ["GET of a function that writes", "rpc/writes"],
    ["HEAD of a function that writes", "rpc/writes", { method: "HEAD" }],
    ["GET of a stable function that calls a function that writes", "rpc/writes_stably"],
    ["POST of a stable function that calls a function that writes", "rpc/writes_stably", { method: "POST" }],
    ["GET of a view that calls a function that writes", "writing"],
    [
      "HEAD with a count of a view that calls a function that writes",
      "writing?id=eq.9",
      { method: "HEAD", prefer: "count=exact" },
    ],
  ])("so %s is 405", async (_what, path, sent) => {
    const before = await contents();
    const answer = await rest(path, sent);
    expect([answer.status, answer.json?.code]).toEqual([405, sent?.method === "HEAD" ? undefined : "25006"]);
    expect(await contents()).toEqual(before);
  });
});

describe("rows that a policy hides", () => {
  test.each([
    "secrets?leak=eq.x",
    "secrets?select=leak",
    "secrets?select=id&order=leak",
    "secrets?select=leak.max()",
    "secrets?text=match.[&id=eq.1",
    "secrets?select=text::int",
    "secrets?or=(leak.is.null,id.eq.5)",
    "secrets?payload->>a=eq.1&select=leak::int",
  ])("are not passed to functions or revealed by errors for %s", async (path) => {
    expect((await rest(path)).text).not.toContain("secret of");
    const { text } = await rest(path, { as: "ada" });
    expect(text).not.toContain("secret of Bob");
    expect((await rest(path, { prefer: "count=exact" })).text).not.toContain("secret of");
  });

  test.each<[what: string, body: object, code: string]>([
    ["a duplicate key", { id: 2, owner_id: 1 }, "23505"],
    ["a duplicate unique value", { id: 3, owner_id: 1, text: "secret of Bob" }, "23505"],
    ["a check constraint", { id: 3, owner_id: 1, text: "no", payload: { a: "mine" } }, "23514"],
    ["a null column", { id: 3, owner_id: 1, code: null, text: "mine" }, "23502"],
    ["a policy", { id: 3, owner_id: 2, text: "mine" }, "42501"],
  ])("are not revealed by an error about %s", async (_what, body, code) => {
    const { json, text } = await rest("secrets", { body, as: "ada" });
    expect(json.code).toBe(code);
    // The column at most: it is one of the body.
    expect(json.details ?? "").toMatch(/^(in \w+)?$/);
    expect(text).not.toMatch(/secret of|mine/);
  });
});

describe("response settings of functions", () => {
  const given = (headers: string) => ["rpc/sets_headers", { body: { headers } }] as const;
  test.each([
    '[{"X-Split": "a\\r\\nX-Injected: yes"}]',
    '[{"X-Split": "a\\nX-Injected: yes"}]',
    '[{"X-Split\\r\\nX-Injected": "yes"}]',
    '[{"X-Split: yes\\r\\n\\r\\nX-Injected": ""}]',
    '[{"X-Split": "a\\u0000"}]',
    '[{"": "a"}]',
    '[{"Content-Length": "1"}]',
    '[{"Transfer-Encoding": "chunked"}]',
    '[{"Connection": "close"}]',
  ])("cannot change the message framing with %s", async (headers) => {
    expect(await failure(...given(headers))).toEqual([500, "PGRST111"]);
    const [asObject] = JSON.parse(headers);
    const message = '{"code": "X", "message": "x"}';
    const detail = JSON.stringify({ status: 400, headers: asObject, status_text: "a\r\nX-Injected: yes" });
    expect(await failure("rpc/raises", { body: { message, detail } })).toEqual([500, "PGRST121"]);
  });

  test("cannot inject text with the reason phrase", async () => {
    const detail = JSON.stringify({ status: 400, headers: {}, status_text: "a\r\nX-Injected: yes" });
    const answer = await rest("rpc/raises", {
      body: { message: '{"code": "a\\r\\nX-Injected: yes", "message": "x"}', detail },
    });
    expect(answer.status).toBe(400);
    expect(answer.headers.has("x-injected")).toBe(false);
  });
});

describe("error messages", () => {
  test.each<[path: string, sent?: RestSent]>([
    ["articles?id=eq.x"],
    ["articles?title=eq(any).{"],
    ["articles?select=id,users(id,articles(title::int))"],
    ["articles?select=title.sum()"],
    ["articles?title=fts(english).a b"],
    ["articles?select=id&order=tags->0.desc&title=cs.{a}"],
    ["articles?author_id=eq.1", { method: "PATCH", body: { title: "x" }, as: "ada" }],
    ["comments", { body: { article_id: 99, content: "x" }, as: "ada", prefer: "return=representation" }],
    ["users?on_conflict=name", { body: { name: "x", email: "x@y.example" }, prefer: "resolution=merge-duplicates" }],
    ["rpc/fails?secret=leaked"],
    ["rpc/raises?message={&detail={"],
    ["rpc/sets_headers?headers={"],
    ["articles?id=eq.1&select=status::int", OBJECT],
  ])("do not reveal SQL or connection details for %s", async (path, sent) => {
    const { status, text } = await rest(path, sent);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(text).not.toMatch(
      /\$\d|json_agg|set_config|coalesce|with changed|select |postgres:|_data|leaked|node_modules/i,
    );
  });
});

describe("credentials", () => {
  test.each<[what: string, headers: Record<string, string>, status: number]>([
    ["with the service key and a browser's Origin", { origin: "https://app.example" }, 403],
    ["with the service key and the origin null of a sandboxed page", { origin: "null" }, 403],
  ])("%s are refused", async (_what, headers, status) => {
    expect(await failure("articles", { as: "service", headers })).toEqual([status, "42501"]);
    expect((await rest("articles", { headers })).status).toBe(200);
  });

  test("of two different callers are refused, whichever of them has more rights", async () => {
    const { tokens } = service().service;
    const as = (apikey: string, token: string) =>
      failure("articles", { headers: { apikey, authorization: `Bearer ${token}` } });
    const [anon, key] = [tokens.issueKey("anon"), tokens.issueKey("service_role")];
    expect(await as(key, service().token("ada"))).toEqual([401, "PGRST301"]);
    expect(await as(key, anon)).toEqual([401, "PGRST301"]);
    expect(await as(anon, "garbage")).toEqual([401, "PGRST301"]);
  });

  test("do not include the session cookie", async () => {
    const headers = { apikey: "", cookie: "SESSION=anything" };
    expect(await failure("articles", { headers })).toEqual([401, "PGRST302"]);
  });

  test("in two Authorization headers are refused, as is an absolute URL", async () => {
    const apikey = service().service.tokens.issueKey("anon");
    const ask = async (target: string, ...headers: string[]) => {
      const raw = await openRaw(service().url);
      raw.write([`GET ${target} HTTP/1.1`, "Host: x", `apikey: ${apikey}`, ...headers, "\r\n"].join("\r\n"));
      return (await raw.head()).status;
    };
    const bearer = `Authorization: Bearer ${service().token("ada")}`;
    expect(await ask("/rest/v1/articles", bearer)).toBe(200);
    expect(await ask("/rest/v1/articles", bearer, bearer)).toBe(400);
    expect(await ask("http://elsewhere/rest/v1/articles", bearer)).toBe(400);
  });

  test("never reach the database, where any function could store them", async () => {
    const key = service().service.tokens.issueKey("anon");
    const headers = { cookie: "SESSION=leaked; theme=dark", "x-api-key": key, "x-other": "seen" };
    const seen = await rows("rpc/stored?name=request.headers", { as: "ada", headers });
    expect(JSON.parse(seen)).toMatchObject({ "x-other": "seen" });
    expect(seen).not.toMatch(/leaked|apikey|authorization|eyJ/);
    expect(JSON.parse(await rows("rpc/stored?name=request.cookies", { as: "ada", headers }))).toEqual({
      theme: "dark",
    });
    expect(await rows("rpc/stored?name=request.path", { as: "ada", headers })).toBe("/rpc/stored");
  });
});

test("operators, functions and types of an exposed schema do not shadow the built-in ones", async () => {
  expect(
    await rows("articles?id=eq.1&select=id,title::text,users(id),comments(count())&author_id=neq.7&order=id"),
  ).toEqual([{ id: 1, title: "Notes on the Analytical Engine", users: { id: 1 }, comments: [{ count: 2 }] }]);
  expect(await rows("articles?title=fts.engine&select=id&id=in.(1,2)", { prefer: "count=exact" })).toEqual([{ id: 1 }]);
  expect(await rows("rpc/search?select=id&limit=1", { body: { keyword: "engine" }, prefer: "count=exact" })).toEqual([
    { id: 1 },
  ]);
});

test("the log contains no key, token, cookie, value, argument or body of a request", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "security-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const settings = { DATABASE_URL: service().database.url, JWT_SECRET, LOG_LEVEL: "trace", GRAPHQL_DOCUMENTS: "none" };
  const command = nodeStart({ dataDir, settings });
  await command.ready();

  const tokens = new Tokens({
    secret: JWT_SECRET,
    privateKey: "",
    audience: "",
    anonymousRole: "anon",
    accessSeconds: 3600,
  });
  const key = tokens.issueKey("service_role");
  const ask = async (path: string, more: Record<string, string> = {}, body?: string) => {
    const headers = { apikey: key, cookie: "SESSION=leaked-cookie", "content-type": "application/json", ...more };
    const response = await fetch(`${command.url}/rest/v1/${path}`, { headers, method: body ? "POST" : "GET", body });
    return response.status;
  };
  expect(await ask("secrets?text=eq.leaked-value&api_key=eq.leaked-query")).toBe(400);
  expect(await ask("secrets?text=eq.leaked-value")).toBe(200);
  expect(await ask("secrets", { apikey: "leaked-key" })).toBe(401);
  expect(await ask("secrets", { authorization: "Bearer leaked-token" })).toBe(401);
  expect(await ask("secrets", { prefer: "handling=strict, leaked=header" })).toBe(400);
  expect(await ask("secrets", { "x-api-key": "leaked-key" })).toBe(401);
  expect(await ask("secrets", {}, '{"id": 1, "owner_id": 1, "text": "leaked-body"}')).toBe(409);
  expect(await ask("secrets", {}, '{"text": "leaked-body"')).toBe(400);
  expect(await ask("rpc/fails?secret=leaked-argument")).toBe(500);
  expect(await ask("rpc/fails", {}, '{"secret": "leaked-body"}')).toBe(500);
  process.kill(command.pid, "SIGTERM");
  expect(await command.exited()).toBe(0);

  expect(command.logged.filter(({ msg }) => msg === "request")).toHaveLength(10);
  expect(command.logged.filter(({ msg }) => msg === "unhandled error")).toHaveLength(2);
  const logs = command.logged.map((line) => JSON.stringify(line)).join("\n") + command.stderr;
  expect(logs).not.toContain("leaked");
  expect(logs).not.toContain(key);
});

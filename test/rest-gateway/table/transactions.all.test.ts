import { describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const DDL = `
  create schema tx;
  create schema "odd ""schema""";
  create schema extra;
  create schema checks;
  create function tx.setting(name text) returns text language sql stable return current_setting(name, true);
  create function tx.json_setting(name text) returns json language sql stable return current_setting(name, true)::json;
  create function tx.who() returns json language sql stable return json_build_object('role', current_user, 'login', session_user);
  create function tx.writable() returns text language sql volatile return current_setting('transaction_read_only');
  create function tx.isolated() returns text language sql stable set default_transaction_isolation = 'repeatable read'
    return current_setting('transaction_isolation');
  create function tx.serializable() returns text language sql volatile set default_transaction_isolation = serializable
    return current_setting('transaction_isolation');
  create function tx.patient() returns text language sql stable set statement_timeout = '7s'
    return current_setting('statement_timeout');
  create function tx.roomy() returns text language sql stable set work_mem = '7MB' return current_setting('work_mem');
  create function tx.keep(name text, value text) returns text language sql volatile return set_config(name, value, false);
  create function extra.helped() returns text language sql stable return 'by the extra search path';
  create function tx.helped_here() returns text language plpgsql stable as 'begin return helped(); end';
  create table tx.notes (id int primary key, text text);
  create table tx.moments (at timestamptz);
  create function tx.leaves(tx.moments) returns text language sql stable return set_config('app.tenant', '9', false);
  insert into tx.moments values ('2024-07-01T12:00:00Z');
  create function "odd ""schema""".here() returns text language sql stable return current_setting('search_path');

  create function checks.before() returns void language plpgsql as $$
  declare header text := current_setting('request.headers', true)::json ->> 'x-do';
  begin
    if header = 'raise' then raise insufficient_privilege using message = 'not today', hint = 'Come tomorrow.'; end if;
    if header = 'pay' then raise sqlstate 'PT402' using message = 'Payment needed'; end if;
    if header = 'reply' then perform set_config('response.headers', '[{"X-Checked": "yes"}]', true); end if;
    if header = 'set' then perform set_config('app.checked', current_user || ' ' || current_setting('request.path'), true); end if;
    if header = 'become' then perform set_config('role', current_setting('request.headers', true)::json ->> 'x-role', true); end if;
    if header = 'write' then insert into tx.notes values (99, 'before'); end if;
  end $$;

  do $$
  declare setting text;
  begin
    foreach setting in array array[
      $q$statement_timeout = '3s'$q$, $q$work_mem = '9MB'$q$, $q$app.plan = 'a, b'$q$, $q$search_path = pg_catalog$q$,
      $q$default_transaction_isolation = serializable$q$, $q$log_min_duration_statement = '1h'$q$
    ] loop
      execute format('alter role authenticated in database %I set ', current_database()) || setting;
    end loop;
  end $$;

  grant usage on schema tx, extra, checks, "odd ""schema""" to anon, authenticated, service_role;
  grant all on tx.notes, tx.moments to anon, authenticated, service_role;
  grant execute on all functions in schema tx, extra, checks, "odd ""schema""" to anon, authenticated, service_role;`;

const settings = {
  DB_SCHEMAS: 'tx,odd "schema"',
  DB_EXTRA_SEARCH_PATH: "extra, public",
  DB_POOL: "1",
  PGRST_APP_SETTINGS_tenant: "7; drop table tx.notes",
};
const { rest, rows, failure, service } = useRest(settings, DDL);

/** The session setting that a function of the request reads. */
const setting = (name: string, sent: RestSent = {}) => rows(`rpc/setting?name=${encodeURIComponent(name)}`, sent);
const jsonSetting = (name: string, sent: RestSent = {}) => rows(`rpc/json_setting?name=${name}`, sent);

describe("a transaction has", () => {
  test.each<[RestSent["as"], string, string]>([
    [undefined, "anon", "_data"],
    ["ada", "authenticated", "_data"],
    ["admin", "admin", "_admin"],
    ["service", "service_role", "_service"],
  ])("the role of the caller: %s has the role %s", async (as, role, login) => {
    expect(await rows("rpc/who", as ? { as } : {})).toEqual({ role, login: `${service().database.name}${login}` });
  });

  test("the claims of the token, or of an anonymous caller", async () => {
    expect(await jsonSetting("request.jwt.claims", { as: "ada" })).toMatchObject({
      sub: "1",
      name: "Ada Lovelace",
      role: "authenticated",
      iss: "content-service",
    });
    expect(await jsonSetting("request.jwt.claims", { as: "service" })).toMatchObject({ role: "service_role" });
    expect(await jsonSetting("request.jwt.claims")).toMatchObject({ role: "anon" });
  });

  test("the method and the path", async () => {
    expect(await setting("request.method")).toBe("GET");
    expect(await rows("rpc/setting", { body: { name: "request.method" } })).toBe("POST");
    expect(await setting("request.path")).toBe("/rpc/setting");
  });

  test("headers and cookies without credentials", async () => {
    const headers = {
      "x-custom": 'a "b"',
      "user-agent": "test",
      cookie: 'SESSION=secret; theme="dark"; empty=; theme=light; odd',
      "x-api-key": service().service.tokens.issueKey("anon"),
      "proxy-authorization": "secret",
      "x-csrf-token": "secret",
    };
    const seen = await jsonSetting("request.headers", { as: "ada", headers });
    expect(seen).toMatchObject({ "x-custom": 'a "b"', "user-agent": "test" });
    expect(Object.keys(seen)).not.toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^(authorization|apikey|cookie|x-api-key|proxy-authorization|x-csrf-token)$/),
      ]),
    );
    expect(JSON.stringify(seen)).not.toMatch(/secret|eyJ/);
    expect(await jsonSetting("request.cookies", { as: "ada", headers })).toEqual({ theme: "dark", empty: "" });
    expect(await jsonSetting("request.cookies")).toEqual({});
  });

  test("the application settings", async () => {
    expect(await setting("app.settings.tenant")).toBe("7; drop table tx.notes");
  });

  test("the requested time zone", async () => {
    expect(await setting("timezone", { prefer: "timezone=Asia/Tokyo" })).toBe("Asia/Tokyo");
    expect(await rows("moments", { prefer: "timezone=Asia/Tokyo" })).toEqual([{ at: "2024-07-01T21:00:00+09:00" }]);
    expect(await failure("moments", { prefer: "timezone=Mars/Olympus" })).toEqual([400, "22023"]);
  });

  test("a search path of the exposed schema and DB_EXTRA_SEARCH_PATH", async () => {
    expect(await setting("search_path")).toBe('"tx", "extra", "public"');
    expect(await rows("rpc/helped_here")).toBe("by the extra search path");
    const headers = { "accept-profile": 'odd "schema"' };
    expect(await rows("rpc/here", { headers })).toBe('"odd ""schema""", "extra", "public"');
  });

  test("the access mode read only for reads and read write for writes", async () => {
    expect(await setting("transaction_read_only")).toBe("on");
    expect(await rows("rpc/setting", { body: { name: "transaction_read_only" } })).toBe("on");
    expect(await rows("rpc/writable", { method: "POST" })).toBe("off");
  });

  test("the statement timeout", async () => {
    expect(await setting("statement_timeout")).toBe("10s");
    expect(await setting("statement_timeout", { as: "service" })).toBe("10s");
  });
});

describe("with the session settings of the function,", () => {
  test.each([
    ["isolated", "repeatable read"],
    ["serializable", "serializable"],
    ["patient", "7s"],
    ["roomy", "7MB"],
  ])("%s runs with %s", async (name, value) => {
    expect(await rows(`rpc/${name}`, { method: "POST" })).toBe(value);
    expect(await setting("transaction_isolation")).toBe("read committed");
    expect(await setting("statement_timeout")).toBe("10s");
  });
});

describe("the session settings of a role", () => {
  test.each([
    ["statement_timeout", "3s", "10s"],
    ["work_mem", "9MB", "4MB"],
    ["app.plan", "a, b", ""],
    ["transaction_isolation", "serializable", "read committed"],
  ])("apply to its callers: %s is %s, and %s for others", async (name, own, other) => {
    expect(await setting(name, { as: "ada" })).toBe(own);
    expect((await setting(name)) ?? "").toBe(other);
    expect(await setting(name, { as: "bob" })).toBe(own);
  });

  test("are overridden by the session settings of a function", async () => {
    expect(await rows("rpc/patient", { as: "ada" })).toBe("7s");
    expect(await rows("rpc/isolated", { as: "ada" })).toBe("repeatable read");
  });

  test("do not include the search path", async () => {
    expect(await setting("search_path", { as: "ada" })).toBe('"tx", "extra", "public"');
  });

  test("are ignored if only a superuser may set them", async () => {
    expect(await setting("log_min_duration_statement", { as: "ada" })).toBe("-1");
  });
});

describe("the connection keeps no state of a request:", () => {
  test("callers that share it have only their own claims and cookies", async () => {
    const callers = [undefined, "ada", "admin", "bob", undefined, "ada"] as const;
    const names = { ada: "1", bob: "2", admin: "3" };
    for (const as of callers) {
      const headers = { cookie: `who=${as}` };
      const claims = await jsonSetting("request.jwt.claims", as ? { as, headers } : { headers });
      expect(claims.sub).toBe(as && names[as]);
      expect(await jsonSetting("request.cookies")).toEqual({});
    }
  });

  test("preferences end with the request", async () => {
    await rows("moments", { prefer: "timezone=Asia/Tokyo" });
    expect(await rows("moments")).toEqual([{ at: "2024-07-01T12:00:00+00:00" }]);
  });

  test.each([
    ["role", "anon"],
    ["request.jwt.claims", "{}"],
    ["search_path", "pg_catalog"],
    ["statement_timeout", "900"],
    ["work_mem", "7MB"],
    ["app.tenant", "8"],
    ["transaction_read_only", "off"],
    ["app.settings.tenant", "8"],
    ["request.cookies", '{"a":"b"}'],
  ])("the setting %s that a function sets ends with the request", async (name, value) => {
    // Each token has a different id and times.
    const seen = async () =>
      ((await setting(name, { as: "ada" })) ?? "").replace(/"(jti|iat|exp|auth_time)":[^,}]*/g, "");
    const before = await seen();
    await rest("rpc/keep", { as: "ada", body: { name, value } });
    expect(await seen()).toBe(before);
    expect(await rows("rpc/who", { as: "ada" })).toMatchObject({ role: "authenticated" });
  });

  test.each(["rpc/keep?name=app.tenant&value=9", "moments?select=leaves"])(
    "a setting that a function sets during the read %s ends with the request",
    async (path) => {
      expect(JSON.stringify(await rows(path, { as: "ada" }))).toContain('"9"');
      expect(await setting("app.tenant", { as: "bob" })).toBe("");
    },
  );

  test("a failed request leaves nothing", async () => {
    const body = [
      { id: 1, text: "a" },
      { id: 1, text: "b" },
    ];
    expect(await failure("notes", { body })).toEqual([409, "23505"]);
    expect(await rows("notes")).toEqual([]);
    expect(await setting("transaction_isolation")).toBe("read committed");
  });
});

describe("DB_PRE_REQUEST", () => {
  const checked = useRest({ ...settings, DB_PRE_REQUEST: "checks.before" }, DDL);
  const does = (what: string) => ({ headers: { "x-do": what } });

  test("may refuse a request with any error that functions can raise", async () => {
    const { status, json, headers } = await checked.rest("notes", { as: "ada", ...does("raise") });
    expect([status, json]).toEqual([
      403,
      { code: "42501", message: "not today", details: null, hint: "Come tomorrow." },
    ]);
    expect(headers.get("proxy-status")).toBe("content-service; error=42501");
    expect(await checked.failure("notes", does("raise"))).toEqual([401, "42501"]);
    expect(await checked.failure("rpc/who", { body: {}, ...does("pay") })).toEqual([402, "PT402"]);
  });

  test("may refuse a stream that continues", async () => {
    const position = (await checked.rest("notes")).headers.get("change-position")!;
    const headers = { accept: "text/event-stream", "last-event-id": position, "x-do": "raise" };
    expect(await checked.failure("notes", { headers })).toEqual([401, "42501"]);
  });

  test("stops a write before it happens", async () => {
    expect(await checked.failure("notes", { body: { id: 1 }, ...does("raise") })).toEqual([401, "42501"]);
    expect(await checked.rows("notes")).toEqual([]);
  });

  test("sees the caller and the request, and may set response headers", async () => {
    const sent = { as: "ada", ...does("set") } as const;
    expect(await checked.rows("rpc/setting?name=app.checked", sent)).toBe("authenticated /rpc/setting");
    expect((await checked.rest("notes", does("reply"))).headers.get("x-checked")).toBe("yes");
    expect((await checked.rest("notes")).headers.get("x-checked")).toBeNull();
  });

  test("may change the role to another one of its login", async () => {
    const become = (role: string) => ({ headers: { "x-do": "become", "x-role": role } });
    expect(await checked.rows("rpc/who", { as: "ada", ...become("anon") })).toMatchObject({ role: "anon" });
    expect((await checked.rest("rpc/who", { as: "ada", ...become("admin") })).status).toBe(403);
    expect((await checked.rest("rpc/who", become("service_role"))).status).toBe(401);
    expect(await checked.rows("rpc/who", { as: "ada" })).toMatchObject({ role: "authenticated" });
  });

  test("may write if the request may write", async () => {
    expect(await checked.failure("notes", does("write"))).toEqual([405, "25006"]);
    const written = await checked.rest("notes", { body: { id: 1 }, ...does("write") });
    expect(written.status).toBe(201);
    expect(await checked.sql("select id from tx.notes order by id")).toEqual([{ id: 1 }, { id: 99 }]);
  });
});

describe.each([
  ["commit", true],
  ["rollback", false],
])("DB_TX_END=%s applies", (end, isKept) => {
  const ended = useRest({ ...settings, DB_TX_END: end }, DDL);

  test.each([undefined, "tx=commit", "tx=rollback"])("with the preference %s", async (tx) => {
    const prefer = ["return=representation", tx].filter(Boolean).join(", ");
    const { status, json, headers } = await ended.rest("notes", { body: { id: 1, text: "a" }, prefer });
    expect([status, json]).toEqual([201, [{ id: 1, text: "a" }]]);
    expect(headers.get("preference-applied")).toBe("return=representation");
    expect(await ended.sql("delete from tx.notes returning id")).toEqual(isKept ? [{ id: 1 }] : []);
  });
});

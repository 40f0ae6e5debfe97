import jwt from "jsonwebtoken";
import pino from "pino";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startService } from "../../../server.ts";
import { readConfig } from "../../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { healthOf } from "../../support/service.ts";

const SECRET = "the secret of another issuer for HS256";
const sign = (claims: object, secret = SECRET) => jwt.sign(claims, secret, { noTimestamp: true });

/** The name of a table and of one of its columns. */
const NAMES: [table: string, column: string][] = [
  ["rpc", "select"],
  ["types.ts", "order"],
  ["constructor", "__proto__"],
  ["__proto__", "constructor"],
  ["select", "limit"],
  ['with "quotes"', 'a "b"'],
  ["a.dot", "c.d"],
  ["with space", "x y"],
  ["UPPER", "Mixed"],
  ["日本語", "列"],
  ["a,b(c)", "d,e(f)"],
  ["a/b", "a->b"],
  ["a+b&c=d", "e&f=g"],
  ["100%", "50%25"],
  ["a:b", "x::y"],
  ["''", "'"],
  ["*", "*"],
  ["$1", "$1"],
  ["not", "not"],
  ["é", "and"],
  ["x".repeat(63), "ü".repeat(31)],
];
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** A database of another application, with roles, which belong to the whole cluster. */
type Foreign = TestDatabase & { readonly login: string; readonly anon: string; readonly editor: string };

const noChanges = ({ login }: Foreign) => ({
  changes: {
    state: "unavailable",
    reason:
      `changes cannot be read, because the login ${login} may not replicate, and should not, because it serves requests. A superuser ` +
      `can create another login: create role ${login.replace(/_authenticator$/, "")}_changes login replication password '…'; its ` +
      "connection URL is the setting CHANGES_URL",
  },
  schemaChanges: expect.stringContaining("not announced by this database"),
});

async function createForeign(ddl: (roles: Foreign) => string): Promise<Foreign> {
  const database = await createTestDatabase();
  const { name, owner } = database;
  const roles = { login: `${name}_authenticator`, anon: `${name}_web_anon`, editor: `${name}_editor` };
  await owner.query(`
    drop event trigger announce_schema_change;
    drop event trigger announce_schema_drop;
    create role ${roles.anon}; create role ${roles.editor};
    create role ${roles.login} login noinherit password 'secret';
    grant ${roles.anon}, ${roles.editor} to ${roles.login};
    create schema api;
    grant usage on schema api to ${roles.anon}, ${roles.editor};`);
  const drop = async () => {
    for (const role of Object.values(roles)) await owner.query(`drop owned by ${role}; drop role ${role}`);
    await database.drop();
  };
  const foreign = { ...database, ...roles, drop };
  await owner.query(ddl(foreign));
  return foreign;
}

/** The service on that database, with the environment variables of PostgREST. */
async function serve({ url, login, anon }: Foreign, settings: Readonly<Record<string, string>> = {}) {
  const address = new URL(url);
  address.username = login;
  address.password = "secret";
  const logged: { level: number; err?: { message: string } }[] = [];
  const log = pino({ level: "error" }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const config = readConfig({
    PGRST_DB_URI: address.href,
    PGRST_DB_SCHEMAS: "api",
    PGRST_DB_ANON_ROLE: anon,
    PGRST_JWT_SECRET: SECRET,
    PGRST_SERVER_HOST: "127.0.0.1",
    PGRST_SERVER_PORT: "0",
    // /health and the log would have its findings.
    ADVISOR: "off",
    ...settings,
  });
  const service = await startService(config, log);
  const get = async (path: string, token?: string, init: RequestInit = {}) => {
    const headers = {
      ...(token && { authorization: `Bearer ${token}` }),
      "content-type": "application/json",
      ...init.headers,
    };
    const response = await fetch(`${service.url}${path}`, { ...init, headers });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
  };
  return { service, logged, get };
}

describe("with a database that it does not migrate, the service", () => {
  let foreign: Foreign;
  let running: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    foreign = await createForeign(
      ({ anon, editor }) => `
      create table api.posts (id int primary key, title text, is_public boolean);
      create table api.drafts (id int primary key);
      alter table api.posts enable row level security;
      create policy "readers" on api.posts for select to ${anon} using (is_public);
      create policy "editors" on api.posts to ${editor} using (true) with check (true);
      insert into api.posts values (1, 'open', true), (2, 'hidden', false);
      create function api.who() returns json language sql stable
        return json_build_object('role', current_user, 'login', session_user, 'sub', current_setting('request.jwt.claims')::json -> 'sub');
      create function api.sent() returns json language sql stable return current_setting('request.headers')::json;
      grant execute on function api.sent() to ${anon}, ${editor};
      grant select on api.posts to ${anon};
      grant all on api.posts, api.drafts to ${editor};
      grant execute on function api.who() to ${anon}, ${editor};
      ${NAMES.map(
        ([table, column]) => `
          create table api.${quoted(table)} (id int primary key, ${quoted(column)} text, parent int references api.${quoted(table)});
          insert into api.${quoted(table)} values (1, 'one', null), (2, 'two', 1);
          grant all on api.${quoted(table)} to ${anon};`,
      ).join("")}`,
    );
    running = await serve(foreign);
    return async () => {
      await running.service.stop();
      await foreign.drop();
    };
  });

  test("serves callers without credentials as the anonymous role, without a key", async () => {
    expect((await running.get("/rest/v1/posts?select=id")).json).toEqual([{ id: 1 }]);
    expect((await running.get("/rest/v1/rpc/who")).json).toEqual({
      role: foreign.anon,
      login: foreign.login,
      sub: null,
    });
  });

  test("serves callers with a token as the role in the token", async () => {
    const editor = sign({ role: foreign.editor, sub: "auth0|7" });
    expect((await running.get("/rest/v1/posts?select=id&order=id", editor)).json).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await running.get("/rest/v1/rpc/who", editor)).json).toMatchObject({
      role: foreign.editor,
      sub: "auth0|7",
    });
    const body = JSON.stringify({ id: 3, title: "new" });
    expect((await running.get("/rest/v1/posts", editor, { method: "POST", body })).status).toBe(201);
    expect((await running.get("/rest/v1/posts?id=eq.3", editor, { method: "DELETE" })).status).toBe(204);
  });

  test("serves a token without a role as the anonymous role", async () => {
    expect((await running.get("/rest/v1/rpc/who", sign({ sub: "7" }))).json).toMatchObject({
      role: foreign.anon,
      sub: "7",
    });
  });

  test.each<[what: string, token: () => string, status: number, code: string]>([
    ["the login may not set its role", () => sign({ role: "postgres" }), 403, "42501"],
    ["its role is the login itself", () => sign({ role: foreign.login }), 403, "42501"],
    ["its role does not exist", () => sign({ role: `${foreign.name}_missing` }), 401, "22023"],
    ["its role is the word none", () => sign({ role: "none" }), 401, "PGRST303"],
    ["it is signed with another secret", () => sign({ role: foreign.editor }, `${SECRET}!`), 401, "PGRST301"],
    ["it is not signed", () => jwt.sign({ role: foreign.editor }, "", { algorithm: "none" }), 401, "PGRST301"],
    ["it has expired", () => sign({ role: foreign.editor, exp: Math.floor(Date.now() / 1000) - 60 }), 401, "PGRST303"],
  ])("rejects a token if %s", async (_what, token, status, code) => {
    const answer = await running.get("/rest/v1/posts", token());
    expect([answer.status, answer.json.code]).toEqual([status, code]);
  });

  test("rejects a token whose role does not exist on GraphQL too", async () => {
    const role = `${foreign.name}_missing`;
    const body = JSON.stringify({ query: "{ posts { totalCount } }" });
    const { json } = await running.get("/graphql", sign({ role }), { method: "POST", body });
    const message = `the token has the role "${role}", which does not exist in the database`;
    expect(json.errors).toMatchObject([{ message, extensions: { code: "AUTH_REQUIRED" } }]);
  });

  test("names the claim that fails, in the body and in WWW-Authenticate", async () => {
    const later = Math.floor(Date.now() / 1000) + 600;
    const { status, json, headers } = await running.get("/rest/v1/posts", sign({ role: foreign.editor, nbf: later }));
    expect([status, json.code, json.message]).toEqual([401, "PGRST303", "JWT not yet valid"]);
    expect(headers.get("www-authenticate")).toBe('Bearer error="invalid_token", error_description="JWT not yet valid"');
  });

  test("tolerates a clock difference of half a minute", async () => {
    const token = sign({ role: foreign.editor, exp: Math.floor(Date.now() / 1000) - 10 });
    expect((await running.get("/rest/v1/drafts", token)).status).toBe(200);
  });

  test("responds to a missing privilege with 401 for anonymous callers and 403 for signed-in callers", async () => {
    expect((await running.get("/rest/v1/drafts")).status).toBe(401);
    const body = JSON.stringify({ id: 9 });
    expect((await running.get("/rest/v1/posts", undefined, { method: "POST", body })).status).toBe(401);
    expect((await running.get("/rest/v1/posts", sign({ role: foreign.editor }), { method: "DELETE" })).status).toBe(
      204,
    );
  });

  test("passes all headers to functions, the token and cookies included, unless DB_REQUEST_CREDENTIALS is off", async () => {
    const token = sign({ role: foreign.editor });
    const sent = { apikey: token, cookie: "SESSION=a; theme=dark" };
    const { json } = await running.get("/rest/v1/rpc/sent", token, { headers: sent });
    expect(json).toMatchObject({ ...sent, authorization: `Bearer ${token}` });

    const { service, get } = await serve(foreign, { DB_REQUEST_CREDENTIALS: "off" });
    onTestFinished(() => service.stop());
    const hidden = (await get("/rest/v1/rpc/sent", token, { headers: sent })).json;
    expect(Object.keys(hidden)).not.toEqual(expect.arrayContaining(["authorization", "apikey", "cookie"]));
  });

  test("has no sign-in endpoints", async () => {
    expect((await running.get("/auth/login", undefined, { method: "POST", body: "{}" })).status).toBe(404);
  });

  describe.each(NAMES)("the table %j with the column %j", (table, column) => {
    const path = `/rest/v1/${encodeURIComponent(table)}`;
    /** The name in quotes, as clients write it in lists. */
    const name = encodeURIComponent(`"${column.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`);

    test("can be selected, filtered, ordered and embedded", async () => {
      expect((await running.get(`${path}?order=id`)).json).toEqual([
        { id: 1, [column]: "one", parent: null },
        { id: 2, [column]: "two", parent: 1 },
      ]);
      const chosen = await running.get(`${path}?select=${name}&${name}=eq.two&order=${name}.desc`);
      expect(chosen.text).toBe(`[{${JSON.stringify(column)}:"two"}]`);
      const found = await running.get(`${path}?select=id&or=(${name}.eq.one,id.eq.9)`);
      expect(found.json).toEqual([{ id: 1 }]);
      const embedded = await running.get(`${path}?select=id,above:parent(id,${name})&id=eq.2&above.${name}=eq.one`);
      expect(embedded.text).toBe(`[{"id":2,"above":{"id":1,${JSON.stringify(column)}:"one"}}]`);
    });

    test("can be written", async () => {
      const body = `{"id": 3, ${JSON.stringify(column)}: "three"}`;
      const inserted = await running.get(path, undefined, {
        method: "POST",
        body,
        headers: { prefer: "return=headers-only" },
      });
      expect([inserted.status, inserted.headers.get("location")]).toEqual([201, `${path}?id=eq.3`]);
      const changed = await running.get(`${inserted.headers.get("location")}&select=${name}`, undefined, {
        method: "PATCH",
        body: `{${JSON.stringify(column)}: "drei"}`,
        headers: { prefer: "return=representation" },
      });
      expect(changed.text).toBe(`[{${JSON.stringify(column)}:"drei"}]`);
      expect((await running.get(`${path}?${name}=eq.drei`, undefined, { method: "DELETE" })).status).toBe(204);
    });
  });

  test("describes all names in the OpenAPI document", async () => {
    const { status, json } = await running.get("/rest/v1/");
    expect(status).toBe(200);
    const paths = Object.keys(json.paths);
    for (const [table] of NAMES) expect(paths).toContain(`/${encodeURIComponent(table)}`);
  });

  test("serves tables of every name in GraphQL too, but for those whose names become the same one, which /health lists", async () => {
    const body = JSON.stringify({ query: "{ __schema { queryType { fields { type { ofType { name } } } } } }" });
    const { json } = await running.get("/graphql", undefined, { method: "POST", body });
    const lists = json.data.__schema.queryType.fields.filter(({ type }: any) => /Connection$/.test(type.ofType?.name));
    // Both `a:b` and `a/b` become `aB`.
    expect(lists).toHaveLength(NAMES.length - 1 + ["posts", "drafts"].length);
    const { graphql } = (await healthOf(running.service)).details;
    expect(graphql.schema).toBe("current");
    expect(graphql.omissions).toContainEqual(
      expect.stringMatching(/^table api\."a:b": it and table api\."a\/b" lead to the same GraphQL name aB/),
    );
  });
});

test("GRAPHQL_DOCUMENTS=none disables GraphQL on such a database without a log entry", async () => {
  const foreign = await createForeign(
    ({ anon }) => `
      create function api.who() returns json language sql stable return json_build_object('role', current_user);
      grant execute on function api.who() to ${anon};`,
  );
  onTestFinished(() => foreign.drop());
  const { service, get, logged } = await serve(foreign, { GRAPHQL_DOCUMENTS: "none", PARTS: "+explorer" });
  onTestFinished(() => service.stop());
  expect((await get("/rest/v1/rpc/who")).json).toMatchObject({ role: foreign.anon });
  for (const path of ["/graphql", "/graphiql"]) expect((await get(path)).status).toBe(404);
  expect(await healthOf(service)).toEqual({
    status: "ok",
    details: { graphql: { schema: "not served" }, ...noChanges(foreign) },
  });
  expect(logged).toEqual([]);
});

test("a database with more than two thousand tables is served without GraphQL", async () => {
  const foreign = await createForeign(
    ({ anon }) => `
      create table api.table_1 (id int primary key, parent_id int references api.table_1, name text);
      create table api.table_2 (id int primary key, parent_id int references api.table_1, name text);
      do $$ begin
        for i in 3..2001 loop
          execute format('create table api.table_%s (id int, parent_id int)', i);
        end loop;
      end $$;
      insert into api.table_1 values (1, 1, 'first');
      insert into api.table_2 values (1, 1, 'second');
      grant select on all tables in schema api to ${anon};`,
  );
  onTestFinished(() => foreign.drop());
  const { service, get, logged } = await serve(foreign);
  onTestFinished(() => service.stop());
  const { json } = await get("/rest/v1/table_2?select=name,table_1(name)");
  expect(json).toEqual([{ name: "second", table_1: { name: "first" } }]);
  const why = "the database has 2001 tables, more than 2000: serve fewer schemas (DB_SCHEMAS)";
  expect((await get("/graphql?query={__typename}")).status).toBe(503);
  expect(await healthOf(service)).toEqual({
    status: "degraded",
    details: { graphql: { schema: why }, ...noChanges(foreign) },
  });
  expect(logged.map(({ err }) => err?.message)).toContain(why);
});

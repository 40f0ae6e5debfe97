import pino from "pino";
import { beforeAll, describe, expect, test } from "vitest";
import { takeKey } from "../../identity/credentials.ts";
import { newKey } from "../../identity/secrets.ts";
import { useRest } from "../support/rest-client.ts";
import { makeKey } from "./support.ts";

const lines: string[] = [];
const log = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });

const { service, sql } = useRest(
  { GRAPHQL_DOCUMENTS: "none", TASK_CONCURRENCY: "2" },
  `
  create function who() returns json stable language sql
    return json_build_object('role', current_user, 'sub', current_setting('request.jwt.claims')::json -> 'sub');
  create function echo(api_key text default 'nothing') returns text stable language sql return api_key;
  create function address() returns text volatile language sql return current_setting('request.path');
  create table integrations (id int primary key, owner bigint default auth.uid(), api_key text);
  insert into integrations values (1, 1, 'x'), (2, 2, 'y'), (3, 2, 'cs_user_short');
  grant select, delete, insert (id, api_key), update (api_key) on integrations to anon, authenticated;
  grant execute on function who(), echo(text), address() to anon, authenticated, service_role;

  create table internal.kept (request json);
  create function internal.keep() returns trigger language plpgsql security definer as
    $$ begin insert into internal.kept values (new.request); return new; end $$;
  create trigger keep before insert on tasks.tasks for each row execute function internal.keep()`,
  log,
);

let ofAda: string;
let ofBob: string;
let ofService: string;
let anon: string;
beforeAll(async () => {
  [ofAda, ofBob, ofService] = [
    await makeKey(service(), 1),
    await makeKey(service(), 2),
    await makeKey(service(), null),
  ];
  anon = service().service.tokens.issueKey("anon");
});

type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
};

/** Sends these headers and no others. */
async function ask(path: string, { method, headers, body }: Sent = {}) {
  const response = await fetch(`${service().url}${path}`, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = text === "" || !/json/.test(response.headers.get("content-type") ?? "") ? undefined : JSON.parse(text);
  return { status: response.status, headers: response.headers, text, json };
}

const withKey = (text: string, key: string) => text.replaceAll("KEY", key);

test.each([
  ["api_key=KEY", ""],
  ["api_key=KEY&id=eq.1", "id=eq.1"],
  ["id=eq.1&api_key=KEY&select=id", "id=eq.1&select=id"],
  ["api_key=eq.x&api_key=KEY", "api_key=eq.x"],
  ["x=%zz&api_key=KEY&&y", "x=%zz&&y"],
  // The name at Supabase.
  ["select=id&apikey=KEY", "select=id"],
  ["apikey=eq.x&apikey=KEY", "apikey=eq.x"],
  ["api%5Fkey=KEY&id=eq.1", "id=eq.1"],
])("takeKey(%j) leaves %j", (search, left) => {
  const { key } = newKey("user");
  expect(takeKey(withKey(search, key))).toEqual({ apiKey: key, search: left });
});

test.each([
  "",
  "id=eq.1",
  "api_key=eq.KEY",
  "author.api_key=KEY",
  "apikey=eq.KEY",
  "api-key=KEY",
  "key=KEY",
  "api_key",
  "api_key=",
  "api_key=%",
  "api_key=KEY%00",
  "api_key=cs_user_short",
  "api_key=cs_other_0123456789012345678901234567890123456789",
  "api_key=eyJhbGciOiJIUzI1NiJ9",
  "api_key=eyJhbGciOiJIUzI1NiJ9.e30",
  "api_key=eq.eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
  "api_key=in.(eyJhbGciOiJIUzI1NiJ9.e30.c2ln)",
])("takeKey(%j) finds no key", (text) => {
  const search = withKey(text, newKey("anon").key);
  expect(takeKey(search)).toEqual({ apiKey: null, search });
});

test("takeKey finds a signed key", () => {
  const key = "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoiYW5vbiJ9.c2lnbmF0dXJl-_";
  expect(takeKey(`api_key=${key}&id=eq.1`)).toEqual({ apiKey: key, search: "id=eq.1" });
});

test("a key may be percent-encoded, because some clients encode more characters than necessary", () => {
  const { key } = newKey("service");
  const encoded = key.replaceAll("_", "%5F").replaceAll("-", "%2D");
  expect(takeKey(`a=1&api_key=${encoded}`)).toEqual({ apiKey: key, search: "a=1" });
});

describe("/rest/v1 accepts api_key as a credential if it has the form of a key,", () => {
  test.each<[what: string, path: string, sent?: Sent]>([
    ["a function with GET", "rpc/who"],
    ["a function with POST", "rpc/who", { body: {} }],
  ])("for %s", async (_, path, sent) => {
    const url = (key: string) => `/rest/v1/${path}?api_key=${key}`;
    expect((await ask(url(ofAda), sent)).json).toEqual({ role: "authenticated", sub: "1" });
    for (const key of [ofService, service().service.tokens.issueKey("service_role")])
      expect((await ask(url(key), sent)).json).toEqual({ role: "service_role", sub: null });
    expect((await ask(url(anon), sent)).json).toEqual({ role: "anon", sub: null });
  });

  test("for reads, writes and the description of the interface", async () => {
    const ids = async (search: string) => (await ask(`/rest/v1/integrations?${search}`)).json;
    expect(await ids(`api_key=${ofAda}&select=id&id=lt.3&order=id`)).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await ask(`/rest/v1/integrations?api_key=${ofAda}`, { body: { id: 10 } })).status).toBe(201);
    expect(await sql("select owner::int from integrations where id = 10")).toEqual([{ owner: 1 }]);
    const patched = await ask(`/rest/v1/integrations?id=eq.10&api_key=${ofAda}`, {
      method: "PATCH",
      body: { api_key: "z" },
    });
    expect(patched.status).toBe(204);
    expect((await ask(`/rest/v1/integrations?api_key=${ofAda}&id=eq.10`, { method: "DELETE" })).status).toBe(204);
    expect(await sql("select id from integrations where id = 10")).toEqual([]);
    expect((await ask(`/rest/v1/integrations?id=eq.1&api_key=${ofAda}`, { method: "HEAD" })).status).toBe(200);
    for (const path of ["", "openapi.json", "types.ts"])
      for (const name of ["api_key", "apikey"])
        expect((await ask(`/rest/v1/${path}?${name}=${ofAda}`)).status).toBe(200);
  });

  test("and not as a filter: a change without other filters is refused", async () => {
    for (const [method, body] of [["DELETE"], ["PATCH", { api_key: "all" }]] as const) {
      const { status, json } = await ask(`/rest/v1/integrations?api_key=${ofService}`, { method, body });
      expect([status, json.code]).toEqual([400, "21000"]);
    }
  });

  test.each<[what: string, search: () => string, headers: () => Record<string, string>, role: string]>([
    ["the anon key", () => `api_key=${ofAda}`, () => ({ apikey: anon }), "authenticated"],
    ["the same key", () => `api_key=${ofAda}`, () => ({ "x-api-key": ofAda, apikey: ofAda }), "authenticated"],
    [
      "a token of the same user",
      () => `api_key=${ofBob}`,
      () => ({ authorization: `Bearer ${service().token("bob")}` }),
      "authenticated",
    ],
  ])("beside %s", async (_, search, headers, role) => {
    const { status, json } = await ask(`/rest/v1/rpc/who?${search()}`, { headers: headers() });
    expect([status, json.role]).toEqual([200, role]);
  });

  test.each<[what: string, search: () => string, headers: () => Record<string, string>, status: number]>([
    ["that does not exist", () => `api_key=${newKey("user").key}`, () => ({}), 401],
    ["that does not exist, beside the anon key", () => `api_key=${newKey("user").key}`, () => ({ apikey: anon }), 401],
    ["that is sent twice", () => `api_key=${ofAda}&api_key=${ofAda}`, () => ({}), 401],
    ["that is sent with both names", () => `api_key=${ofAda}&apikey=${ofAda}`, () => ({}), 401],
    ["that does not exist, as apikey", () => `apikey=${newKey("user").key}`, () => ({}), 401],
    ["that is not signed", () => "api_key=eyJhbGciOiJub25lIn0.e30.e30", () => ({}), 401],
    ["that is the token of a user", () => `api_key=${service().token("ada")}`, () => ({}), 401],
    [
      "that is of another user than the token",
      () => `api_key=${ofAda}`,
      () => ({ authorization: `Bearer ${ofBob}` }),
      401,
    ],
    ["that is a service key in a browser", () => `api_key=${ofService}`, () => ({ origin: "https://a.example" }), 403],
  ])("but refuses a key %s", async (_, search, headers, expected) => {
    for (const path of ["rpc/who", "integrations", "rpc/echo", "no_such_table", ""]) {
      const { status, text } = await ask(`/rest/v1/${path}?${search()}`, { headers: headers() });
      expect([path, status]).toEqual([path, expected]);
      expect(text).not.toMatch(/cs_|eyJ/);
    }
  });

  test("but refuses a key that has expired or was revoked", async () => {
    const ended = await makeKey(service(), 1, new Date(Date.now() - 1000));
    const revoked = await makeKey(service(), 2);
    await sql(
      "update auth_private.api_keys set revoked_at = now() where key_hash = sha256(convert_to($1, 'UTF8'))",
      revoked,
    );
    for (const key of [ended, revoked]) {
      const { status, json } = await ask(`/rest/v1/rpc/who?api_key=${key}`);
      expect([status, json.code]).toEqual([401, "PGRST301"]);
    }
  });
});

describe("api_key with a value of another form", () => {
  const withAnon = { headers: () => ({ apikey: anon }) };

  test.each<[search: string, ids: number[]]>([
    ["api_key=eq.x", [1]],
    ["api_key=not.eq.x", [2, 3]],
    ["api_key=in.(x,y)", [1, 2]],
    ["api_key=eq.cs_user_short", [3]],
    ["or=(api_key.eq.x,api_key.eq.y)", [1, 2]],
  ])("is a filter by the column of that name, as in %s", async (search, ids) => {
    const path = `/rest/v1/integrations?select=id&order=id&${search}`;
    const expected = ids.map((id) => ({ id }));
    expect((await ask(path, { headers: withAnon.headers() })).json).toEqual(expected);
    expect((await ask(`${path}&api_key=${ofAda}`)).json).toEqual(expected);
  });

  test("is refused if it is not a filter", async () => {
    const { status, json } = await ask("/rest/v1/integrations?api_key=cs_user_short", { headers: withAnon.headers() });
    expect([status, json.code]).toEqual([400, "PGRST100"]);
  });

  test("is the argument of that name of a function, and the function never receives a key", async () => {
    const echo = (search: string, headers = {}) => ask(`/rest/v1/rpc/echo?${search}`, { headers });
    expect((await echo("api_key=abc", { apikey: anon })).json).toBe("abc");
    expect((await echo(`api_key=abc&api_key=${ofAda}`)).json).toBe("abc");
    expect((await echo(`api_key=${ofAda}`)).json).toBe("nothing");
    expect((await echo(`api_key=${ofAda.replaceAll("_", "%5F")}`)).json).toBe("nothing");
    expect((await echo(`api_key=${anon}`)).json).toBe("nothing");
  });
});

describe("the key in the query string", () => {
  const holdsNoKey = ({ headers, text }: { headers: Headers; text: string }) => {
    const response = `${JSON.stringify([...headers])}${text}`;
    for (const key of [ofAda, ofBob, ofService]) expect(response).not.toContain(key.slice("cs_user_".length));
    expect(response).not.toContain("api_key=");
  };

  test("is not in Content-Location", async () => {
    const read = await ask(`/rest/v1/integrations?select=id&api_key=${ofAda}&id=eq.1`);
    expect(read.headers.get("content-location")).toBe("/rest/v1/integrations?id=eq.1&select=id");
    holdsNoKey(read);
    const alone = await ask(`/rest/v1/articles?api_key=${ofAda}`);
    expect(alone.headers.get("content-location")).toBe("/rest/v1/articles");
  });

  test.each<[what: string, path: string, sent?: Sent]>([
    ["a new row with its Location", "integrations?", { body: { id: 20 }, headers: { prefer: "return=headers-only" } }],
    ["an invalid filter", "integrations?id=sounds.like&"],
    ["an unknown table", "no_such_table?"],
    ["an unknown function", "rpc/no_such_function?a=1&"],
    ["an unknown method", "integrations?", { method: "PROPFIND" }],
    ["a request of the OpenAPI description", "?"],
    ["a call of a function that returns its URL", "rpc/address?", { body: {} }],
  ])("is not in the response to %s", async (_, path, sent) =>
    holdsNoKey(await ask(`/rest/v1/${path}api_key=${ofAda}`, sent)),
  );

  test("is not stored with a task", async () => {
    const accepted = await ask(`/rest/v1/rpc/address?select=*&api_key=${ofAda}`, {
      body: {},
      headers: { prefer: "respond-async" },
    });
    expect(accepted.status).toBe(202);
    holdsNoKey(accepted);
    const done = () => ask(accepted.headers.get("location")!, { headers: { "x-api-key": ofAda } });
    await expect.poll(async () => (await done()).json.status).toBe("succeeded");
    expect((await done()).json.result).toBe("/rpc/address");
    expect(await sql("select request ->> 'url' as url from internal.kept")).toEqual([
      { url: "/rest/v1/rpc/address?select=*" },
    ]);
  });

  test("is not in the log", () => {
    const logged = lines.join("");
    expect(logged).toContain("/rest/v1/integrations");
    for (const key of [ofAda, ofBob, ofService]) expect(logged).not.toContain(key.slice("cs_user_".length));
  });
});

describe("on the routes of authentication, where the parameter api_key is the same as the header,", () => {
  test("a key may not change the account", async () => {
    const { status, json } = await ask(`/auth/keys?api_key=${ofAda}`);
    expect([status, json.error.code]).toEqual([403, "PERMISSION_DENIED"]);
  });

  test("an invalid key is refused although the token is valid", async () => {
    const headers = { authorization: `Bearer ${service().token("ada")}` };
    expect((await ask("/auth/keys", { headers })).status).toBe(200);
    expect((await ask("/auth/keys?api_key=garbage", { headers })).status).toBe(401);
    expect((await ask(`/auth/keys?api_key=${ofBob}`, { headers })).status).toBe(401);
  });
});

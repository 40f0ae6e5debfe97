import { beforeAll, describe, expect, test } from "vitest";
import { requestHeaders } from "../../../gate/pipeline/exchange.ts";
import { CsrfTokens, csrfTokenIn } from "../../../identity/credentials.ts";
import { SameOriginCheck } from "../../../rest-gateway/auth/same-origin.ts";
import { type Reply, useService } from "../../support/http-client.ts";
import { failureOf, PASSWORD, SessionClient, signedIn } from "./session-client.ts";

const client = useService({ GRAPHQL_DOCUMENTS: "any" });
const named = useService({ CORS_ORIGINS: "https://app.example" });
const { send, sql, service } = client;

const REFUSED = "a request with the session's cookie needs the header X-CSRF-Token: see GET /csrf-token";
const FOREIGN = [
  403,
  "PERMISSION_DENIED",
  "a page of another origin may not do this: it must be served by this service, or be in CORS_ORIGINS",
];

type Request = readonly [request: string, body: unknown];

/** Changes that ada may make. */
const UNSAFE: readonly Request[] = [
  ["PATCH /users/1", { age: 37 }],
  ["PUT /users/1", { name: "Ada Lovelace", email: "ada@example.com", age: 36 }],
  ["POST /articles", { title: "A title", content: "Some content." }],
  ["PATCH /rest/v1/users?id=eq.1", { age: 37 }],
  ["POST /rest/v1/articles", { title: "A title", content: "Some content." }],
  ["POST /rest/v1/rpc/publish_article", { id: 1 }],
  ["DELETE /rest/v1/articles?id=eq.0", undefined],
  ["POST /graphql", { query: "mutation { updateUser(id: 1, input: { age: 37 }) { id } }" }],
  ["POST /graphql", { query: "{ me { id } }" }],
  ["POST /auth/keys", { name: "a key" }],
  ["POST /auth/email", { email: "dora@test.example" }],
  ["POST /auth/password", { oldPassword: PASSWORD, newPassword: `${PASSWORD}!` }],
  ["POST /auth/logout", undefined],
  ["POST /api/mfa/enable", undefined],
  ["POST /api/mfa/verify?code=123456", undefined],
];

let ada: SessionClient;
let bob: SessionClient;
/** The token of a previous session of ada. */
let spent: string;
let apikey: string;
beforeAll(async () => {
  apikey = service().service.tokens.issueKey("anon");
  spent = (await (await signedIn(client, "ada")).csrf())["x-csrf-token"];
  ada = await signedIn(client, "ada");
  bob = await signedIn(client, "bob");
});

const withKey = (request: string): Record<string, string> => (request.includes("/rest/v1") ? { apikey } : {});
const ask = (who: SessionClient, [request, body]: Request, headers: Readonly<Record<string, string>> = {}) =>
  who.send(request, body, { ...withKey(request), ...headers });

/** The status, and the error message as the interface formats it. */
function outcome({ status, json }: Reply): [status: number, message: unknown] {
  return [status, json?.error?.message ?? json?.errors?.[0]?.message ?? json?.message];
}

describe.each(UNSAFE.map((request) => [request[0], request] as const))("%s with a session cookie", (_, request) => {
  test.each<[string, () => Promise<Record<string, string>>]>([
    ["no token", async () => ({})],
    ["an empty token", async () => ({ "x-csrf-token": "" })],
    ["a token of other letters", async () => ({ "x-csrf-token": "é" })],
    ["a malformed token", async () => ({ "x-csrf-token": "null" })],
    ["a token of another session", () => bob.csrf()],
    ["a token of the previous session", async () => ({ "x-csrf-token": spent })],
    [
      "a token that belongs to no session",
      async () => ({ "x-csrf-token": (await send("/csrf-token")).json.csrfToken }),
    ],
    ["a truncated token", async () => ({ "x-csrf-token": (await ada.csrf())["x-csrf-token"].slice(1) })],
    ["two tokens", async () => ({ "x-csrf-token": `${(await ada.csrf())["x-csrf-token"]}, x` })],
    ["the id of the session", async () => ({ "x-csrf-token": ada.cookie.slice("SESSION=".length) })],
  ])("is 403 with %s", async (_what, headers) => {
    const content = await client.content();
    expect(outcome(await ask(ada, request, await headers()))).toEqual([403, REFUSED]);
    expect(await client.content()).toBe(content);
  });
});

describe("a CSRF token", () => {
  test("is issued for the session, may not be cached, and renews the cookie", async () => {
    const { status, json, headers } = await ada.send("/csrf-token");
    expect([status, json]).toEqual([200, { csrfToken: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) }]);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.getSetCookie()).toEqual([expect.stringMatching(/; Max-Age=1800$/)]);
    expect(json.csrfToken).not.toBe(ada.cookie.slice("SESSION=".length));
  });

  test("is also issued without a session, but is not valid for any", async () => {
    const { status, json, headers } = await send("/csrf-token");
    expect([status, Object.keys(json), headers.getSetCookie()]).toEqual([200, ["csrfToken"], []]);
    expect((await send("/csrf-token")).json).not.toEqual(json);
  });

  test("is 401 for a session that has ended", async () =>
    expect((await send("/csrf-token", { headers: { cookie: "SESSION=x" } })).status).toBe(401));

  test.each(["X-CSRF-Token", "x-xsrf-token"])("is accepted in the header %s, on every interface", async (name) => {
    const token = (await ada.csrf())["x-csrf-token"];
    for (const request of [UNSAFE[0]!, UNSAFE[3]!, UNSAFE[7]!, UNSAFE[8]!])
      expect([request[0], (await ask(ada, request, { [name]: token })).status]).toEqual([
        request[0],
        expect.toBeOneOf([200, 204]),
      ]);
  });

  test("is accepted in the parameter _csrf, which appears in no response; for tables the parameter is a filter", async () => {
    const token = (await ada.csrf())["x-csrf-token"];
    const reply = await ada.send(`PATCH /users/1?_csrf=${token}`, { age: 36 });
    expect([reply.status, reply.text.includes(token)]).toEqual([200, false]);
    expect((await ada.send(`POST /graphql?_csrf=${token}`, { query: "{ me { id } }" })).json.data).toEqual({
      me: { id: "1" },
    });
    expect((await ada.send("PATCH /users/1?_csrf=garbage", { age: 36 })).status).toBe(403);
    const list = await ada.send(`/users?limit=1&_csrf=${token}`);
    expect([list.status, list.headers.get("link")!.includes(token)]).toEqual([200, false]);
  });

  test("is not stored with tasks, and not visible to functions of the database", async () => {
    await sql("create table kept (request text)");
    await sql(`create function keep() returns trigger language plpgsql security definer as
      'begin insert into public.kept values (new.request); return new; end'`);
    await sql("create trigger keep before insert on tasks.tasks for each row execute function keep()");
    const { "x-csrf-token": token } = await ada.csrf();
    const many = [{ title: "A title", content: "Some content." }];
    const accepted = [
      await ada.send(`POST /articles?_csrf=${token}`, many, { prefer: "respond-async" }),
      await ada.send("POST /articles", many, { prefer: "respond-async", "x-xsrf-token": token }),
    ];
    expect(accepted.map(({ status }) => status)).toEqual([202, 202]);
    const kept = await sql("select request from kept");
    expect([kept.length, JSON.stringify(kept).includes(token)]).toEqual([2, false]);
    expect(requestHeaders({ accept: "*/*", "x-csrf-token": token, "x-xsrf-token": token })).toBe('{"accept":"*/*"}');
  });

  test("is not required for requests that change nothing", async () => {
    for (const path of ["/users/1", "/articles", "/rest/v1/users?limit=1", "/graphql?query={me{id}}", "/auth/keys"])
      expect([path, (await ada.send(path, undefined, withKey(path))).status]).toEqual([path, 200]);
  });

  test("is not required with a token, a key or Basic credentials", async () => {
    const token = client.token("ada");
    const basic = `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}`;
    const { key } = (
      await send("/auth/keys", {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: '{"name":"a program"}',
      })
    ).json;
    for (const headers of [{ authorization: `Bearer ${token}` }, { authorization: basic }, { "x-api-key": key }]) {
      const anonymous = new SessionClient(client);
      expect((await anonymous.send("PATCH /users/1", { age: 36 }, headers as never)).status).toBe(200);
      // Also together with the cookie of the same user: a page of another origin cannot send these headers.
      expect((await ada.send("PATCH /users/1", { age: 36 }, headers as never)).status).toBe(200);
    }
  });

  test("is required together with the public key, which does not identify who wrote the request", async () => {
    const headers = { authorization: `Bearer ${apikey}`, apikey };
    expect((await ada.send("PATCH /rest/v1/users?id=eq.1", { age: 37 }, headers)).status).toBe(403);
  });
});

describe("GraphQL with a session cookie", () => {
  test("accepts queries by GET, and with a CSRF token queries and mutations by POST", async () => {
    expect((await ada.send("/graphql?query={me{id}}")).json).toEqual({ data: { me: { id: "1" } } });
    const mutation = {
      query:
        'mutation { createArticle(input: { title: "A title", content: "A text." }) { article { author { id } } } }',
    };
    expect((await ada.send("POST /graphql", mutation, await ada.csrf())).json).toEqual({
      data: { createArticle: { article: { author: { id: "1" } } } },
    });
  });

  test("rejects mutations by GET, and forms, because browsers send both without a preflight", async () => {
    const mutation = "mutation{deleteArticle(id:1)}";
    expect((await ada.send(`/graphql?query=${mutation}`)).status).toBe(405);
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      const headers = { cookie: ada.cookie, "content-type": type, ...(await ada.csrf()) };
      const body = JSON.stringify({ query: mutation });
      expect((await send("/graphql", { method: "POST", headers, body })).status).toBe(415);
    }
  });
});

test("tables accept the session cookie, with the rows that its user may read and change", async () => {
  const headers = { apikey, prefer: "return=representation", ...(await ada.csrf()) };
  const own = await ada.send("PATCH /rest/v1/users?id=eq.1&select=id,age", { age: 36 }, headers);
  expect([own.status, own.json]).toEqual([200, [{ id: 1, age: 36 }]]);
  const others = await ada.send("PATCH /rest/v1/users?id=eq.2&select=id", { age: 36 }, headers);
  expect([others.status, others.json]).toEqual([200, []]);
});

describe("login and logout, which need no CSRF token,", () => {
  const own = () => service().url;
  const host = () => new URL(own()).host;

  test.each<[string, () => Record<string, string>]>([
    ["another site", () => ({ origin: "https://evil.example" })],
    ["an opaque origin", () => ({ origin: "null" })],
    ["another port of this host", () => ({ origin: "http://127.0.0.1:1" })],
    ["a host that begins like this one", () => ({ origin: `${own()}.evil.example` })],
    ["another site that sends no Origin", () => ({ "sec-fetch-site": "cross-site" })],
    ["the same site but another origin", () => ({ origin: "https://www.example", "sec-fetch-site": "same-site" })],
    ["another scheme", () => ({ origin: own(), "sec-fetch-site": "cross-site" })],
  ])("reject a page from %s", async (_what, headers) => {
    const login = await new SessionClient(client).login("admin", PASSWORD, headers());
    expect([...failureOf(login), login.headers.getSetCookie()]).toEqual([...FOREIGN, []]);
    const logout = await ada.send("POST /api/auth/logout", undefined, headers());
    expect(failureOf(logout)).toEqual(FOREIGN);
    expect((await ada.me()).status).toBe(200);
  });

  test.each<[string, () => Record<string, string>]>([
    ["a page of the service", () => ({ origin: own(), "sec-fetch-site": "same-origin" })],
    ["a page of the service in a browser without Sec-Fetch-Site", () => ({ origin: own() })],
    ["a page behind a proxy that terminates TLS", () => ({ origin: `https://${host()}` })],
    [
      "a page behind a proxy that changes the host",
      () => ({ origin: "https://x.example", "sec-fetch-site": "same-origin" }),
    ],
    ["a client that is not a browser", () => ({})],
  ])("accept %s", async (_what, headers) => {
    const browser = new SessionClient(client);
    expect((await browser.login("admin", PASSWORD, headers())).status).toBe(200);
    expect((await browser.send("POST /api/auth/logout", undefined, headers())).status).toBe(200);
  });

  test.each([
    ["https://app.example", 200],
    ["https://evil.example", 403],
    ["http://app.example", 403],
  ])("answer a page of %s with %i when CORS_ORIGINS names https://app.example", async (origin, status) => {
    const headers = { origin, "sec-fetch-site": "cross-site" };
    expect((await new SessionClient(named).login("ada", PASSWORD, headers)).status).toBe(status);
  });
});

test.each<[Record<string, string>, boolean]>([
  [{ origin: "https://api.example" }, true],
  [{ origin: "https://api.example", "sec-fetch-site": "cross-site" }, true],
  [{ origin: "http://api.example" }, false],
  [{ origin: "https://api.example:8443" }, false],
  [{ origin: "https://app.example" }, true],
  [{ origin: "https://evil.example" }, false],
  [{ origin: "http://10.0.0.7:3000" }, true],
  [{ origin: "*" }, false],
])("with BASE_URL=https://api.example/content, %j passes the same-origin check: %s", (headers, isOwn) => {
  const pages = new SameOriginCheck({ baseUrl: "https://api.example/content", corsOrigins: ["https://app.example"] });
  expect(pages.accepts({ host: "10.0.0.7:3000", ...headers })).toBe(isOwn);
});

test("CORS_ORIGINS=* does not allow every page to sign users in", () => {
  const pages = new SameOriginCheck({ baseUrl: "", corsOrigins: ["*"] });
  expect(pages.accepts({ host: "api.example", origin: "https://evil.example" })).toBe(false);
  expect(pages.accepts({ host: "api.example", origin: "*" })).toBe(false);
});

test("a login that the same-origin check rejects does not count as a failed login", async () => {
  await new SessionClient(client).login("admin", "wrong", { origin: "https://evil.example" });
  expect(await sql("select from security_events where event = 'login_failed' and user_id = 3")).toEqual([]);
});

test("a CSRF token is valid for one session and one secret only", () => {
  const tokens = new CsrfTokens("a secret");
  expect(tokens.isOf(tokens.of("a session"), "a session")).toBe(true);
  expect(tokens.isOf(tokens.of("a session"), "another")).toBe(false);
  expect(new CsrfTokens("another secret").isOf(tokens.of("a session"), "a session")).toBe(false);
  for (const garbage of ["", "x", "é".repeat(43), "x".repeat(10_000)])
    expect(tokens.isOf(garbage, "a session")).toBe(false);
});

test.each<[Record<string, string>, string, string | null]>([
  [{}, "/users", null],
  [{ "x-csrf-token": "a" }, "/users", "a"],
  [{ "x-xsrf-token": "a" }, "/users", "a"],
  [{ "x-csrf-token": "", "x-xsrf-token": "a" }, "/users", "a"],
  [{ "x-csrf-token": "a", "x-xsrf-token": "b" }, "/users?_csrf=c", "a"],
  [{}, "/users?_csrf=c", "c"],
  [{}, "/users?age=1&_csrf=c-_9&x=1", "c-_9"],
  [{}, "/users?_csrf=", null],
  [{}, "/users?_csrf=%41", null],
  [{}, "/users?my_csrf=c", null],
])("the CSRF token of a request with the headers %j to %s is %j", (headers, url, token) =>
  expect(csrfTokenIn({ headers, url })).toBe(token),
);

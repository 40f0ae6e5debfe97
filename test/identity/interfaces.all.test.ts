import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import {
  act,
  basic,
  cookieOf,
  credentialsOf,
  csrfOf,
  DONE,
  INTERFACES,
  KINDS,
  makeKey,
  makeSession,
  REFUSED,
} from "./support.ts";

const lines: string[] = [];
const log = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
let service: TestService;
beforeAll(async () => {
  service = await startTestService({ USERS_WRITE: "owner", LOGIN_ATTEMPTS: "100", DB_POOL: "1" }, undefined, log);
  await service.database.owner.query("update public.users set age = 36 where id = 1");
});
afterAll(() => service.stop());

const ME = "{ me { id } }";
const graphql = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(`${service.url}${path}`, init);
  return { status: response.status, headers: response.headers, json: (await response.json()) as any };
};
const post = (headers: Readonly<Record<string, string>>, query = ME) =>
  graphql("/graphql", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ query }),
  });
const get = (headers: Readonly<Record<string, string>>, more = "") =>
  graphql(`/graphql?query=${encodeURIComponent(ME)}${more}`, { headers });

describe("every credential signs in on every interface", () => {
  describe.each(INTERFACES)("on %s", (at) => {
    test.each(KINDS)("with the credential %s", async (kind) => {
      expect(await act(service, at, await credentialsOf(kind, service, 1))).toBe(DONE[at]);
    });
  });

  test.each(KINDS)("on a WebSocket with %s in the upgrade", async (kind) => {
    const client = connect(service, { headers: await credentialsOf(kind, service, 2) });
    expect(await client.run(ME)).toEqual({ data: { me: { id: "2" } } });
  });

  test.each([
    ["Basic", async () => ({ Authorization: basic("bob") })],
    ["a key as Bearer", async () => ({ authorization: `Bearer ${await makeKey(service, 2)}` })],
    ["X-API-Key", async () => ({ "X-API-Key": await makeKey(service, 2) })],
    ["apikey", async () => ({ apikey: await makeKey(service, 2) })],
  ])("on a WebSocket with %s in connection_init", async (_, params) => {
    const client = connect(service, { params: await params() });
    expect(await client.run(ME)).toEqual({ data: { me: { id: "2" } } });
  });

  test("on /users and /graphql with a key in the parameter api_key", async () => {
    const key = await makeKey(service, 1);
    const response = await fetch(`${service.url}/users/1?api_key=${key}`, {
      method: "PATCH",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    expect(response.status).toBe(200);
    for (const name of ["api_key", "apikey"])
      expect((await get({}, `&${name}=${key}`)).json).toEqual({ data: { me: { id: "1" } } });
  });
});

describe("callers that take turns on a pool of one connection", () => {
  test("are never mistaken for the previous caller", async () => {
    const ada = await credentialsOf("X-API-Key", service, 1);
    const bob = await credentialsOf("Bearer", service, 2);
    for (let i = 0; i < 5; i++) {
      expect((await post(ada)).json).toEqual({ data: { me: { id: "1" } } });
      expect((await post({})).json.errors[0].extensions.code).toBe("AUTH_REQUIRED");
      expect((await post(bob)).json).toEqual({ data: { me: { id: "2" } } });
      expect(await act(service, "/users", {})).toBe(401);
      expect(await act(service, "/rest/v1", bob)).toBe(204);
    }
    const all = await Promise.all(Array.from({ length: 40 }, (_, i) => post([ada, {}, bob][i % 3]!)));
    expect(all.map(({ json }) => json.data?.me.id ?? null)).toEqual(
      Array.from({ length: 40 }, (_, i) => ["1", null, "2"][i % 3]),
    );
  });
});

describe("two credentials", () => {
  test.each(KINDS)("of two different users are refused if one of them is %s", async (kind) => {
    const ada = await credentialsOf(kind === "Bearer" ? "X-API-Key" : "Bearer", service, 1);
    const bob = await credentialsOf(kind === "Basic" || kind === "key as Bearer" ? "X-API-Key" : kind, service, 2);
    for (const at of INTERFACES) {
      const outcome = await act(service, at, { ...bob, ...ada });
      expect([at, outcome]).toEqual([at, at === "/graphql" ? "AUTH_REQUIRED" : 401]);
    }
  });

  test("of the same user are accepted, and a token beside the cookie needs no CSRF token", async () => {
    const session = await makeSession(service, 1);
    const headers = { ...(await credentialsOf("Bearer", service, 1)), ...cookieOf(session) };
    for (const at of INTERFACES) expect([at, await act(service, at, headers)]).toEqual([at, DONE[at]]);
  });

  test("are refused if one of them is not valid", async () => {
    const good = await credentialsOf("Bearer", service, 1);
    for (const bad of [{ "x-api-key": "garbage" }, { apikey: "garbage" }]) {
      for (const at of INTERFACES) {
        expect([at, await act(service, at, { ...good, ...bad } as never)]).toEqual([at, REFUSED[at]]);
      }
    }
  });

  test("may be a token and the cookie of another service, which is refused without the token", async () => {
    const cookie = "SESSION=of-another-program";
    const headers = { ...(await credentialsOf("Bearer", service, 1)), cookie };
    for (const at of INTERFACES) {
      expect([at, await act(service, at, headers)]).toEqual([at, DONE[at]]);
      expect([at, await act(service, at, { cookie })]).toEqual([at, REFUSED[at]]);
    }
  });

  test("of two users in connection_init and the cookie close a WebSocket with 4403", async () => {
    const session = await makeSession(service, 1);
    const client = connect(service, {
      headers: cookieOf(session),
      params: { Authorization: `Bearer ${service.token("bob")}` },
    });
    await expect(client.run(ME)).rejects.toMatchObject({ code: 4403 });
  });
});

describe("a service key", () => {
  test.each(INTERFACES)("from a browser is refused by %s", async (at) => {
    for (const key of [await makeKey(service, null), service.service.tokens.issueKey("service_role")]) {
      for (const headers of [{ apikey: key }, { "x-api-key": key }, { authorization: `Bearer ${key}` }]) {
        const outcome = await act(service, at, { ...headers, origin: "https://app.example" } as never);
        expect(outcome).toBe(at === "/graphql" ? "PERMISSION_DENIED" : 403);
        expect(await act(service, at, headers as never)).toBe(DONE[at]);
      }
    }
  });

  test("from a browser closes a WebSocket with 4403", async () => {
    const key = await makeKey(service, null);
    const client = connect(service, { headers: { origin: "https://app.example" }, params: { apikey: key } });
    await expect(client.run("{ __typename }")).rejects.toMatchObject({ code: 4403 });
  });
});

describe("the session cookie", () => {
  test("of a WebSocket is accepted from pages of this service and from programs", async () => {
    const cookie = cookieOf(await makeSession(service, 1));
    for (const headers of [cookie, { ...cookie, origin: new URL(service.url).origin }]) {
      expect(await connect(service, { headers }).run(ME)).toEqual({ data: { me: { id: "1" } } });
    }
  });

  test.each(["https://evil.example", "https://sibling.127.0.0.1", "null"])(
    "of a WebSocket from %s closes it with 4403",
    async (origin) => {
      const cookie = cookieOf(await makeSession(service, 1));
      await expect(connect(service, { headers: { ...cookie, origin } }).run(ME)).rejects.toMatchObject({ code: 4403 });
      // Without a cookie the same page may connect.
      expect(await connect(service, { headers: { origin } }).run("{ __typename }")).toEqual({
        data: { __typename: "Query" },
      });
    },
  );
});

describe("a token of another type", () => {
  test("such as a refresh token or a challenge is refused", async () => {
    const { tokens } = service.service;
    const { refreshToken } = tokens.issuePair({ id: "1", name: "Ada", role: "authenticated", permissions: [] });
    for (const token of [refreshToken, tokens.issueChallenge({ id: "1" })]) {
      for (const headers of [{ authorization: `Bearer ${token}` }, { apikey: token }, { "x-api-key": token }]) {
        for (const at of INTERFACES) expect(await act(service, at, headers as never)).toBe(REFUSED[at]);
      }
    }
  });
});

test("no credential is in the log, whether it was valid or not", async () => {
  const secrets = [await makeKey(service, 1), await makeSession(service, 2), "Secret-Password-1!", "invalid-token-1"];
  const [key, session] = secrets as [string, string];
  for (const at of INTERFACES) {
    await act(service, at, { "x-api-key": key });
    await act(service, at, { ...cookieOf(session), ...csrfOf(session) });
    await act(service, at, { authorization: basic("ada", "Secret-Password-1!") });
    await act(service, at, { authorization: "Bearer invalid-token-1" });
  }
  await fetch(`${service.url}/users?api_key=${key}`);
  await get({}, `&api_key=${key}`);
  const logged = lines.join("");
  expect(logged).toContain("/users");
  for (const secret of secrets) {
    expect(logged).not.toContain(secret);
    expect(logged).not.toContain(Buffer.from(`ada:${secret}`).toString("base64"));
  }
});

test("a WebSocket is closed with 4403 when its key or its session expires", async () => {
  const seconds = 8;
  const key = await makeKey(service, 2, new Date(Date.now() + seconds * 1000));
  const session = await makeSession(service, 2, seconds);
  const untilClosed = async (headers: Readonly<Record<string, string>>) => {
    const client = connect(service, { headers });
    const closed = new Promise((resolve) => client.on("closed", resolve));
    expect(await client.run(ME)).toEqual({ data: { me: { id: "2" } } });
    return closed;
  };
  expect(await Promise.all([untilClosed({ "x-api-key": key }), untilClosed(cookieOf(session))])).toMatchObject([
    { code: 4403, reason: "the API key has expired" },
    { code: 4403, reason: "the session has ended: sign in again" },
  ]);
});

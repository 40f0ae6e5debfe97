import { decode } from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { startTestService } from "../../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const client = useService();
const login = async (username: string) =>
  (await sendJson(client, "/auth/login", { username, password: PASSWORD })).json;
const refresh = (refreshToken: unknown) => sendJson(client, "/auth/refresh", { refreshToken });
type Pair = { readonly accessToken: string };
/** The outcome of a request with the access token of a pair. */
const read = async ({ accessToken }: Pair) => {
  const { status, json } = await client.send("/tasks", { headers: { authorization: `Bearer ${accessToken}` } });
  return [status, json.error?.code];
};
const codeOf = async (refreshToken: unknown) => {
  const { status, json } = await refresh(refreshToken);
  return [status, json.error?.code];
};

describe("POST /auth/refresh", () => {
  test("exchanges each refresh token for a new pair", async () => {
    let pair = await login("ada");
    for (let turn = 0; turn < 3; turn++) {
      const { status, json, headers } = await refresh(pair.refreshToken);
      expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
      expect(json).toMatchObject({ expiresIn: 3600, tokenType: "Bearer" });
      expect(json.refreshToken).not.toBe(pair.refreshToken);
      const authorization = `Bearer ${json.accessToken}`;
      expect(await client.data("{ me { id } }", { headers: { authorization } })).toEqual({ me: { id: "1" } });
      pair = json;
    }
  });

  test("revokes the whole family if a token is used again, and records it", async () => {
    const first = await login("bob");
    const other = await login("bob");
    const { json: second } = await refresh(first.refreshToken);
    for (const pair of [first, second, other]) expect(await read(pair)).toEqual([200, undefined]);
    expect(await codeOf(first.refreshToken)).toEqual([401, "VERIFICATION_FAILED"]);
    expect(await codeOf(second.refreshToken)).toEqual([401, "VERIFICATION_FAILED"]);
    for (const pair of [first, second]) expect(await read(pair)).toEqual([401, "VERIFICATION_FAILED"]);
    expect(await read(other)).toEqual([200, undefined]);
    expect((await refresh(other.refreshToken)).status).toBe(200);
    const events = await client.sql("select event, user_id, host(address) as address from security_events");
    expect(events).toContainEqual({ event: "token_reused", user_id: "2", address: "127.0.0.1" });
  });

  test("returns a pair to one of twenty requests at once, and the others revoke it", async () => {
    const { refreshToken } = await login("ada");
    const replies = await Promise.all(Array.from({ length: 20 }, () => refresh(refreshToken)));
    const got = replies.filter(({ status }) => status === 200);
    expect(got).toHaveLength(1);
    expect(replies.filter(({ status }) => status === 401)).toHaveLength(19);
    expect(await read(got[0]!.json)).toEqual([401, "VERIFICATION_FAILED"]);
    expect(await codeOf(got[0]!.json.refreshToken)).toEqual([401, "VERIFICATION_FAILED"]);
  });

  test("keeps the token family, which access tokens name as sid", async () => {
    const first = await login("ada");
    const { json: second } = await refresh(first.refreshToken);
    const sidOf = ({ accessToken }: Pair) => (decode(accessToken) as any).sid;
    expect(sidOf(first)).toMatch(/^[0-9a-f-]{36}$/);
    expect(sidOf(second)).toBe(sidOf(first));
    expect(sidOf(await login("ada"))).not.toBe(sidOf(first));
  });

  test.each<[string, unknown]>([
    ["missing", undefined],
    ["null", null],
    ["a number", 7],
    ["empty", ""],
  ])("rejects a token that is %s with 400", async (_what, token) => expect((await refresh(token)).status).toBe(400));

  test("rejects an access token, a challenge and a key with 400", async () => {
    const { tokens } = client.service().service;
    for (const token of [(await login("ada")).accessToken, tokens.issueChallenge({ id: "1", epoch: 0 })])
      expect(await codeOf(token)).toEqual([400, "VALIDATION_ERROR"]);
    expect((await codeOf(tokens.issueKey("anon")))[0]).toBe(400);
  });

  test("rejects a token that was signed but never issued with 401", async () => {
    const { tokens } = client.service().service;
    expect(await codeOf(tokens.issueRefresh("1"))).toEqual([401, "VERIFICATION_FAILED"]);
    expect(await codeOf("garbage")).toEqual([401, "INVALID_TOKEN"]);
  });

  test("rejects the tokens of an account that is disabled or whose role changes", async () => {
    const { refreshToken, accessToken } = await login("bob");
    await client.sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
    expect(await codeOf(refreshToken)).toEqual([401, "VERIFICATION_FAILED"]);
    await client.sql("update auth_private.accounts set disabled_at = null where user_id = 2");
    expect(await codeOf(refreshToken)).toEqual([401, "VERIFICATION_FAILED"]);
    const headers = { authorization: `Bearer ${accessToken}` };
    await expect.poll(async () => (await client.send("/users/1", { headers })).status).toBe(401);
  });
});

describe("within JWT_REFRESH_GRACE", () => {
  let now = Date.now();
  const patient = useService({ JWT_REFRESH_GRACE: "10", GRAPHQL_DOCUMENTS: "none" }, () => now);
  const post = (path: string, body: object) => sendJson(patient, path, body);
  const begin = async () => (await post("/auth/login", { username: "ada", password: PASSWORD })).json;
  const again = async (refreshToken: string) => post("/auth/refresh", { refreshToken });
  const reads = async ({ accessToken }: Pair) =>
    (await patient.send("/tasks", { headers: { authorization: `Bearer ${accessToken}` } })).status;

  test("each of several requests at once returns a valid pair", async () => {
    const { refreshToken } = await begin();
    const replies = await Promise.all(Array.from({ length: 5 }, () => again(refreshToken)));
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(new Set(replies.map(({ json }) => json.refreshToken)).size).toBe(5);
    for (const { json } of replies) {
      expect(await reads(json)).toBe(200);
      expect((await again(json.refreshToken)).status).toBe(200);
    }
    expect(await patient.sql("select from security_events where event = 'token_reused'")).toEqual([]);
  });

  test("a token can be used again, and afterwards its use revokes the whole family", async () => {
    const first = await begin();
    const other = await begin();
    const { json: second } = await again(first.refreshToken);
    now += 9999;
    const { status, json: third } = await again(first.refreshToken);
    expect(status).toBe(200);
    now += 1;
    expect((await again(first.refreshToken)).status).toBe(401);
    for (const { refreshToken } of [second, third]) expect((await again(refreshToken)).status).toBe(401);
    for (const pair of [first, second, third]) expect(await reads(pair)).toBe(401);
    expect(await reads(other)).toBe(200);
  });
});

test("a refresh token is valid for seven days", async () => {
  let now = Date.now();
  const service = await startTestService({}, undefined, undefined, () => now);
  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${service.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, json: (await response.json()) as any };
  };
  const credentials = { username: "ada", password: PASSWORD };
  const [{ json: one }, { json: other }] = await Promise.all([
    post("/auth/login", credentials),
    post("/auth/login", credentials),
  ]);
  now += 7 * 24 * 3600 * 1000 - 2000;
  expect((await post("/auth/refresh", { refreshToken: one.refreshToken })).status).toBe(200);
  now += 4000;
  const { status, json } = await post("/auth/refresh", { refreshToken: other.refreshToken });
  expect([status, json.error.code]).toEqual([401, "TOKEN_EXPIRED"]);
  await service.stop();
});

describe("ACCESS_TOKEN_TTL", () => {
  let now = Date.now();
  const brief = useService({ ACCESS_TOKEN_TTL: "90", GRAPHQL_DOCUMENTS: "none" }, () => now);
  const post = async (path: string, body: object) => (await sendJson(brief, path, body)).json;
  const claimsOf = (token: string) => decode(token) as { readonly iat: number; readonly exp: number };

  test("is how long the access tokens of a login and of a refresh are valid, and expiresIn says so", async () => {
    const first = await post("/auth/login", { username: "ada", password: PASSWORD });
    const second = await post("/auth/refresh", { refreshToken: first.refreshToken });
    for (const { accessToken, expiresIn } of [first, second]) {
      const { iat, exp } = claimsOf(accessToken);
      expect([exp - iat, expiresIn]).toEqual([90, 90]);
    }
  });

  test("does not shorten for how long a revoked sign-in is remembered, whose tokens may be older than the setting", async () => {
    const { tokens } = brief.service().service;
    const first = await post("/auth/login", { username: "bob", password: PASSWORD });
    await post("/auth/refresh", { refreshToken: first.refreshToken });
    now += 10_000;
    await post("/auth/refresh", { refreshToken: first.refreshToken });
    // The session was revoked a day ago.
    now += 86_400_000;
    const revoked = await brief.sql("select id from auth_private.sessions where revoked_at is not null");
    expect(revoked).toHaveLength(1);
    const user = { id: "2", name: "Bob", role: "authenticated", permissions: [] };
    const pair = tokens.issuePair(user, { session: revoked[0]!.id, signedInAt: now, refreshToken: "" });
    const { status } = await brief.send("/tasks", { headers: { authorization: `Bearer ${pair.accessToken}` } });
    expect(status).toBe(401);
  });
});

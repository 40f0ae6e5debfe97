import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const OLD = "Correct-Horse-8!";
const NEW = "Another-Horse-9?";
const client = useService({ registrationsPerAddress: 1000, GRAPHQL_DOCUMENTS: "none" });

let count = 0;
/** A new user for one test. */
async function newUser() {
  const username = `dora${++count}`;
  const { json } = await sendJson(client, "/auth/register", {
    ...{ name: "Dora", email: `${username}@test.example`, username, password: OLD },
  });
  return { username, id: String(json.user.id), headers: { authorization: `Bearer ${json.accessToken}` }, ...json };
}

const change = (headers: Record<string, string>, oldPassword: unknown = OLD, newPassword: unknown = NEW) =>
  sendJson(client, "/auth/password", { oldPassword, newPassword }, headers);
const login = (username: string, password: string) => sendJson(client, "/auth/login", { username, password });
const reads = async (headers: Record<string, string>) => (await client.send("/users/1", { headers })).status;

describe("POST /auth/password", () => {
  test("with a token sets the password, revokes all tokens and returns a new pair", async () => {
    const { username, id, headers, refreshToken } = await newUser();
    const { json: elsewhere } = await login(username, OLD);
    const { status, json } = await change(headers);
    expect([status, json]).toEqual([
      200,
      { accessToken: expect.any(String), refreshToken: expect.any(String), expiresIn: 3600, tokenType: "Bearer" },
    ]);
    expect(await reads(headers)).toBe(401);
    expect(await reads({ authorization: `Bearer ${elsewhere.accessToken}` })).toBe(401);
    for (const token of [refreshToken, elsewhere.refreshToken])
      expect((await sendJson(client, "/auth/refresh", { refreshToken: token })).status).toBe(401);
    expect(await reads({ authorization: `Bearer ${json.accessToken}` })).toBe(200);
    expect((await sendJson(client, "/auth/refresh", { refreshToken: json.refreshToken })).status).toBe(200);
    expect((await login(username, OLD)).status).toBe(401);
    expect((await login(username, NEW)).status).toBe(200);
    const events = await client.sql(
      "select event, host(address) as address from security_events where user_id = $1",
      id,
    );
    expect(events.filter(({ event }) => event === "password_changed")).toEqual([
      { event: "password_changed", address: "127.0.0.1" },
    ]);
  });

  test("with a session sets a new session cookie", async () => {
    const { username } = await newUser();
    const begun = await sendJson(client, "/api/auth/login", { username, password: OLD });
    const cookie = begun.headers.get("set-cookie")!.split(";")[0]!;
    const { json } = await client.send("/csrf-token", { headers: { cookie } });
    expect((await change({ cookie })).status).toBe(403);
    const { status, headers } = await change({ cookie, "x-csrf-token": json.csrfToken });
    expect(status).toBe(200);
    const renewed = headers.get("set-cookie")!.split(";")[0]!;
    expect(renewed).not.toBe(cookie);
    const me = async (cookie: string) => (await client.send("/api/auth/me", { headers: { cookie } })).status;
    expect([await me(cookie), await me(renewed)]).toEqual([401, 200]);
  });

  test("with Basic credentials returns a message", async () => {
    const { username } = await newUser();
    const basic = (password: string) => ({ authorization: `Basic ${btoa(`${username}:${password}`)}` });
    const { status, json } = await change(basic(OLD));
    expect([status, json]).toEqual([200, { message: "the password is changed" }]);
    expect([await reads(basic(OLD)), await reads(basic(NEW))]).toEqual([401, 200]);
  });

  test("with a wrong old password is 403, and revokes nothing", async () => {
    const { headers } = await newUser();
    const { status, json } = await change(headers, "Wrong-Horse-8!!");
    expect([status, json.error.code, json.error.message]).toEqual([
      403,
      "PERMISSION_DENIED",
      "the old password is wrong",
    ]);
    expect(await reads(headers)).toBe(200);
  });

  test("counts wrong old passwords as failed logins", async () => {
    const { username, headers } = await newUser();
    for (let i = 0; i < 3; i++) expect((await change(headers, "Wrong-Horse-8!!")).status).toBe(403);
    for (let i = 0; i < 2; i++) expect((await login(username, "Wrong-Horse-8!!")).status).toBe(401);
    const { status, headers: answered } = await change(headers);
    expect([status, Number(answered.get("retry-after")) > 0]).toEqual([429, true]);
    expect((await login(username, OLD)).status).toBe(429);
  });

  test("succeeds for one of several requests at once", async () => {
    const { headers } = await newUser();
    const replies = await Promise.all(["1", "2", "3"].map((end) => change(headers, OLD, NEW + end)));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const { status } of replies) expect([200, 401, 403]).toContain(status);
  });

  test.each<[string, unknown, unknown, code: string]>([
    ["a weak new password", OLD, "short", "VALIDATION_ERROR"],
    ["the old one again", OLD, OLD, "VALIDATION_ERROR"],
    ["a number", OLD, 7, "VALIDATION_ERROR"],
    ["no new password", OLD, undefined, "MISSING_FIELD"],
    ["no old password", null, NEW, "VALIDATION_ERROR"],
    ["one too long", OLD, `${NEW}${"x".repeat(200)}`, "VALIDATION_ERROR"],
  ])("rejects %s with 400", async (_what, oldPassword, newPassword, code) => {
    const { headers } = await newUser();
    const body = { oldPassword, newPassword };
    const { status, json } = await sendJson(client, "/auth/password", body, headers);
    expect([status, json.error.code]).toEqual([400, code]);
    expect(await reads(headers)).toBe(200);
  });

  test("names every broken rule of the new password", async () => {
    const { headers } = await newUser();
    const { json } = await change(headers, OLD, "abc");
    expect(json.error.details).toContainEqual({
      field: "newPassword",
      code: "VALIDATION_ERROR",
      message: "newPassword must have at least 12 characters",
    });
    expect(json.error.details).toHaveLength(4);
  });

  test.each([
    ["X-API-Key", (key: string) => ({ "x-api-key": key })],
    ["Bearer", (key: string) => ({ authorization: `Bearer ${key}` })],
  ])("with a key as %s is 403: a key cannot manage the account", async (_name, headersOf) => {
    const { username, headers } = await newUser();
    const { key } = (await sendJson(client, "/auth/keys", { name: "a program" }, headers)).json;
    const { status, json } = await change(headersOf(key));
    expect([status, json.error.code]).toEqual([403, "PERMISSION_DENIED"]);
    expect((await login(username, OLD)).status).toBe(200);
  });

  test("without credentials is 401", async () => {
    expect((await change({})).status).toBe(401);
    expect((await change({ apikey: client.service().service.tokens.issueKey("anon") })).status).toBe(401);
  });
});

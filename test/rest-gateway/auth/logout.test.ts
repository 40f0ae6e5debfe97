import { expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const client = useService();
const login = async (username: string) =>
  (await sendJson(client, "/auth/login", { username, password: "Correct-Horse-7!" })).json;
const logout = (headers: Record<string, string>) => client.send("/auth/logout", { method: "POST", headers });
const bearer = (accessToken: string) => ({ authorization: `Bearer ${accessToken}` });

test("POST /auth/logout revokes all tokens of the user at once, and those of no other user", async () => {
  const [here, there, bob] = [await login("ada"), await login("ada"), await login("bob")];
  const { status, json, headers } = await logout(bearer(here.accessToken));
  expect([status, json, headers.get("cache-control")]).toEqual([200, { message: "signed out" }, "no-store"]);
  for (const { accessToken, refreshToken } of [here, there]) {
    const used = await client.send("/users/1", { headers: bearer(accessToken) });
    expect([used.status, used.json.error.code]).toEqual([401, "VERIFICATION_FAILED"]);
    expect((await sendJson(client, "/auth/refresh", { refreshToken })).status).toBe(401);
    expect((await client.gql("{ me { id } }", { headers: bearer(accessToken) })).data?.me ?? null).toBeNull();
  }
  expect((await client.send("/users/1", { headers: bearer(bob.accessToken) })).status).toBe(200);
  expect((await sendJson(client, "/auth/refresh", { refreshToken: bob.refreshToken })).status).toBe(200);
  const again = await login("ada");
  expect((await client.send("/users/1", { headers: bearer(again.accessToken) })).status).toBe(200);
});

test.each<[string, () => Promise<Record<string, string>>]>([
  ["no token", async () => ({})],
  ["garbage", async () => bearer("garbage")],
  ["a refresh token", async () => bearer((await login("ada")).refreshToken)],
  ["the key for everybody", async () => bearer(client.service().service.tokens.issueKey("anon"))],
])("POST /auth/logout with %s is 401", async (_what, headers) => {
  const { status, headers: answered } = await logout(await headers());
  expect([status, answered.get("www-authenticate")]).toEqual([401, expect.stringMatching(/^Bearer/)]);
});

const usesOf = (tokens: readonly { readonly accessToken: string }[]) =>
  Promise.all(
    tokens.map(async ({ accessToken }) => (await client.send("/users/1", { headers: bearer(accessToken) })).status),
  );
const logoutOf = (accessToken: string, body: unknown) => sendJson(client, "/auth/logout", body, bearer(accessToken));

test.each([
  ["local", [401, 200, 200], "signed out"],
  ["others", [200, 401, 401], "signed out everywhere else"],
  ["global", [401, 401, 401], "signed out"],
])("POST /auth/logout with the scope %s ends these sessions", async (scope, statuses, message) => {
  const tokens = [await login("ada"), await login("ada"), await login("ada")];
  expect(await usesOf(tokens)).toEqual([200, 200, 200]);
  expect((await logoutOf(tokens[0].accessToken, { scope })).json).toEqual({ message });
  expect(await usesOf(tokens)).toEqual(statuses);
  const refreshes = tokens.map(({ refreshToken }) => sendJson(client, "/auth/refresh", { refreshToken }));
  expect((await Promise.all(refreshes)).map(({ status }) => status)).toEqual(statuses);
});

test("POST /auth/logout rejects an unknown scope, and ends nothing", async () => {
  const { accessToken } = await login("ada");
  for (const scope of ["all", "", null, 1]) {
    const { status, json } = await logoutOf(accessToken, { scope });
    expect([status, json.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  }
  expect(await usesOf([{ accessToken }])).toEqual([200]);
});

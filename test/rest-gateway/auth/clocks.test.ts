import { afterEach, beforeAll, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { PASSWORD, signedIn } from "./session-client.ts";

const MINUTE = 60_000;
let now = Date.now();
/** How far the clock of each process is behind. */
const behind = { first: 0, second: MINUTE };

const settings = { GRAPHQL_DOCUMENTS: "none", sessionsMax: 2 };
const first = useService({ ...settings, JWT_REFRESH_GRACE: "10" }, () => now - behind.first);
let second: TestService;
beforeAll(async () => {
  const { database } = first.service();
  const clock = () => now - behind.second;
  second = await startTestService({ ...settings, JWT_REFRESH_GRACE: "0" }, database, undefined, clock);
  return () => second.service.stop();
});
afterEach(() => Object.assign(behind, { first: 0, second: MINUTE }));

const inSecond = async (path: string, body: object) => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(second.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as any };
};
const credentials = { username: "bob", password: PASSWORD };
const login = async () => (await sendJson(first, "/auth/login", credentials)).json;
const status = async ({ accessToken }: { readonly accessToken: string }) =>
  (await first.send("/auth/me", { headers: { authorization: `Bearer ${accessToken}` } })).status;

test("a session is not shortened by a process whose clock is behind", async () => {
  const browser = await signedIn(first, "ada");
  now += 10 * MINUTE;
  expect((await browser.me()).status).toBe(200);
  const elsewhere = await fetch(`${second.url}/api/auth/me`, { headers: { cookie: browser.cookie } });
  expect(elsewhere.status).toBe(200);
  now += 30 * MINUTE - 1000;
  expect((await browser.me()).status).toBe(200);
});

test("a sign-in beyond sessionsMax in a process whose clock is behind does not end itself", async () => {
  await login();
  now += 1000;
  await login();
  const { json } = await inSecond("/auth/login", credentials);
  expect(await status(json)).toBe(200);
});

test("a token that was spent in a process whose clock is ahead is within JWT_REFRESH_GRACE, and without one it was stolen", async () => {
  const { refreshToken } = await login();
  expect((await sendJson(first, "/auth/refresh", { refreshToken })).status).toBe(200);
  expect((await inSecond("/auth/refresh", { refreshToken })).status).toBe(401);
  Object.assign(behind, { first: MINUTE, second: 0 });
  const { json: other } = await inSecond("/auth/login", credentials);
  expect((await inSecond("/auth/refresh", other)).status).toBe(200);
  expect((await sendJson(first, "/auth/refresh", { refreshToken: other.refreshToken })).status).toBe(200);
});

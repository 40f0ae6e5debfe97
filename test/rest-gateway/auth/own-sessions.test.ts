import { afterEach, expect, test } from "vitest";
import { networkAround } from "../../../rest-gateway/auth/device.ts";
import { connect } from "../../support/graphql-client.ts";
import { useService } from "../../support/http-client.ts";
import { POLL } from "../../support/until.ts";
import { ADA, SessionClient, signedIn } from "./session-client.ts";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const PASSWORD = "Correct-Horse-7!";
/** Longer than another process takes to hear of an end. */
const SOON = { timeout: 120_000, interval: 20 };

let now = Date.now();
const client = useService({ USERS_WRITE: "owner", sessionsMax: 3 }, () => now);
const { send, service, sql } = client;
afterEach(() => sql("update auth_private.accounts set epoch = epoch + 1"));

/** Tokens of a login, a second after what came before. */
async function login(username = "ada", agent = "curl/8.5.0") {
  now += 1000;
  const headers = { "content-type": "application/json", "user-agent": agent };
  const body = JSON.stringify({ username, password: PASSWORD });
  return (await send("/auth/login", { method: "POST", headers, body })).json;
}
async function refresh({ refreshToken }: { readonly refreshToken: string }) {
  now += 1000;
  const headers = { "content-type": "application/json" };
  return send("/auth/refresh", { method: "POST", headers, body: JSON.stringify({ refreshToken }) });
}
const bearer = ({ accessToken }: { readonly accessToken: string }) => ({ authorization: `Bearer ${accessToken}` });
const listed = async (headers: Record<string, string>) => (await send("/auth/sessions", { headers })).json.data;
const end = (id: string, headers: Record<string, string>) =>
  send(`/auth/sessions/${id}`, { method: "DELETE", headers });
const me = (headers: Record<string, string>) => send("/auth/me", { headers });

test("GET /auth/sessions lists where the user is signed in", async () => {
  const own = await login();
  now += 1000;
  const browser = await signedIn(client, "ada");
  await login("bob");
  await login("ada", FIREFOX);
  const headers = bearer(own);
  const time = expect.stringMatching(/^\d{4}-/);
  const times = { createdAt: time, lastUsedAt: time, expiresAt: time };
  const session = (device: string, kind: string, isCurrent: boolean) => ({
    ...{ id: expect.any(String), kind, device, network: networkAround("127.0.0.1"), ...times, isCurrent },
  });
  expect(await listed(headers)).toEqual([
    session("Firefox on Linux", "token", false),
    session("node", "cookie", false),
    session("curl", "token", true),
  ]);
  now += 1000;
  const ofBrowser = (await browser.send("/auth/sessions")).json.data;
  expect(ofBrowser.map(({ isCurrent }: { isCurrent: boolean }) => isCurrent)).toEqual([true, false, false]);
});

test("a session is listed until it has expired, with its last use: that of a cookie after 30 minutes", async () => {
  const own = await login();
  now += 1000;
  await signedIn(client, "ada");
  const seconds = async () =>
    (await listed(bearer(own))).map(({ kind, createdAt, lastUsedAt, expiresAt }: any) => {
      const [created, used, end] = [createdAt, lastUsedAt, expiresAt].map((time) => Date.parse(time));
      return [kind, Math.round((used! - created!) / 1000), Math.round((end! - used!) / 1000)];
    });
  const WEEK = 7 * 86_400;
  expect(await seconds()).toEqual([
    ["cookie", 0, 1800],
    ["token", 0, WEEK],
  ]);
  now += 60_000;
  expect((await refresh(own)).status).toBe(200);
  expect(await seconds()).toEqual([
    ["token", 62, WEEK],
    ["cookie", 0, 1800],
  ]);
  now += 1800_000;
  expect(await seconds()).toEqual([["token", 62, WEEK]]);
});

test("DELETE /auth/sessions/{id} ends the session, with its sockets, and no other", async () => {
  const [own, stolen, browser] = [await login(), await login(), await signedIn(client, "ada")];
  const sockets = [own, stolen].map((tokens) => connect(service(), { headers: bearer(tokens) }));
  const ended = new Promise((resolve) => sockets[1]!.on("closed", resolve));
  for (const socket of sockets) await socket.subscribe("subscription { onArticleCreated { id } }");
  const [cookie] = (await listed(bearer(own))).filter(({ kind }: { kind: string }) => kind === "cookie");
  const [current] = (await listed(bearer(stolen))).filter(({ isCurrent }: { isCurrent: boolean }) => isCurrent);

  for (const { id } of [current, cookie]) expect((await end(id, bearer(own))).status).toBe(204);
  expect(await ended).toMatchObject({ code: 4403 });
  expect((await me(bearer(stolen))).status).toBe(401);
  expect((await browser.me()).status).toBe(401);
  expect(await sockets[0]!.run("{ me { id } }")).toEqual({ data: { me: { id: "1" } } });
  expect((await refresh(stolen)).status).toBe(401);
  expect((await end(current.id, bearer(own))).status).toBe(404);
  expect((await listed(bearer(own))).map(({ isCurrent }: { isCurrent: boolean }) => isCurrent)).toEqual([true]);
  const events = await sql("select detail from security_events where event = 'session_ended' order by id");
  expect(events).toEqual([{ detail: { session: current.id } }, { detail: { session: cookie.id } }]);
});

test("DELETE /auth/sessions/{id} of a browser needs the CSRF token, and deletes the cookie of its own session", async () => {
  const browser = await signedIn(client, "ada");
  const [{ id }] = (await browser.send("/auth/sessions")).json.data;
  expect((await browser.send(`DELETE /auth/sessions/${id}`)).status).toBe(403);
  const { status, headers } = await browser.send(`DELETE /auth/sessions/${id}`, undefined, await browser.csrf());
  expect([status, headers.get("set-cookie")]).toEqual([204, expect.stringMatching(/^SESSION=; .*Max-Age=0$/)]);
});

test.each([
  ["another user's session", async () => (await listed(bearer(await login("bob"))))[0].id, 404],
  ["an unknown session", async () => "00000000-0000-4000-8000-000000000000", 404],
  ["no UUID", async () => "1", 400],
])("DELETE /auth/sessions/{id} of %s is refused", async (_what, id, status) => {
  expect((await end(await id(), bearer(await login()))).status).toBe(status);
});

test("a sign-in beyond sessionsMax ends the session that was used longest ago", async () => {
  const [bob, first, second] = [await login("bob"), await login(), await login()];
  now += 1000;
  const browser = await signedIn(client, "ada");
  // Not of the browser, which would be in use.
  const statuses = () => Promise.all([first, second, bob].map(async (tokens) => (await me(bearer(tokens))).status));
  expect(await statuses()).toEqual([200, 200, 200]);
  expect((await refresh(first)).status).toBe(200);
  await login();
  await expect.poll(statuses, SOON).toEqual([200, 401, 200]);
  await login();
  expect((await browser.me()).status).toBe(401);
  expect(await statuses()).toEqual([200, 401, 200]);
  expect(await listed(bearer(first))).toHaveLength(3);
});

test("POST /auth/logout of a browser needs the CSRF token, and deletes the cookie unless only others end", async () => {
  const [browser, elsewhere] = [await signedIn(client, "ada"), await login()];
  expect((await browser.send("POST /auth/logout", { scope: "others" })).status).toBe(403);
  const others = await browser.send("POST /auth/logout", { scope: "others" }, await browser.csrf());
  expect([others.status, others.headers.get("set-cookie")]).toEqual([200, null]);
  expect((await me(bearer(elsewhere))).status).toBe(401);
  expect((await browser.me()).status).toBe(200);
  const { status, headers } = await browser.send("POST /auth/logout", { scope: "local" }, await browser.csrf());
  expect([status, headers.get("set-cookie")]).toEqual([200, expect.stringMatching(/^SESSION=; .*Max-Age=0$/)]);
});

test("GET /auth/me returns the user for every credential, and the session that it belongs to", async () => {
  const tokens = await login();
  const browser = await signedIn(client, "ada");
  const { headers, json } = await browser.send("/auth/me");
  expect(json).toEqual({ ...ADA, session: { ...json.session, kind: "cookie", isCurrent: true } });
  expect(headers.get("set-cookie")).toMatch(/^SESSION=.*Max-Age=1800$/);
  expect(tokens.user).toEqual(ADA);
  const byToken = (await me(bearer(tokens))).json;
  expect(byToken).toEqual({ ...ADA, session: { ...byToken.session, kind: "token", isCurrent: true } });

  const key = (
    await send("/auth/keys", {
      method: "POST",
      headers: { ...bearer(tokens), "content-type": "application/json" },
      body: JSON.stringify({ name: "a program" }),
    })
  ).json.key;
  const basic = `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}`;
  const others: Record<string, string>[] = [{ "x-api-key": key }, { authorization: basic }];
  for (const headers of others) expect((await me(headers)).json).toEqual({ ...ADA, session: null });
  expect((await end(byToken.session.id, { "x-api-key": key })).status).toBe(403);
  expect((await send("/auth/sessions", { headers: { "x-api-key": key } })).status).toBe(403);
});

test("GET /auth/me says whether the e-mail is confirmed, a second factor is enabled, and there is a password", async () => {
  await sql(`update auth_private.accounts set email_confirmed_at = now(), password_hash = null where user_id = 2`);
  await sql("insert into auth_private.factors (user_id, secret, enabled_at) values (2, 'sealed', now())");
  const headers = { authorization: `Bearer ${client.token("bob")}` };
  await expect.poll(async () => (await me(headers)).status, POLL).toBe(401);
  const [{ epoch }] = (await sql("select epoch from auth_private.accounts where user_id = 2")) as [{ epoch: number }];
  const { tokens } = service().service;
  const pair = tokens.issuePair({ id: "2", name: "Bob", role: "authenticated", permissions: [], epoch });
  const { json } = await me(bearer(pair));
  expect(json).toMatchObject({ emailConfirmed: true, mfaEnabled: true, hasPassword: false, session: null });
});

test("GET /auth/me without a user is 401", async () => {
  expect((await me({})).status).toBe(401);
  expect((await me({ apikey: service().service.tokens.issueKey("anon") })).status).toBe(401);
  expect((await new SessionClient(client).send("/auth/sessions")).status).toBe(401);
});

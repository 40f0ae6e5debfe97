import { createHash } from "node:crypto";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { samples } from "../../support/samples.ts";
import { ADA, failureOf, PASSWORD, SessionClient, signedIn } from "./session-client.ts";

const COOKIE = /^SESSION=([A-Za-z0-9_-]{43}); Path=\/; HttpOnly; Secure; SameSite=Strict; Max-Age=1800$/;
const ENDED = "SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0";
const NO_SESSION = [401, "AUTH_REQUIRED", "the session has ended: sign in again"];
const NO_COOKIE = [401, "AUTH_REQUIRED", "login required: sign in at POST /api/auth/login for a session"];
const WRONG = [401, "AUTH_REQUIRED", "wrong username or password"];
/** Longer than a session counts as seen without a word to the database, and than its end takes to be heard of. */
const SOON = { timeout: 120_000, interval: 20 };

const client = useService({ GRAPHQL_DOCUMENTS: "none" });
const { send, sql, service } = client;
const anon = () => service().service.tokens.issueKey("anon");

afterEach(() => sql("delete from auth_private.attempts"));

describe("POST /api/auth/login", () => {
  test("returns the signed-in user, and sets the cookie of the contract", async () => {
    const { status, json, headers } = await new SessionClient(client).login("ada");
    expect([status, json]).toEqual([200, { username: "ada", role: "authenticated", message: "signed in", user: ADA }]);
    expect(headers.getSetCookie()).toEqual([expect.stringMatching(COOKIE)]);
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("accepts the e-mail in any case, and returns the role", async () => {
    const { json } = await new SessionClient(client).login("ADMIN@example.com");
    expect(json).toMatchObject({ username: "admin", role: "admin" });
  });

  test("stores only the SHA-256 of the session id", async () => {
    const { cookie } = await signedIn(client, "ada");
    const id = cookie.slice("SESSION=".length);
    const rows = await sql("select encode(cookie_hash, 'hex') as hash, s::text as row from auth_private.sessions as s");
    expect(rows.map(({ hash }) => hash)).toContain(createHash("sha256").update(id).digest("hex"));
    expect(JSON.stringify(rows)).not.toContain(id);
  });

  test("issues a new session id each time, and never the one that was sent", async () => {
    const browser = new SessionClient(client);
    const preset = `SESSION=${"x".repeat(43)}`;
    browser.cookie = preset;
    await browser.login("ada");
    const first = browser.cookie;
    expect(first).not.toBe(preset);
    await browser.login("ada");
    expect(browser.cookie).not.toBe(first);
    for (const cookie of [preset, first])
      expect((await send("/api/auth/me", { headers: { cookie } })).status).toBe(401);
    expect((await browser.me()).status).toBe(200);
  });

  test("ends the previous session of the user, on every interface", async () => {
    const first = await signedIn(client, "ada");
    const apikey = anon();
    const statuses = async () => [
      (await first.send("/users/1")).status,
      (await first.send("/rest/v1/users?limit=1", undefined, { apikey })).status,
      (await first.send("POST /auth/keys", { name: "x" })).status,
    ];
    expect(await statuses()).toEqual([200, 200, 403]);
    const second = await signedIn(client, "ada");
    await expect.poll(statuses, SOON).toEqual([401, 401, 401]);
    expect(failureOf(await first.me())).toEqual(NO_SESSION);
    expect((await second.me()).status).toBe(200);
  });

  test("leaves one session after several logins of one user at once", async () => {
    const browsers = await Promise.all(Array.from({ length: 4 }, () => signedIn(client, "bob")));
    const living = async () =>
      (await Promise.all(browsers.map(({ cookie }) => send("/api/auth/me", { headers: { cookie } })))).filter(
        ({ status }) => status === 200,
      ).length;
    await expect.poll(living, SOON).toBe(1);
    expect(await sql("select count(*)::int from auth_private.sessions where user_id = 2")).toEqual([{ count: 1 }]);
  });

  test("ends the session of the browser when another user signs in", async () => {
    const browser = await signedIn(client, "ada");
    const { cookie } = browser;
    await browser.login("bob");
    expect((await browser.me()).json.username).toBe("bob");
    expect(failureOf(await send("/api/auth/me", { headers: { cookie } }))).toEqual(NO_SESSION);
  });

  test("does not end the session if the login fails", async () => {
    const browser = await signedIn(client, "ada");
    expect(failureOf(await browser.login("ada", "wrong"))).toEqual(WRONG);
    expect((await browser.me()).status).toBe(200);
  });

  test.each([
    ["a wrong password", "ada", "Wrong-Horse-7!"],
    ["an unknown user", "unknown", PASSWORD],
    ["a wrong password of a disabled account", "carol", "Wrong-Horse-7!"],
  ])("with %s is 401, with the same message and no cookie", async (_what, username, password) => {
    const reply = await new SessionClient(client).login(username, password);
    expect(failureOf(reply)).toEqual(WRONG);
    expect(reply.headers.getSetCookie()).toEqual([]);
    // Browsers would ask for a password themselves.
    expect(reply.headers.get("www-authenticate")).not.toContain("Basic");
  });

  test("with a disabled account is 403, only if the password is right", async () => {
    const reply = await new SessionClient(client).login("carol");
    expect(failureOf(reply)).toEqual([403, "PERMISSION_DENIED", "this account is disabled"]);
    expect(reply.headers.getSetCookie()).toEqual([]);
  });
});

describe("POST /api/auth/logout", () => {
  test("ends the session and deletes the cookie, without a CSRF token", async () => {
    const browser = await signedIn(client, "ada");
    const { cookie } = browser;
    const { status, json, headers } = await browser.send("POST /api/auth/logout");
    expect([status, json, headers.getSetCookie()]).toEqual([200, { message: "signed out" }, [ENDED]]);
    for (const path of ["/api/auth/me", "/users/1", "/csrf-token"])
      expect(failureOf(await send(path, { headers: { cookie } }))).toEqual(NO_SESSION);
    expect(await sql("select from auth_private.sessions where user_id = 1")).toEqual([]);
  });

  test("without a session is 401, and deletes an invalid cookie", async () => {
    expect(failureOf(await send("/api/auth/logout", { method: "POST" }))).toEqual(NO_COOKIE);
    const headers = { cookie: "SESSION=garbage" };
    const reply = await send("/api/auth/logout", { method: "POST", headers });
    expect([...failureOf(reply), ...reply.headers.getSetCookie()]).toEqual([...NO_SESSION, ENDED]);
  });
});

describe("GET /api/auth/me", () => {
  test("returns the user and the login time, and renews the cookie", async () => {
    const browser = await signedIn(client, "ada");
    const { cookie } = browser;
    const { status, json, headers } = await browser.me();
    expect([status, json]).toEqual([
      200,
      { userId: 1, username: "ada", role: "authenticated", loginTime: expect.stringMatching(/^\d{4}-.*Z$/) },
    ]);
    const [stored] = await sql("select started_at from auth_private.sessions where user_id = 1");
    expect(json.loginTime).toBe(stored!.started_at.toISOString());
    expect(headers.getSetCookie()).toEqual([expect.stringMatching(COOKIE)]);
    expect(browser.cookie).toBe(cookie);
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test.each([
    ["nothing", {}],
    ["a token alone", { authorization: "Bearer ada" }],
    ["an empty cookie", { cookie: "SESSION=" }],
    ["another cookie", { cookie: "session=1; OTHER=2" }],
  ])("is 401 for %s, and does not report an ended session", async (_what, headers) => {
    const bearer = "authorization" in headers ? { authorization: `Bearer ${client.token("ada")}` } : {};
    const reply = await send("/api/auth/me", { headers: { ...headers, ...bearer } as Record<string, string> });
    expect([...failureOf(reply), ...reply.headers.getSetCookie()]).toEqual(NO_COOKIE);
    expect(reply.headers.get("www-authenticate")).toBe("Bearer");
  });

  test.each([
    ["an unknown id", `SESSION=${"x".repeat(43)}`],
    ["an id of any length", `SESSION=${"x".repeat(5000)}`],
  ])("is 401 for %s, and deletes the cookie", async (_what, cookie) => {
    const reply = await send("/api/auth/me", { headers: { cookie } });
    expect([...failureOf(reply), ...reply.headers.getSetCookie()]).toEqual([...NO_SESSION, ENDED]);
  });

  test("is 401 for malformed cookies", async () => {
    const value = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
    await fc.assert(
      fc.asyncProperty(value, async (text) => {
        const { status } = await send("/api/auth/me", { headers: { cookie: `SESSION=${text}` } });
        expect(status).toBe(401);
      }),
      { numRuns: samples(50) },
    );
  });
});

test("a session stays when the username changes, or the rights are set as they are", async () => {
  const browser = await signedIn(client, "bob");
  await sql(
    "update auth_private.accounts set username = 'kahn', role = role, password_hash = password_hash where user_id = 2",
  );
  expect((await send("/users/1", { headers: { cookie: browser.cookie } })).status).toBe(200);
  expect(await sql("select username, epoch from auth_private.accounts where user_id = 2")).toEqual([
    { username: "kahn", epoch: (await sql("select epoch from auth_private.sessions where user_id = 2"))[0]!.epoch },
  ]);
  await sql("update auth_private.accounts set username = 'bob' where user_id = 2");
});

test("logins and logouts are recorded as events", async () => {
  const [{ last }] = (await sql("select coalesce(max(id), 0) as last from security_events")) as [{ last: string }];
  const browser = await signedIn(client, "ada");
  await browser.login("ada", "wrong");
  await browser.send("POST /api/auth/logout");
  const events = await sql(
    "select event, user_id::int as user, detail from security_events where id > $1 order by id",
    last,
  );
  expect(events).toEqual([
    { event: "login", user: 1, detail: { by: "session" } },
    { event: "login_failed", user: 1, detail: {} },
    { event: "logout", user: 1, detail: { by: "session", scope: "local" } },
  ]);
});

import { beforeEach, describe, expect, test } from "vitest";
import { send } from "../../support/http-client.ts";
import { IdentityProvider, signInAt } from "../../support/identity-provider.ts";
import { type ApiReply, type ApiSent, sendTo } from "../../support/resource-client.ts";
import { appCode } from "../../support/totp.ts";
import { WebClient } from "../../support/web-client.ts";
import { CHALLENGE, continuationOf, hasSession, oidcEntry, outcomeOf, useFederated, VERIFIER } from "./support.ts";

const PASSWORD = "Correct-Horse-7!";

const client = useFederated({
  entries: (idp) => [
    oidcEntry(idp, { title: "Acme" }),
    oidcEntry(idp, { name: "closed", signUp: false }),
    oidcEntry(idp, { name: "staff", require: { groups: ["staff", "board"], email_verified: true } }),
  ],
  settings: { AUTH_RETURN_ORIGINS: "https://app.example.com", LOGIN_ATTEMPTS: "1000", mfaAttempts: 1000 },
});

let browser: WebClient;
/** A new person at the provider for each test. */
let login: string;
let people = 0;
beforeEach(() => {
  browser = new WebClient();
  login = `person${++people}`;
  client.idp().people[login] = {
    name: `Person ${people}`,
    email: `${login}@acme.example`,
    groups: ["staff"],
    email_verified: true,
  };
  client.log();
});

const url = (path = "") => client.service().url + path;
const api = (request: string, sent: Omit<ApiSent, "as"> = {}): Promise<ApiReply> => sendTo(url(), request, sent);
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
/** A new sign-in of a demo account. */
const as = async (user: "ada" | "bob", signIn = {}) => {
  const [{ epoch }] = await client.sql("select epoch from auth_private.accounts where username = $1", user);
  return bearer(client.service().token(user, { epoch, ...signIn }));
};
const failureOf = ({ status, json }: ApiReply) => [status, json?.error?.code, json?.error?.message];
const signIn = (path = "/auth/oidc/acme") => client.signIn(browser, path, login);
const userId = async () => (await browser.request(url("/api/auth/me"))).json.userId;
const eventsOf = (event: string) =>
  client.sql("select user_id, detail from security_events where event = $1 order by id desc", event);

/** Signs in with a sign-in code, which the client then exchanges. */
async function codeFor(mode: "token" | "link", returnTo = "/app"): Promise<string> {
  const page = await signIn(
    `/auth/oidc/acme?mode=${mode}&return_to=${encodeURIComponent(returnTo)}&code_challenge=${CHALLENGE}`,
  );
  return new URL(continuationOf(page)!).searchParams.get("sign_in_code")!;
}
const exchange = async (signInCode: string, codeVerifier = VERIFIER) =>
  api("POST /auth/federated/token", { body: { signInCode, codeVerifier } });
const tokensOf = async () => (await exchange(await codeFor("token"))).json;
const link = async (headers: Record<string, string>, more = {}) =>
  api("POST /auth/identities", {
    headers,
    body: { signInCode: await codeFor("link"), codeVerifier: VERIFIER, ...more },
  });

describe("the account", () => {
  test("of a new identity is created with the name and the e-mail of the provider, and without a password", async () => {
    await signIn();
    const id = await userId();
    expect(await client.sql("select name, email, age from users where id = $1", id)).toEqual([
      { name: `Person ${people}`, email: `${login}@acme.example`, age: null },
    ]);
    const [identity] = await client.sql("select * from auth_private.identities where user_id = $1", id);
    expect(identity).toMatchObject({
      provider: "acme",
      issuer: client.idp().url,
      subject: login,
      email: `${login}@acme.example`,
    });
    expect(
      await client.sql("select password_hash, username from auth_private.accounts where user_id = $1", id),
    ).toEqual([{ password_hash: null, username: null }]);
    for (const password of ["", "null", PASSWORD])
      expect(
        (await api("POST /auth/login", { body: { username: `${login}@acme.example`, password } })).status,
      ).toBeGreaterThanOrEqual(400);
  });

  test("is the same at the next sign-in, by issuer and subject, whatever the name and the e-mail are then", async () => {
    await signIn();
    const id = await userId();
    client.idp().people[login] = { name: "Another Name", email: "ada@example.com" };
    browser = new WebClient();
    await signIn();
    expect(await userId()).toBe(id);
    expect(await client.sql("select name, email from users where id = $1", id)).toEqual([
      { name: `Person ${people}`, email: `${login}@acme.example` },
    ]);
  });

  test.each(["ada@example.com", "ADA@Example.Com", "reserved@example.com"])(
    "of another user is never used because of the e-mail %s",
    async (email) => {
      await client.sql(`insert into auth_private.login_emails (user_id, email, released_at)
        values (1, 'reserved@example.com', now()) on conflict do nothing`);
      client.idp().people[login] = { name: "Ada", email, email_verified: true };
      const page = await signIn();
      expect([outcomeOf(page), hasSession(page)]).toEqual(["409 You are not signed in", false]);
      expect(page.text).toContain("Another account has this e-mail.");
      expect(await client.sql("select from auth_private.identities where user_id = 1")).toEqual([]);
    },
  );

  test("of a subject in other letters is another one", async () => {
    await signIn();
    const id = await userId();
    const other = login.toUpperCase();
    client.idp().people[other] = { name: "Other", email: `other.${login}@acme.example` };
    browser = new WebClient();
    await client.signIn(browser, "/auth/oidc/acme", other);
    expect([hasSession(await browser.request(url("/api/auth/me"))), (await userId()) === id]).toEqual([true, false]);
  });

  test("of the same subject at another provider is another one", async () => {
    await signIn();
    const other = await IdentityProvider.start();
    try {
      other.people[login] = { name: "Mallory", email: "mallory@evil.example" };
      await client.configure([oidcEntry(client.idp()), oidcEntry(other, { name: "evil" })]);
      await client.service().service.reloadSettings();
      await other.register({ redirectUris: [url("/auth/oidc/evil/callback")] });
      const mallory = new WebClient();
      const { url: callback } = await signInAt(mallory, url("/auth/oidc/evil"), login);
      expect(hasSession(await mallory.request(callback))).toBe(true);
      const { json } = await mallory.request(url("/api/auth/me"));
      expect([json.username, json.userId === (await userId())]).toEqual(["mallory@evil.example", false]);
    } finally {
      other.close();
      await client.configure([
        oidcEntry(client.idp(), { title: "Acme" }),
        oidcEntry(client.idp(), { name: "closed", signUp: false }),
        oidcEntry(client.idp(), { name: "staff", require: { groups: ["staff", "board"], email_verified: true } }),
      ]);
      await client.service().service.reloadSettings();
    }
  });

  test("is created once if the first sign-in happens twice at once", async () => {
    const [one, two] = [new WebClient(), new WebClient()];
    const callbacks = [await client.respond(one, undefined, login), await client.respond(two, undefined, login)];
    const pages = await Promise.all([one.request(callbacks[0]!), two.request(callbacks[1]!)]);
    expect(pages.map(({ status }) => status)).toEqual([200, 200]);
    expect(await client.sql("select from users where email = $1", `${login}@acme.example`)).toHaveLength(1);
  });

  test("is not created if the provider may not sign users up", async () => {
    const page = await signIn("/auth/oidc/closed");
    expect(outcomeOf(page)).toBe("403 You are not signed in");
    expect(page.text).toContain("This identity is not linked to an account.");
    // Of the same issuer: the identity is the same.
    await signIn();
    expect(outcomeOf(await client.signIn(new WebClient(), "/auth/oidc/closed", login))).toBe("200 You are signed in");
  });

  test.each([
    ["without an e-mail", { email: undefined }],
    ["with an empty e-mail", { email: "" }],
    ["with an e-mail that is none", { email: "not an e-mail" }],
    ["with an e-mail of 300 characters", { email: `${"x".repeat(300)}@acme.example` }],
    ["with an e-mail that is no text", { email: { a: 1 } }],
    ["with NUL in the e-mail", { email: "a\0b@acme.example" }],
    ["with NUL in the name", { name: "a\0b" }],
  ])("is not created %s", async (_, person) => {
    client.idp().people[login] = { ...client.idp().people[login], ...person };
    const page = await signIn();
    expect([outcomeOf(page), hasSession(page)]).toEqual(["403 You are not signed in", false]);
  });

  test("has the first 200 characters of a long name, or the part of the e-mail before the @", async () => {
    client.idp().people[login] = { ...client.idp().people[login], name: "🦉".repeat(300) };
    await signIn();
    expect((await client.sql("select name from users where id = $1", await userId()))[0].name).toBe("🦉".repeat(200));
    const other = `person${++people}`;
    client.idp().people[other] = { email: `${other}@acme.example` };
    browser = new WebClient();
    await client.signIn(browser, undefined, other);
    expect((await client.sql("select name from users where id = $1", await userId()))[0].name).toBe(other);
  });

  test("is not used without the claims that the provider's entry requires", async () => {
    expect(outcomeOf(await signIn("/auth/oidc/staff"))).toBe("200 You are signed in");
    for (const groups of [["guests"], [], "sta", undefined, { staff: true }]) {
      client.idp().people[login] = { ...client.idp().people[login], groups };
      expect(outcomeOf(await client.signIn(new WebClient(), "/auth/oidc/staff", login))).toBe(
        "403 You are not signed in",
      );
    }
    client.idp().people[login] = { ...client.idp().people[login], groups: "board", email_verified: false };
    expect(outcomeOf(await client.signIn(new WebClient(), "/auth/oidc/staff", login))).toBe(
      "403 You are not signed in",
    );
    expect(client.log().at(-1)).toMatchObject({
      reason: "not admitted",
      detail: expect.stringContaining("email_verified"),
    });
  });

  test("is refused if it is disabled, and the refusal is recorded", async () => {
    await signIn();
    const id = await userId();
    await client.sql("update auth_private.accounts set disabled_at = now() where user_id = $1", id);
    const page = await signIn();
    expect([outcomeOf(page), hasSession(page)]).toEqual(["403 You are not signed in", false]);
    expect((await eventsOf("login_refused"))[0]).toEqual({
      user_id: String(id),
      detail: { reason: "disabled", provider: "acme" },
    });
  });

  test("is not created if a trigger of the database refuses the user, whose message the page shows", async () => {
    await client.sql(`
      create function public.only_acme() returns trigger language plpgsql as $$
      begin
        if new.email like '%@rejected.example' then raise exception 'only people of Acme <may> sign up'; end if;
        return new;
      end $$;
      create trigger only_acme before insert on public.users for each row execute function public.only_acme()`);
    client.idp().people[login] = { ...client.idp().people[login], email: `${login}@rejected.example` };
    const page = await signIn();
    expect(outcomeOf(page)).toBe("400 You are not signed in");
    expect(page.text).toContain("Only people of Acme &#60;may&#62; sign up.");
  });
});

test("sign-ins and refusals are security events with the name of the provider, and without secrets", async () => {
  await signIn();
  const id = String(await userId());
  expect((await eventsOf("registered"))[0]).toEqual({ user_id: id, detail: { provider: "acme" } });
  expect((await eventsOf("login"))[0]).toEqual({ user_id: id, detail: { by: "session", provider: "acme" } });
  client.idp().people[login] = { ...client.idp().people[login], groups: [] };
  await signIn("/auth/oidc/staff");
  expect((await eventsOf("login_failed"))[0]).toEqual({
    user_id: null,
    detail: { provider: "staff", reason: "not admitted" },
  });
});

describe("mode=token", () => {
  test("returns a pair of tokens in the response to the provider, for programs that follow the redirects", async () => {
    const page = await signIn("/auth/oidc/acme?mode=token&return_to=/app");
    expect(page.json).toEqual({
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      expiresIn: 3600,
      tokenType: "Bearer",
      user: expect.objectContaining({ mfaEnabled: false, hasPassword: false }),
      returnTo: url("/app"),
    });
    expect([hasSession(page), page.headers.get("cache-control")]).toEqual([false, "no-store"]);
    expect((await api("GET /auth/identities", { headers: bearer(page.json.accessToken) })).json.data).toHaveLength(1);
    const { json } = await api("POST /auth/refresh", { body: { refreshToken: page.json.refreshToken } });
    expect(json.accessToken).toEqual(expect.any(String));
  });

  test("with a code challenge, gives the page a code that it exchanges once, with the verifier", async () => {
    const code = await codeFor("token", "https://app.example.com/signed-in?x=1#y");
    expect((await exchange(code, "another-verifier-0123456789-0123456789-0123456789")).status).toBe(401);
    const { status, json } = await exchange(code);
    expect([status, json.tokenType]).toEqual([200, "Bearer"]);
    expect(failureOf(await exchange(code)).slice(0, 2)).toEqual([401, "INVALID_TOKEN"]);
    expect((await eventsOf("login"))[0].detail).toEqual({ by: "token", provider: "acme" });
  });

  test("keeps path and query of return_to, on an allowed origin", async () => {
    const page = await signIn(
      `/auth/oidc/acme?mode=token&return_to=${encodeURIComponent("https://app.example.com/a?x=1#y")}&code_challenge=${CHALLENGE}`,
    );
    expect(continuationOf(page)).toMatch(/^https:\/\/app\.example\.com\/a\?x=1&sign_in_code=[\w-]{43}#y$/);
    expect(page.headers.getSetCookie()).toEqual([]);
  });

  test("gives a code that is exchanged once, even if several requests arrive at once", async () => {
    const code = await codeFor("token");
    const replies = await Promise.all([1, 2, 3, 4].map(() => exchange(code)));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401]);
  });

  test("gives a code that expires after a minute", async () => {
    const code = await codeFor("token");
    await client.sql("update auth_private.one_time_values set expires_at = now() where kind = 'code'");
    expect((await exchange(code)).status).toBe(401);
  });

  test("the database cannot read what a code stands for", async () => {
    await codeFor("token");
    const [{ text }] = await client.sql(
      "select string_agg(v::text, '') as text from auth_private.one_time_values as v",
    );
    expect(text).not.toContain(login);
  });

  test.each([
    [{}, 400],
    [{ signInCode: "x" }, 400],
    [{ signInCode: "x", codeVerifier: "short" }, 400],
    [{ signInCode: "x", codeVerifier: "!".repeat(50) }, 400],
    [{ signInCode: "x", codeVerifier: VERIFIER }, 401],
  ])("%j is not exchanged", async (body, status) => {
    expect((await api("POST /auth/federated/token", { body })).status).toBe(status);
  });
});

describe("an account with a second factor", () => {
  let secret: string;
  let backupCodes: string[];
  beforeEach(async () => {
    const tokens = await tokensOf();
    const headers = bearer(tokens.accessToken);
    secret = (await api("POST /api/mfa/enable", { headers })).json.secret;
    const code = appCode(secret, Date.now());
    backupCodes = (await api("POST /api/mfa/verify", { headers, body: { code } })).json.backupCodes;
    browser = new WebClient();
  });

  test("needs the code after a sign-in at the provider, on a page that asks again after a wrong one", async () => {
    const page = await signIn("/auth/oidc/acme?return_to=/app");
    expect([outcomeOf(page), hasSession(page)]).toEqual(["200 One more step", false]);
    for (const [code, status] of [
      ["", 400],
      ["abc", 400],
      ["000000", 401],
    ] as const) {
      const again = await browser.submit(page, { code });
      expect([outcomeOf(again), hasSession(again)]).toEqual([`${status} One more step`, false]);
    }
    const done = await browser.submit(page, { code: appCode(secret, Date.now() + 30_000) }, /\/app$/);
    expect([done.status, done.url, hasSession(done)]).toEqual([303, url("/app"), true]);
    expect((await eventsOf("login"))[0].detail).toEqual({ by: "session", provider: "acme" });

    const replayed = await browser.submit(page, { code: backupCodes[0]! });
    expect([outcomeOf(replayed), hasSession(replayed)]).toEqual(["401 You are not signed in", false]);
  });

  test("accepts a backup code there", async () => {
    const page = await signIn();
    expect(hasSession(await browser.submit(page, { code: backupCodes[0]! }, /account$/))).toBe(true);
  });

  test("does not accept the code from a page of another origin, or with the challenge of a password", async () => {
    const page = await signIn();
    const [, challenge] = /name="challenge" value="([^"]*)"/.exec(page.text)!;
    const body = new URLSearchParams({ challenge: challenge!, code: backupCodes[0]! });
    const foreign = await browser.request(url("/auth/sign-in/code"), {
      method: "POST",
      body,
      headers: { origin: "https://evil.example" },
    });
    expect([outcomeOf(foreign), hasSession(foreign)]).toEqual(["403 You are not signed in", false]);
    const account = await client.sql(
      "select a.user_id::text as id, a.epoch from auth_private.accounts as a join users as u on u.id = a.user_id where u.email = $1",
      `${login}@acme.example`,
    );
    const ofPassword = client.service().service.tokens.issueChallenge(account[0]);
    const other = await browser.request(url("/auth/sign-in/code"), {
      method: "POST",
      body: new URLSearchParams({ challenge: ofPassword, code: backupCodes[1]! }),
    });
    expect([outcomeOf(other), hasSession(other)]).toEqual(["401 You are not signed in", false]);
  });

  test("is challenged in JSON if tokens are wanted, and completes the login with the code", async () => {
    const inResponse = await signIn("/auth/oidc/acme?mode=token");
    expect([inResponse.status, inResponse.json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    const { status, json } = await exchange(await codeFor("token"));
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    const body = { challenge: json.challenge, code: appCode(secret, Date.now() + 30_000) };
    expect((await api("POST /auth/login", { body })).status).toBe(200);
  });

  test("is asked for the code on a page if a person opens the sign-in for tokens in a browser, and gets them then", async () => {
    const callback = await client.respond(browser, "/auth/oidc/acme?mode=token", login);
    const cookie = [...browser.cookies].map(([key, value]) => `${key.split(" ")[1]}=${value}`).join("; ");
    // fetch has a mode of its own.
    const reply = await send(callback, { headers: { cookie, accept: "text/html", "sec-fetch-mode": "navigate" } });
    const page = { ...reply, url: callback };
    expect([outcomeOf(page), hasSession(page)]).toEqual(["200 One more step", false]);
    const done = await browser.submit(page, { code: backupCodes[0]! });
    expect([done.status, done.json.tokenType, hasSession(done)]).toEqual([200, "Bearer", false]);
    expect((await api("GET /auth/me", { headers: bearer(done.json.accessToken) })).status).toBe(200);
  });

  test("without a password, confirms changes of the factor with a recent sign-in and a code", async () => {
    const { json } = await exchange(await codeFor("token"));
    const signedIn = await api("POST /auth/login", { body: { challenge: json.challenge, code: backupCodes[0] } });
    const headers = bearer(signedIn.json.accessToken);
    const renew = (body: object) => api("POST /api/mfa/backup-codes", { headers, body });
    expect((await renew({})).status).toBe(401);
    expect((await renew({ code: backupCodes[1] })).status).toBe(200);
  });
});

describe("linking", () => {
  test("adds an identity to the account of the caller, with which the user signs in from then on", async () => {
    const { status, json, headers } = await link(await as("ada"));
    expect([status, headers.get("location")]).toEqual([201, `/auth/identities/${json.id}`]);
    expect(json).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      provider: "acme",
      email: `${login}@acme.example`,
      linkedAt: expect.any(String),
      lastUsedAt: null,
    });
    expect((await eventsOf("identity_linked"))[0]).toEqual({
      user_id: "1",
      detail: { provider: "acme", identity: json.id },
    });
    await signIn();
    expect(await userId()).toBe(1);
    expect((await api("GET /auth/identities", { headers: await as("ada") })).json.data[0].lastUsedAt).toEqual(
      expect.any(String),
    );
  });

  test("again changes nothing, and an identity of another account is refused", async () => {
    const first = await link(await as("ada"));
    const again = await link(await as("ada"));
    expect([again.status, again.json.id]).toEqual([201, first.json.id]);
    expect(failureOf(await link(await as("bob")))).toEqual([
      409,
      "RESOURCE_CONFLICT",
      "this identity is linked to another account",
    ]);
    await signIn();
    expect(await userId()).toBe(1);
  });

  test("needs a recent sign-in or the password, and no API key may do it", async () => {
    const old = await as("ada", { signedInAt: Date.now() - 700_000 });
    expect(failureOf(await link(old)).slice(0, 2)).toEqual([401, "PASSWORD_REQUIRED"]);
    expect((await link(old, { password: "wrong" })).status).toBe(403);
    expect((await link(old, { password: PASSWORD })).status).toBe(201);
    const { json } = await api("POST /auth/keys", { headers: await as("ada"), body: { name: "x" } });
    expect((await link({ "x-api-key": json.key })).status).toBe(403);
    expect((await link({})).status).toBe(401);
  });

  test("needs a code of a start with mode=link, which cannot sign in", async () => {
    const ofToken = await codeFor("token");
    const wrong = await api("POST /auth/identities", {
      headers: await as("ada"),
      body: { signInCode: ofToken, codeVerifier: VERIFIER },
    });
    expect(wrong.status).toBe(401);
    expect((await exchange(await codeFor("link"))).status).toBe(401);
  });

  test("is limited to 20 identities", async () => {
    await client.sql(`insert into auth_private.identities (user_id, provider, issuer, subject, linked_at)
      select 2, 'x', 'https://x.example', n::text, now() from generate_series(1, 20) as n`);
    expect(failureOf(await link(await as("bob")))[2]).toContain("20 identities already");
    await client.sql("delete from auth_private.identities where user_id = 2");
  });
});

describe("unlinking", () => {
  const unlink = (id: string, headers: Record<string, string>) => api(`DELETE /auth/identities/${id}`, { headers });

  test("removes an identity, and ends all other sign-ins of the user", async () => {
    const { json } = await link(await as("bob"));
    const own = (await api("POST /auth/login", { body: { username: "bob", password: PASSWORD } })).json.accessToken;
    const other = (await api("POST /auth/login", { body: { username: "bob", password: PASSWORD } })).json.accessToken;
    expect((await unlink(json.id, bearer(own))).status).toBe(204);
    expect((await api("GET /auth/identities", { headers: bearer(own) })).json.data).toEqual([]);
    expect((await api("GET /auth/identities", { headers: bearer(other) })).status).toBe(401);
    expect((await eventsOf("identity_unlinked"))[0]).toEqual({
      user_id: "2",
      detail: { provider: "acme", identity: json.id },
    });
    expect(outcomeOf(await client.signIn(new WebClient(), "/auth/oidc/closed", login))).toBe(
      "403 You are not signed in",
    );
  });

  test("of the last way to sign in is refused, until there is a password or another identity", async () => {
    const { accessToken } = await tokensOf();
    const headers = bearer(accessToken);
    const [{ id }] = (await api("GET /auth/identities", { headers })).json.data;
    const last = [
      409,
      "RESOURCE_CONFLICT",
      "this identity is the last way to sign in: set a password or link another first",
    ];
    expect(failureOf(await unlink(id, headers))).toEqual(last);

    // An identity of a provider that is not configured is no way to sign in.
    await client.sql(
      `insert into auth_private.identities (user_id, provider, issuer, subject, linked_at)
      select user_id, 'gone', 'https://gone.example', 'x', now() from auth_private.identities where id = $1`,
      id,
    );
    expect(failureOf(await unlink(id, headers))).toEqual(last);

    const changed = await api("POST /auth/password", { headers, body: { newPassword: "Correct-Horse-8!" } });
    expect(changed.status).toBe(200);
    expect((await unlink(id, bearer(changed.json.accessToken))).status).toBe(204);
    const body = { username: `${login}@acme.example`, password: "Correct-Horse-8!" };
    expect((await api("POST /auth/login", { body })).status).toBe(200);
  });

  test("of both identities at once leaves one of them", async () => {
    const { accessToken } = await tokensOf();
    const headers = bearer(accessToken);
    const second = `person${++people}`;
    client.idp().people[second] = { name: "Second", email: `${second}@acme.example` };
    login = second;
    browser = new WebClient();
    expect((await link(headers)).status).toBe(201);
    const { data } = (await api("GET /auth/identities", { headers })).json;
    const replies = await Promise.all(data.map(({ id }: { id: string }) => unlink(id, headers)));
    expect(replies.map(({ status }) => status).sort()).toEqual([204, 409]);
  });

  test("needs a recent sign-in, and reaches only identities of the caller", async () => {
    const { json } = await link(await as("ada"));
    const old = await as("ada", { signedInAt: Date.now() - 700_000 });
    expect(failureOf(await unlink(json.id, old)).slice(0, 2)).toEqual([401, "PASSWORD_REQUIRED"]);
    expect(failureOf(await unlink(json.id, await as("bob")))).toEqual([
      404,
      "RESOURCE_NOT_FOUND",
      "there is no identity with this id",
    ]);
    expect(failureOf(await unlink("x", await as("ada"))).slice(0, 2)).toEqual([400, "INVALID_ID"]);
  });
});

test("an account without a password gets its first one with a recent sign-in", async () => {
  const { accessToken } = await tokensOf();
  const set = (headers: Record<string, string>) =>
    api("POST /auth/password", { headers, body: { newPassword: "Correct-Horse-8!" } });
  const [{ user_id: id, epoch }] = await client.sql(
    "select user_id, epoch from auth_private.accounts order by user_id desc limit 1",
  );
  const { tokens } = client.service().service;
  const user = { id: String(id), name: "x", role: "authenticated", permissions: [], epoch };
  const old = tokens.issuePair(user, { signedInAt: Date.now() - 700_000, refreshToken: tokens.issueRefresh(user.id) });
  expect(failureOf(await set(bearer(old.accessToken)))).toEqual([
    401,
    "PASSWORD_REQUIRED",
    "the sign-in is older than 600 seconds: sign in again",
  ]);
  expect((await set(bearer(accessToken))).status).toBe(200);
  expect(failureOf(await set(await as("ada"))).slice(0, 2)).toEqual([400, "MISSING_FIELD"]);
});

test("GET /auth/providers lists the providers for a page that offers them", async () => {
  const { status, json } = await api("GET /auth/providers");
  expect([status, json.data[0]]).toEqual([
    200,
    { name: "acme", title: "Acme", kind: "oidc", signIn: "/auth/oidc/acme" },
  ]);
});

describe("a start is refused", () => {
  test.each([
    ["?mode=cookie", "mode"],
    ["?return_to=/a&return_to=/b", "return_to"],
    ["?returnTo=/a", "returnTo"],
    ["?mode=link", "code_challenge"],
    [`?mode=session&code_challenge=${CHALLENGE}`, "code_challenge"],
    [`?mode=token&code_challenge=${CHALLENGE}`, "return_to"],
    ["?mode=token&return_to=/a&code_challenge=short", "code_challenge"],
    [`?mode=token&return_to=/a&code_challenge=${CHALLENGE}&code_challenge_method=plain`, "code_challenge_method"],
  ])("%s", async (search, parameter) => {
    const { status, json } = await browser.request(url(`/auth/oidc/acme${search}`), {
      headers: { accept: "application/json" },
    });
    expect([status, json.error.code, json.error.details?.[0].field ?? parameter]).toEqual([
      400,
      "BAD_REQUEST",
      parameter,
    ]);
  });

  /** Every way in which a browser could read a path as the URL of another host. */
  const FOREIGN = [
    ...[
      "//evil.example",
      "/\\evil.example",
      "\\\\evil.example",
      "/\t/evil.example",
      "/\n/evil.example",
      " //evil.example",
    ],
    ...[
      "https://evil.example",
      "https:evil.example",
      "https:/evil.example",
      "HTTPS://evil.example",
      "http:\\\\evil.example",
    ],
    ...["javascript:alert(1)", "data:text/html,x", "ftp://app.example.com", "app.example.com", "", "a", "?a", "#a"],
    ...["https://app.example.com.evil.example", "https://app.example.com@evil.example", "https://a:b@app.example.com"],
    ...["http://app.example.com", "https://app.example.com:444", "/a b", "/\u0000", `/${"a".repeat(2001)}`],
  ];
  test.each(FOREIGN)("with return_to=%j", async (target) => {
    const path = `/auth/oidc/acme?return_to=${encodeURIComponent(target)}`;
    const page = await browser.request(url(path));
    expect([outcomeOf(page), page.headers.get("location")]).toEqual(["400 You are not signed in", null]);
  });

  test("unless return_to stays on an allowed origin, however it is written", async () => {
    for (const [target, expected] of [
      ["/..//evil.example", url("//evil.example")],
      ["/a/../b?x=//evil.example#y", url("/b?x=//evil.example#y")],
      ["/%5Cevil.example", url("/%5Cevil.example")],
      ["https://APP.example.com/a", "https://app.example.com/a"],
    ] as const) {
      const page = await client.signIn(
        new WebClient(),
        `/auth/oidc/acme?return_to=${encodeURIComponent(target)}`,
        login,
      );
      expect(continuationOf(page)).toBe(expected);
    }
  });
});

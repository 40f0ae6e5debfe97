import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { OAuthServer } from "../../support/oauth-server.ts";
import { WebClient, type WebPage } from "../../support/web-client.ts";
import { hasSession, outcomeOf, useFederated } from "./support.ts";

let oauth: OAuthServer;
const client = useFederated({ entries: () => [] });
beforeAll(async () => {
  oauth = await OAuthServer.start();
  const path = {
    name: "nested",
    userinfoUrl: `${oauth.url}/user?v=2`,
    claims: { subject: "data.uid", name: ["data.nick", "data.full"], email: "data.mail[0]" },
  };
  await client.configure([oauth.entry(), oauth.entry(path)]);
  await client.service().service.reloadSettings();
});
afterAll(() => oauth?.close());
const PROFILE = { id: 4711, login: "mary", name: "Mary Somerville", email: "mary@legacy.example" };
afterEach(() => {
  oauth.tamper = null;
  oauth.profile = PROFILE;
});

const signIn = (browser = new WebClient(), name = "legacy"): Promise<WebPage> =>
  browser.follow(`${client.service().url}/auth/oauth2/${name}`);

test("the code is exchanged with the form fields of the contract, and the profile is that of the userinfo endpoint", async () => {
  oauth.exchanges = [];
  const browser = new WebClient();
  const page = await signIn(browser);
  expect([outcomeOf(page), hasSession(page)]).toEqual(["200 You are signed in", true]);
  expect(oauth.exchanges).toEqual([
    {
      grant_type: "authorization_code",
      code: expect.any(String),
      redirect_uri: `${client.service().url}/auth/oauth2/legacy/callback`,
      code_verifier: expect.stringMatching(/^[\w-]{43}$/),
      client_id: "content",
      client_secret: "a secret of the client",
    },
  ]);
  const { json } = await browser.request(`${client.service().url}/api/auth/me`);
  expect(json.username).toBe("mary@legacy.example");
  const [identity] = await client.sql("select issuer, subject from auth_private.identities");
  expect(identity).toEqual({ issuer: `${oauth.url}/token`, subject: "4711" });
  const again = new WebClient();
  await signIn(again);
  expect((await again.request(`${client.service().url}/api/auth/me`)).json.userId).toBe(json.userId);
});

test("the authorization request keeps the parameters of the URL, and has scopes, state and PKCE but no nonce", async () => {
  const page = await new WebClient().request(`${client.service().url}/auth/oauth2/legacy`);
  const location = new URL(page.headers.get("location")!);
  expect([...location.searchParams.keys()].sort()).toEqual([
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "tenant",
  ]);
  expect(location.searchParams.get("scope")).toBe("user:read");
});

test("the claims of the profile may be anywhere in it", async () => {
  oauth.profile = { data: { uid: "u-1", full: "Nested Name", mail: ["nested@legacy.example", "x"] } };
  const page = await signIn(new WebClient(), "nested");
  expect(hasSession(page)).toBe(true);
  const [user] = await client.sql(
    "select u.name, i.subject from users as u join auth_private.identities as i on i.user_id = u.id where u.email = 'nested@legacy.example'",
  );
  expect(user).toEqual({ name: "Nested Name", subject: "u-1" });
});

test.each<[string, () => void, string]>([
  ["a profile without a subject", () => (oauth.profile = { name: "x", email: "x@legacy.example" }), "401"],
  ["a profile that is a list", () => (oauth.profile = [PROFILE]), "401"],
  ["a profile that is null", () => (oauth.profile = null), "401"],
  ["a subject that is an object", () => (oauth.profile = { ...PROFILE, id: { a: 1 } }), "401"],
  ["a subject of 501 characters", () => (oauth.profile = { ...PROFILE, id: "x".repeat(501) }), "401"],
  ["an unsafe number as the subject", () => (oauth.profile = { ...PROFILE, id: 2 ** 60 }), "401"],
  [
    "a profile that is refused",
    () => (oauth.tamper = (path, body) => (path === "/user" ? { status: 403, body } : null)),
    "503",
  ],
  [
    "a profile that is no JSON",
    () => (oauth.tamper = (path) => (path === "/user" ? { body: Buffer.from("Secret") } : null)),
    "503",
  ],
  [
    "a token response that is an error",
    () => (oauth.tamper = (path) => (path === "/token" ? { status: 400, body: { error: "invalid_grant" } } : null)),
    "401",
  ],
  [
    "a token response without a token",
    () => (oauth.tamper = (path) => (path === "/token" ? { body: { token_type: "bearer" } } : null)),
    "401",
  ],
  [
    "a token of another type",
    () => (oauth.tamper = (path, body) => (path === "/token" ? { body: { ...body, token_type: "mac" } } : null)),
    "401",
  ],
  [
    "a failure of the provider",
    () => (oauth.tamper = (path) => (path === "/token" ? { status: 500, body: {} } : null)),
    "401",
  ],
])("%s does not sign in", async (_, arrange, status) => {
  arrange();
  const page = await signIn();
  expect([outcomeOf(page), hasSession(page)]).toEqual([`${status} You are not signed in`, false]);
  // The log quotes nothing that the provider has sent.
  expect(JSON.stringify(client.log())).not.toContain("Secret");
});

test("a code, or a state, works once, and only in the browser that has begun", async () => {
  const browser = new WebClient();
  const { url } = await browser.follow(`${client.service().url}/auth/oauth2/legacy`, /callback\?/);
  const foreign = new WebClient();
  await foreign.follow(`${client.service().url}/auth/oauth2/legacy`, /callback\?/);
  expect(outcomeOf(await foreign.request(url))).toBe("401 You are not signed in");
  expect(outcomeOf(await browser.request(url))).toBe("200 You are signed in");
  expect(outcomeOf(await browser.request(url))).toBe("401 You are not signed in");

  const swapped = new URL((await browser.follow(`${client.service().url}/auth/oauth2/legacy`, /callback\?/)).url);
  const { searchParams } = new URL(
    (await foreign.follow(`${client.service().url}/auth/oauth2/legacy`, /callback\?/)).url,
  );
  // A code of the attacker in the flow of the victim: it belongs to another code challenge.
  swapped.searchParams.set("code", searchParams.get("code")!);
  expect(outcomeOf(await browser.request(swapped.href))).toBe("401 You are not signed in");
});

import { beforeEach, expect, test } from "vitest";
import { sendTo } from "../../../support/resource-client.ts";
import { WebClient } from "../../../support/web-client.ts";
import { oidcEntry, outcomeOf, useFederated } from "./support.ts";

const client = useFederated({ entries: (idp) => [oidcEntry(idp)] });

let browser: WebClient;
beforeEach(() => {
  browser = new WebClient();
});
const url = (path = "") => client.service().url + path;
const LOGOUT = "/auth/oidc/acme/logout";
const isSignedIn = async (from = browser) => (await from.request(url("/api/auth/me"))).status === 200;
/** Leaves the page of the provider that asks whether to sign out. */
const confirmAtProvider = async (location: string) => {
  const page = await browser.follow(location, /\/auth\/oidc\/acme\/logout/);
  return browser.submit(page, { logout: "yes" }, /\/auth\/oidc\/acme\/logout/);
};

test("a link ends the session here, then at the provider, and returns to the page that the link has named", async () => {
  await client.signIn(browser);
  const page = await browser.request(url(`${LOGOUT}?return_to=/bye`));
  expect(page.status).toBe(303);
  const location = new URL(page.headers.get("location")!);
  expect(location.origin + location.pathname).toBe(`${client.idp().url}/session/end`);
  expect(Object.fromEntries(location.searchParams)).toEqual({
    client_id: "content",
    post_logout_redirect_uri: url(LOGOUT),
    state: expect.stringMatching(/^[\w-]{43}$/),
    id_token_hint: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
  });
  expect(await isSignedIn()).toBe(false);

  const back = await confirmAtProvider(location.href);
  const done = await browser.request(back.url);
  expect([done.status, done.headers.get("location")]).toEqual([303, url("/bye")]);
  // The provider asks for the password again.
  const again = await browser.follow(url("/auth/oidc/acme"), /callback\?/);
  expect(again.url).not.toMatch(/callback\?/);
});

test("the response of the provider works once; otherwise a page says that the user is signed out", async () => {
  await client.signIn(browser);
  const { headers } = await browser.request(url(`${LOGOUT}?return_to=/bye`));
  const back = await confirmAtProvider(headers.get("location")!);
  expect((await browser.request(back.url)).status).toBe(303);
  for (const again of [back.url, url(`${LOGOUT}?state=x`), url(`${LOGOUT}?state=${"x".repeat(43)}`)])
    expect(outcomeOf(await browser.request(again))).toBe("200 You are signed out");
});

test("a page of another origin cannot sign the user out", async () => {
  await client.signIn(browser);
  for (const headers of [
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { origin: "https://evil.example" },
  ] as Record<string, string>[])
    expect(outcomeOf(await browser.request(url(LOGOUT), { headers }))).toBe("403 You are not signed out");
  expect(outcomeOf(await browser.request(url(`${LOGOUT}?return_to=https://evil.example`)))).toBe(
    "400 You are not signed out",
  );
  expect(await isSignedIn()).toBe(true);
});

test("without a session the provider is asked without a hint", async () => {
  const { headers } = await browser.request(url(LOGOUT));
  expect(new URL(headers.get("location")!).searchParams.has("id_token_hint")).toBe(false);
});

test("the ID token is encrypted in the database, and forgotten when it was used", async () => {
  await client.signIn(browser);
  const signIns = () => client.sql("select sign_in from auth_private.identities where sign_in is not null");
  const [{ sign_in: sealed }] = await signIns();
  expect(sealed.toString("latin1")).not.toMatch(/eyJ/);
  await browser.request(url(LOGOUT));
  expect(await signIns()).toEqual([]);
});

test("a client with tokens ends them, and receives the URL at the provider", async () => {
  const { json: tokens } = await client.signIn(browser, "/auth/oidc/acme?mode=token");
  const headers = { authorization: `Bearer ${tokens.accessToken}` };
  const { status, json } = await sendTo(url(), `POST ${LOGOUT}?return_to=/bye`, { headers });
  expect([status, json.message]).toEqual([200, "signed out"]);
  expect(new URL(json.location).searchParams.get("id_token_hint")).toMatch(/^eyJ/);
  expect((await sendTo(url(), "GET /auth/identities", { headers })).status).toBe(401);
  const back = await confirmAtProvider(json.location);
  expect((await browser.request(back.url)).headers.get("location")).toBe(url("/bye"));
});

test("a POST with the cookie needs the CSRF token, and ends only the session", async () => {
  await client.signIn(browser);
  const tokens = (await client.signIn(browser, "/auth/oidc/acme?mode=token")).json;
  const refused = await browser.request(url(LOGOUT), { method: "POST", headers: { accept: "application/json" } });
  expect(outcomeOf(refused)).toBe("403 PERMISSION_DENIED");
  const { csrfToken } = (await browser.request(url("/csrf-token"))).json;
  const done = await browser.request(url(LOGOUT), { method: "POST", headers: { "x-csrf-token": csrfToken } });
  expect([done.status, await isSignedIn()]).toEqual([200, false]);
  const headers = { authorization: `Bearer ${tokens.accessToken}` };
  expect((await sendTo(url(), "GET /auth/identities", { headers })).status).toBe(200);
});

test("an anonymous POST is refused", async () => {
  const page = await browser.request(url(LOGOUT), { method: "POST", headers: { accept: "application/json" } });
  expect(outcomeOf(page)).toBe("401 AUTH_REQUIRED");
});

import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { oidcEntry } from "../parts/federated/support.ts";
import { violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { newCertificate } from "../support/certificate.ts";
import { IdentityProvider } from "../support/identity-provider.ts";
import { OAuthServer } from "../support/oauth-server.ts";
import { sendTo } from "../support/resource-client.ts";
import { SamlTestProvider } from "../support/saml-provider.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { appCode } from "../support/totp.ts";

const installed = hasBrowser("federated sign-in");

let service: TestService;
let oidc: IdentityProvider;
let oauth: OAuthServer;
let saml: SamlTestProvider;
let browser: Browser;
let context: BrowserContext;
let page: Page;
/** The service is another site than the providers, which are at 127.0.0.1. */
let base: string;

beforeAll(async () => {
  if (!installed) return;
  [oidc, oauth, saml, browser] = await Promise.all([
    IdentityProvider.start(),
    OAuthServer.start(),
    SamlTestProvider.start(),
    sharedBrowser(),
  ]);
  const file = join(await mkdtemp(join(tmpdir(), "providers-")), "providers.json");
  const corp = { name: "corp", kind: "saml", metadata: `${saml.url}/metadata`, keys: [newCertificate("service")] };
  await writeFile(file, JSON.stringify([oidcEntry(oidc, { title: "Acme" }), oauth.entry(), corp]));
  const port = await findFreePort();
  base = `http://localhost:${port}`;
  const settings = { AUTH_PROVIDERS: file, AUTH_PROVIDERS_NETWORKS: "loopback", PORT: String(port), BASE_URL: base };
  service = await startTestService({ ...settings, PARTS: "+site,+reference", GRAPHQL_DOCUMENTS: "none" });
  await oidc.register({
    redirectUris: [`${base}/auth/oidc/acme/callback`],
    postLogoutRedirectUris: [`${base}/auth/oidc/acme/logout`],
  });
});
afterAll(async () => {
  await closePages();
  await service?.stop();
  for (const each of [oidc, oauth, saml]) each?.close();
});
beforeEach(async () => {
  context = await browser?.newContext();
  page = await context?.newPage();
});
afterEach(() => context?.close());

const start = (path: string) => page.goto(`${base}${path}?return_to=/api/auth/me`);
/** Enters the name at the provider, and agrees. */
async function signInAtProvider(): Promise<void> {
  await page.fill("input[name=login]", "mary");
  await page.fill("input[name=password]", "any");
  await page.click("button[type=submit]");
  const consent = page.locator("button[type=submit]");
  if (await consent.isVisible()) await consent.click();
}
/** The session that the last page of the sign-in shows: its request has sent the cookie, which is SameSite=Strict. */
async function sessionOnPage(): Promise<unknown> {
  await page.waitForURL(`${base}/api/auth/me`);
  return JSON.parse(await page.innerText("body"));
}

describe.skipIf(!installed)("in a browser", () => {
  test("a user signs in with OpenID Connect, is recognized on the page at which the sign-in continues, and signs out", async () => {
    await start("/auth/oidc/acme");
    await signInAtProvider();
    expect(await sessionOnPage()).toMatchObject({ username: "mary@acme.example" });
    const cookies = await context.cookies(base);
    expect(cookies.map(({ name, sameSite }) => [name, sameSite]).sort()).toEqual([
      ["SESSION", "Strict"],
      ["__Host-sign-in", "Lax"],
    ]);

    // A link of a page of this service.
    await page.evaluate("location.assign('/auth/oidc/acme/logout?return_to=/live')");
    await page.click("text=Sign out");
    await page.waitForURL(`${base}/live`);
    expect((await context.cookies(base)).map(({ name }) => name)).not.toContain("SESSION");
  });

  test("a user signs in with OAuth 2.0", async () => {
    await start("/auth/oauth2/legacy");
    expect(await sessionOnPage()).toMatchObject({ username: "mary@legacy.example" });
  });

  test("a user signs in with SAML, whose provider sends the browser back with a POST of another site", async () => {
    await start("/auth/saml/corp");
    await page.click("button");
    expect(await sessionOnPage()).toMatchObject({ username: "mary@corp.example" });
    expect((await context.cookies(base)).find(({ name }) => name === "__Host-sign-in-post")?.sameSite).toBe("None");
  });

  let backupCodes: string[] = [];
  test("a user with a second factor enters the code after the sign-in at the provider", async () => {
    await start("/auth/oauth2/legacy");
    await sessionOnPage();
    const { csrfToken } = (await (await page.request.get(`${base}/csrf-token`)).json()) as { csrfToken: string };
    const headers = { "x-csrf-token": csrfToken };
    const { secret } = (await (await page.request.post(`${base}/api/mfa/enable`, { headers })).json()) as any;
    const code = appCode(secret, Date.now());
    const verified = await page.request.post(`${base}/api/mfa/verify`, { headers, data: { code } });
    ({ backupCodes } = (await verified.json()) as any);
    await context.clearCookies();

    await start("/auth/oauth2/legacy");
    await page.fill("input[name=code]", "000000");
    await page.click("button");
    await page.waitForSelector(".fault");
    await page.fill("input[name=code]", appCode(secret, Date.now() + 30_000));
    await page.click("button");
    expect(await sessionOnPage()).toMatchObject({ username: "mary@legacy.example" });
  });

  test("/docs offers the providers, and asks for the code of a second factor after the sign-in there", async () => {
    // The form works without the reference, which takes seconds to render.
    await page.route("**/scalar-*.js", (route) => route.abort());
    await page.goto(`${base}/docs`);
    await page.click("text=Sign in with legacy");
    const form = page.getByRole("form", { name: "Sign in" });
    await form.getByLabel("Code").fill("000000");
    await form.getByRole("button", { name: "Sign in", exact: true }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toContain("the code is wrong");
    await form.getByLabel("Code").fill(backupCodes[0]!);
    await form.getByRole("button", { name: "Sign in", exact: true }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toMatch(/^Signed in as Mary Somerville/);
    expect(page.url()).toBe(`${base}/docs`);
  });

  test("the buttons of the sign-in page lead to the providers, and back to the account", async () => {
    await page.goto(`${base}/auth/sign-in`);
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Continue with Acme" }).click();
    await signInAtProvider();
    await page.getByRole("heading", { name: "Your account" }).waitFor();
    expect(await page.locator(".profile").innerText()).toContain("mary@acme.example");
  });

  test("a user links an identity on the account page, signs in with it, and unlinks it", async () => {
    const { owner } = service.database;
    await owner.query("delete from users where email = 'mary@legacy.example'");
    const press = (name: string) =>
      Promise.all([page.waitForEvent("load"), page.getByRole("button", { name, exact: true }).click()]);
    await page.goto(`${base}/auth/sign-in`);
    await page.getByLabel("E-mail or username").fill("ada");
    await page.getByLabel("Password").fill("Correct-Horse-7!");
    await press("Sign in");
    await page.getByRole("button", { name: "Link legacy", exact: true }).click();
    await page.getByRole("heading", { name: "Link this identity?" }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    const linked = async () =>
      (await owner.query("select user_id::int as id from auth_private.identities where provider = 'legacy'")).rows;
    // Opening the page links nothing.
    expect(await linked()).toEqual([]);
    await press("Link it");
    expect(await page.getByRole("status").innerText()).toBe("The identity is linked. You can sign in with it.");
    expect(await linked()).toEqual([{ id: 1 }]);

    await press("Sign out");
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Continue with legacy" }).click();
    await page.getByRole("heading", { name: "Your account" }).waitFor();
    expect(await page.locator(".profile").innerText()).toContain("ada@example.com");

    await press("Unlink legacy");
    expect(await page.getByRole("status").innerText()).toBe("The identity is unlinked. All other sign-ins have ended.");
    expect(await linked()).toEqual([]);
    expect(await page.getByRole("button", { name: "Unlink legacy", exact: true }).count()).toBe(0);
  });

  test("a user who cancels at the provider sees a page that says so, and can try again", async () => {
    await start("/auth/oidc/acme");
    await page.click("text=Cancel");
    await page.waitForSelector("h1");
    expect(await page.innerText("h1")).toBe("You are not signed in");
    await page.click("a.button");
    await signInAtProvider();
    expect(await sessionOnPage()).toMatchObject({ username: "mary@acme.example" });
  });

  test("a page exchanges its sign-in code for tokens, with a verifier that no other page has", async () => {
    await service.database.owner.query("delete from auth_private.factors");
    await page.goto(`${base}/live`);
    const verifier = await page.evaluate(async () => {
      const text = Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16))
        .join("")
        .padEnd(43, "0");
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
      const challenge = btoa(String.fromCharCode(...new Uint8Array(digest)))
        .replace(/\+/g, "-")
        .replace(/\//g, "_")
        .replace(/=/g, "");
      (globalThis as any).location.assign(`/auth/oauth2/legacy?mode=token&return_to=/live&code_challenge=${challenge}`);
      return text;
    });
    await page.waitForURL(/sign_in_code=/);
    const signInCode = new URL(page.url()).searchParams.get("sign_in_code");
    const { status, json } = await sendTo(base, "POST /auth/federated/token", {
      body: { signInCode, codeVerifier: verifier },
    });
    expect([status, json.tokenType]).toEqual([200, "Bearer"]);
  });
});

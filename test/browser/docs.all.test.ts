import type { Browser, BrowserContext, Page, Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const SETTINGS = { PARTS: "+site,+reference", GRAPHQL_DOCUMENTS: "none" };
const WITH_EXPLORER = { PARTS: "+site,+reference,+explorer" };

const installed = hasBrowser("the reference");

let service: TestService;
let browser: Browser;
let context: BrowserContext;
/** `/docs`, loaded only once because this takes seconds. */
let page: Page;
/** The hosts to which the page has sent requests, and its errors. */
const hosts = new Set<string>();
const faults: string[] = [];

beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([startTestService(WITH_EXPLORER), sharedBrowser()]);
  context = await browser.newContext({ viewport: { width: 1400, height: 600 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(120_000);
  page = await context.newPage();
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  await page.goto(`${service.url}/docs`);
});
afterAll(async () => {
  await closePages();
  await service?.stop();
});

const button = (label: RegExp) => page.locator("button", { hasText: label }).first();
/** The operations of the selected interface, in groups. */
const list = () => page.getByRole("complementary").first();

/** The form for a test request. */
const form = () => page.getByRole("dialog");

/** Selects an interface, unless it is selected already, and opens a group of its operations. */
async function open(source: string, group: string): Promise<void> {
  // Close the form of the previous test.
  await page.keyboard.press("Escape");
  await form().waitFor({ state: "hidden" });
  const chosen = button(/^(Resources v\d|Tables)$/);
  if ((await chosen.innerText()).trim() !== source) {
    await chosen.click();
    await page.getByRole("option", { name: source }).click();
  }
  await list()
    .getByRole("button", { name: `Open Group - ${group}` })
    .click();
}

/** Sends `GET path` with the values that the form proposes, and waits until the response is shown. */
async function tryOut(path: string, answer: string): Promise<Response> {
  await list().getByText(path, { exact: true }).first().click();
  await button(new RegExp(`Test Request.*get ${path}\\)`, "i")).click();
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname.endsWith(path));
  await form().locator("button", { hasText: /^Send/ }).first().click();
  await expect.poll(() => form().innerText(), POLL).toContain(answer);
  return answered;
}

const V1 = "Resources, version 1";
const V2 = "Resources, version 2";
const TABLES = "Tables of public";
const PUBLISH = "/articles/{articleId}/publish";

describe.skipIf(!installed)("/docs", () => {
  test.each([
    ["Resources v1", "articles", "/users", "/users", { heading: V1, listed: PUBLISH, answer: '"created_at"' }],
    [
      "Resources v2",
      "articles",
      "/api/v2/users",
      "/api/v2/users",
      { heading: V2, listed: `/api/v2${PUBLISH}`, answer: '"createdAt"' },
    ],
    // At the root also in version 2.
    [
      "Resources v2",
      "authentication",
      "/csrf-token",
      "/csrf-token",
      { heading: V2, listed: "/auth/keys/{keyId}", answer: '"csrfToken"' },
    ],
    [
      "Tables",
      "articles",
      "/articles",
      "/rest/v1/articles",
      { heading: TABLES, listed: "/articles", answer: '"author_id"' },
    ],
  ])("%s lists its %s, and a test request of GET %s is sent to %s and its response is shown", async (...given) => {
    const [source, group, path, address, { heading, listed, answer }] = given;
    await open(source, group);
    await expect.poll(() => page.locator("h1").innerText(), POLL).toBe(heading);
    await expect.poll(() => list().innerText(), POLL).toContain(listed);
    const response = await tryOut(path, answer);
    expect([response.status(), response.url()]).toEqual([200, `${service.url}${address}`]);
    if (source === "Tables") expect(await response.request().headerValue("apikey")).toBeTruthy();
  });

  test("sends no request to another host and reports no error", async () => {
    expect(await page.title()).toBe("API reference – Content Service");
    expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
    expect(faults).toEqual([]);
  });

  test("with the cookie of a session that has ended is shown, and deletes the cookie", async () => {
    const own = await browser.newContext();
    onTestFinished(() => own.close());
    await own.addCookies([{ name: "SESSION", value: "x".repeat(43), url: service.url, httpOnly: true }]);
    const other = await own.newPage();
    await other.goto(`${service.url}/docs`);
    await expect.poll(() => other.locator("h1").first().innerText(), POLL).toBe(TABLES);
    expect(await own.cookies()).toEqual([]);
  });

  test("has a form to sign in, and then shows and sends what the user may do", async () => {
    const own = await browser.newContext({ viewport: { width: 1400, height: 600 } });
    onTestFinished(() => own.close());
    const other = await own.newPage();
    const described = async () => {
      const response = await other.waitForResponse((each) => each.url().endsWith("/rest/v1/openapi.json"));
      return Object.keys(((await response.json()) as any).paths["/articles"] ?? {});
    };
    const [anonymous] = await Promise.all([described(), other.goto(`${service.url}/docs`)]);
    expect(anonymous).not.toContain("post");
    await other.locator("h1").first().waitFor({ timeout: 120_000 });
    await other.evaluate("scrollTo(0, 3000)");
    const signIn = other.getByRole("form", { name: "Sign in" });
    expect((await other.locator(".top").boundingBox())!.y).toBe(0);
    await signIn.getByLabel("Username").fill("ada");
    await signIn.getByLabel("Password").fill("wrong");
    await signIn.getByRole("button").click();
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toMatch(/password/);
    await signIn.getByLabel("Password").fill("Correct-Horse-7!");
    const [mine] = await Promise.all([described(), signIn.getByRole("button").click()]);
    expect(mine).toContain("post");
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toMatch(/^Signed in as Ada Lovelace/);
    const [again] = await Promise.all([described(), signIn.getByRole("button").click()]);
    expect(again).toEqual(anonymous);
  });

  test("takes an access token of any role, and shows what this role may do", async () => {
    const own = await browser.newContext();
    onTestFinished(() => own.close());
    const other = await own.newPage();
    // Only the descriptions matter.
    await other.route(/scalar/, (route) => route.abort());
    await other.goto(`${service.url}/docs`);
    const signIn = other.getByRole("form", { name: "Sign in" });
    const send = async (token: string) => {
      await signIn.getByLabel("Access token").fill(token);
      await signIn.getByRole("button").click();
    };
    await send("anything");
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toBe("This is not an access token.");
    const description = other.waitForResponse((each) => each.url().endsWith("/rest/v1/openapi.json"));
    await send(service.token("admin"));
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toMatch(/^Signed in as Administrator/);
    const { paths } = (await (await description).json()) as any;
    expect(Object.keys(paths["/users"])).toContain("delete");
  });

  test("shares its sign-in with the other pages and tabs, and says when it has ended", async () => {
    const own = await browser.newContext({ viewport: { width: 1400, height: 600 } });
    onTestFinished(() => own.close());
    // Only the forms matter.
    await own.route(/scalar/, (route) => route.abort());
    const explorer = await own.newPage();
    await explorer.goto(`${service.url}/graphiql`);
    const live = await own.newPage();
    await live.goto(`${service.url}/docs/live`);
    const token = service.token("bob");
    await explorer.getByRole("button", { name: "Sign in" }).click();
    await explorer.getByLabel("Access token").fill(token);
    await explorer.keyboard.press("Enter");
    await expect.poll(() => live.getByLabel("Access token").getAttribute("placeholder"), POLL).toBe("of Bob Kahn");

    const reference = await own.newPage();
    await reference.goto(`${service.url}/docs`);
    const signIn = reference.getByRole("form", { name: "Sign in" });
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toMatch(/^Signed in as Bob Kahn/);

    await fetch(`${service.url}/auth/logout`, { method: "POST", headers: { authorization: `Bearer ${token}` } });
    const send = () =>
      reference.evaluate((bearer) => fetch("/users", { headers: { authorization: bearer } }), `Bearer ${token}`);
    await send();
    await expect.poll(() => signIn.getByRole("status").innerText(), POLL).toBe("The sign-in has ended: sign in again.");
    await expect.poll(() => explorer.getByRole("status", { name: "Signed in as" }).innerText(), POLL).toBe("Anonymous");
  });

  test("shows a message without a description", async () => {
    const off = await startTestService({ ...SETTINGS, OPENAPI: "off" });
    onTestFinished(() => off.stop());
    const other = await context.newPage();
    // The page shows the message without Scalar.
    await other.route(/scalar/, (route) => route.abort());
    await other.goto(`${off.url}/docs`);
    await expect.poll(() => other.locator("#reference").innerText(), POLL).toMatch(/^The description is disabled/);
  });
});

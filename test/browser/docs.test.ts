import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const installed = hasBrowser("the reference");

let service: TestService;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  service = await startTestService({ DOCS: "on" });
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

type Visit = { readonly page: Page; readonly hosts: Set<string>; readonly faults: string[] };

/** Opens `/docs`, and keeps what it asks and what goes wrong. */
async function visit(): Promise<Visit> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  const hosts = new Set<string>();
  const faults: string[] = [];
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  await page.goto(`${service.url}/docs`);
  return { page, hosts, faults };
}

/** Chooses one of the sources; what can be done there is in the list. */
async function choose(page: Page, source: string): Promise<Locator> {
  await page.getByRole("button", { name: "Resources v1" }).click({ timeout: 30_000 });
  await page.getByRole("option", { name: source }).click();
  return page.getByRole("complementary").first();
}

const SOURCES = ["Resources v1", "Resources v2", "Tables"];

test.skipIf(!installed)("/docs lists what can be done, and asks no other host", { timeout: 60_000 }, async () => {
  const { page, hosts, faults } = await visit();
  for (const source of SOURCES) {
    const list = await choose(page, source);
    await expect.poll(() => page.getByRole("heading", { level: 1 }).innerText()).toBe(HEADINGS[source]);
    await list.getByText("articles", { exact: true }).click();
    await expect.poll(() => list.innerText(), { timeout: 20_000 }).toMatch(PATHS[source]!);
    await page.screenshot({ path: `test/browser/docs-${source.toLowerCase().replace(" ", "-")}.png` });
    await page.goto(`${service.url}/docs`);
    await page.reload();
  }
  expect(await page.title()).toBe("Reference");
  expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
  expect(faults).toEqual([]);
});

const HEADINGS: Readonly<Record<string, string>> = {
  "Resources v1": "Resources, version 1",
  "Resources v2": "Resources, version 2",
  Tables: "The API: what is granted here is served.",
};
const PATHS: Readonly<Record<string, RegExp>> = {
  "Resources v1": /\/articles\/\{articleId\}\/publish/,
  "Resources v2": /\/articles\/\{articleId\}\/publish/,
  Tables: /\/articles/,
};

test.skipIf(!installed).each([
  ["Resources v1", "/articles", '"pagination"', null],
  ["Resources v2", "/api/v2/articles", '"createdAt"', null],
  ["Tables", "/rest/v1/articles", '"author_id"', "apikey"],
])("a request of %s that is tried out goes to %s, and its answer is shown", { timeout: 60_000 }, async (...given) => {
  const [source, path, text, header] = given;
  const { page, hosts, faults } = await visit();
  const list = await choose(page, source);
  await list.getByText("articles", { exact: true }).click({ timeout: 30_000 });
  await list.getByText("/articles", { exact: true }).first().click();
  await page.getByRole("button", { name: /Test Request.*get \/articles\)/i }).click({ timeout: 30_000 });

  const asked = page.waitForResponse((response) => /\/articles(\?|$)/.test(response.url()));
  await page.getByRole("button", { name: /^Send/ }).first().click();
  const response = await asked;
  expect([response.status(), response.url()]).toEqual([200, `${service.url}${path}`]);
  if (header) expect(await response.request().headerValue(header)).toBeTruthy();
  await expect.poll(() => page.getByRole("dialog").first().innerText(), { timeout: 20_000 }).toContain(text);
  await page.screenshot({ path: "test/browser/docs-request.png" });

  expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
  expect(faults).toEqual([]);
});

test.skipIf(!installed)(
  "the routes of authentication are at the root, in version 2 too",
  { timeout: 60_000 },
  async () => {
    const { page, faults } = await visit();
    const list = await choose(page, "Resources v2");
    await list.getByText("authentication", { exact: true }).click({ timeout: 30_000 });
    await expect.poll(() => list.innerText(), { timeout: 20_000 }).toMatch(/\/auth\/keys\/\{keyId\}/);
    await list.getByText("/csrf-token", { exact: true }).first().click();
    await page.getByRole("button", { name: /Test Request.*get \/csrf-token\)/i }).click({ timeout: 30_000 });
    const asked = page.waitForResponse((response) => response.url().endsWith("/csrf-token"));
    await page.getByRole("button", { name: /^Send/ }).first().click();
    const response = await asked;
    expect([response.status(), response.url()]).toEqual([200, `${service.url}/csrf-token`]);
    await page.screenshot({ path: "test/browser/docs-authentication.png" });
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)("where nothing is described the page says so", { timeout: 60_000 }, async () => {
  const off = await startTestService({ DOCS: "on", OPENAPI: "off" });
  const page = await browser.newPage();
  await page.goto(`${off.url}/docs`);
  await expect
    .poll(() => page.locator("#reference").innerText(), { timeout: 20_000 })
    .toBe("The description of the interface is switched off");
  await off.stop();
});

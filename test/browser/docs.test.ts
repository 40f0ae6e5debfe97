import type { Browser, Page } from "playwright-core";
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

test.skipIf(!installed)("/docs lists what can be done, and asks no other host", { timeout: 60_000 }, async () => {
  const { page, hosts, faults } = await visit();
  const list = page.getByRole("complementary").first();
  await list.getByText("articles", { exact: true }).click({ timeout: 30_000 });
  await list.getByText("Functions (rpc)", { exact: true }).click();
  await expect.poll(() => list.innerText(), { timeout: 20_000 }).toMatch(/\/articles.*\/rpc\/search/s);
  await page.screenshot({ path: "test/browser/docs.png" });

  expect(await page.title()).toBe("The API: what is granted here is served.");
  expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
  expect(faults).toEqual([]);
});

test.skipIf(!installed)(
  "a request that is tried out carries the key, and its answer is shown",
  { timeout: 60_000 },
  async () => {
    const { page, hosts, faults } = await visit();
    const list = page.getByRole("complementary").first();
    await list.getByText("articles", { exact: true }).click({ timeout: 30_000 });
    await list.getByText("/articles", { exact: true }).click();
    await page.getByRole("button", { name: /Test Request.*get \/articles/i }).click({ timeout: 30_000 });

    const asked = page.waitForResponse((response) => response.url().includes("/rest/v1/articles"));
    await page.getByRole("button", { name: /^Send/ }).first().click();
    const response = await asked;
    expect(response.status()).toBe(200);
    expect(await response.request().headerValue("apikey")).toBeTruthy();
    await expect.poll(() => page.getByRole("dialog").first().innerText(), { timeout: 20_000 }).toContain('"author_id"');
    await page.screenshot({ path: "test/browser/docs-request.png" });

    expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
    expect(faults).toEqual([]);
  },
);

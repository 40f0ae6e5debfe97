import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const QUERY = "query Newest { articles(first: 2) { totalCount edges { node { title author { name } } } } }";

const installed = hasBrowser("the explorer");

let service: TestService;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([startTestService({ GRAPHIQL: "on" }), launchBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

test.skipIf(!installed)(
  "/graphiql shows a query and its result and sends no request to another host",
  { timeout: 60_000 },
  async () => {
    const page = await browser.newPage({ viewport: { width: 1400, height: 600 }, reducedMotion: "reduce" });
    const hosts = new Set<string>();
    const faults: string[] = [];
    page.on("request", (request) => hosts.add(new URL(request.url()).host));
    page.on("pageerror", (error) => faults.push(error.message));

    await page.goto(`${service.url}/graphiql`);
    await page.locator(".graphiql-query-editor .monaco-editor").first().click({ timeout: 30_000 });
    await page.keyboard.press("Control+A");
    await page.keyboard.insertText(QUERY);
    await page.locator(".graphiql-execute-button").click({ timeout: 30_000 });
    const answer = page.locator(".result-window, .graphiql-response").first();
    await expect.poll(() => answer.innerText(), { timeout: 20_000 }).toContain("totalCount");
    // The editor writes spaces as no-break spaces.
    expect((await answer.innerText()).replaceAll("\u00a0", " ")).toContain('"name": "Ada Lovelace"');
    expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
    expect(faults).toEqual([]);
  },
);

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

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

/** Opens the explorer. Resolves when its editor is ready. */
async function openExplorer() {
  const page = await browser.newPage({ viewport: { width: 1400, height: 700 }, reducedMotion: "reduce" });
  onTestFinished(() => page.close());
  const hosts = new Set<string>();
  const faults: string[] = [];
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(`${service.url}/graphiql`);
  await page.locator(".graphiql-query-editor .monaco-editor").first().waitFor({ timeout: 60_000 });
  return { page, hosts, faults };
}

async function write(page: Page, text: string): Promise<void> {
  await page.locator(".graphiql-query-editor .monaco-editor").first().click();
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(text);
}

const execute = (page: Page) => page.locator(".graphiql-execute-button").click({ timeout: 60_000 });

/** Executes the operation until the shown result matches: the editor passes on its text after a delay. */
const expectResult = (page: Page) =>
  expect.poll(
    async () => {
      await execute(page);
      const text = await page.locator(".result-window, .graphiql-response").first().innerText();
      // The editor writes spaces as no-break spaces.
      return text.replaceAll("\u00a0", " ");
    },
    { timeout: 60_000, interval: 500 },
  );

test.skipIf(!installed)(
  "/graphiql opens with an operation that runs, and sends no request to another host",
  async () => {
    const { page, hosts, faults } = await openExplorer();
    await expectResult(page).toContain('"totalCount": 4');
    await expectResult(page).toContain('"name": "Ada Lovelace"');
    expect([...hosts].filter((host) => host !== "")).toEqual([new URL(service.url).host]);
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)(
  "/graphiql has a form to sign in, whose token is sent with requests and subscriptions",
  async () => {
    const { page, faults } = await openExplorer();
    const frames: string[] = [];
    page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => frames.push(String(payload))));
    await write(page, "query Me { me { name } }");
    await expectResult(page).toContain("AUTH_REQUIRED");

    const form = page.getByRole("form", { name: "Sign in" });
    await form.getByLabel("Username").fill("ada");
    await form.getByLabel("Password").fill("wrong");
    await form.getByRole("button", { name: "Sign in" }).click();
    await expect.poll(() => form.getByRole("alert").innerText()).not.toBe("");
    await form.getByLabel("Password").fill("Correct-Horse-7!");
    await form.getByRole("button", { name: "Sign in" }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toBe("Signed in as Ada Lovelace");
    await expectResult(page).toContain('"name": "Ada Lovelace"');

    await write(page, "subscription { onArticleCreated { title } }");
    const firstFrame = async () => {
      if (frames.length === 0) await execute(page);
      return frames[0];
    };
    await expect
      .poll(firstFrame, { timeout: 60_000, interval: 500 })
      .toMatch(/"connection_init".*"Authorization":"Bearer /);

    await form.getByRole("button", { name: "Sign out" }).click();
    await form.getByLabel("Access token").fill(service.token("bob"));
    await form.getByRole("button", { name: "Sign in" }).click();
    await expect.poll(() => form.getByRole("status").innerText()).toBe("Signed in as Bob Kahn");

    const authorization = `Bearer ${service.token("bob")}`;
    await fetch(`${service.url}/auth/logout`, { method: "POST", headers: { authorization } });
    await execute(page);
    await write(page, "query Me { me { name } }");
    await expectResult(page).toContain("AUTH_REQUIRED");
    expect(await form.getByRole("alert").innerText()).toBe("The sign-in has ended: sign in again.");
    await form.getByLabel("Access token").fill(authorization.slice("Bearer ".length));
    await form.getByRole("button", { name: "Sign in" }).click();
    await expect.poll(() => form.getByRole("alert").innerText()).toBe("This access token is not valid, or no longer.");
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)("/graphiql sends the CSRF token with the cookie of a session", async () => {
  const context = await browser.newContext();
  onTestFinished(() => context.close());
  const data = { username: "ada", password: "Correct-Horse-7!" };
  expect((await context.request.post(`${service.url}/api/auth/login`, { data })).status()).toBe(200);
  const page = await context.newPage();
  await page.goto(`${service.url}/graphiql`, { waitUntil: "commit" });
  const publish = () =>
    page.evaluate(async () => {
      const response = await fetch("/graphql", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ query: "mutation { publishArticle(id: 1) { status } }" }),
      });
      return response.json();
    });
  await expect.poll(publish).toEqual({ data: { publishArticle: { status: "PUBLISHED" } } });
});

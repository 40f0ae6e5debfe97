import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { overflowOf, violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { Examples, publishArticle, signIn } from "../support/examples.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const installed = hasBrowser("the example page with supabase-js");

let service: TestService;
let examples: Examples;
let browser: Browser;
let key: string;
beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([startTestService(), sharedBrowser()]);
  key = service.service.tokens.issueKey("anon");
  process.env.VITE_ANON_KEY = key;
  examples = await Examples.build();
  await examples.serve(service.url);
});
afterAll(async () => {
  delete process.env.VITE_ANON_KEY;
  await closePages();
  await examples?.close();
  await service?.stop();
});

async function openPage(opener?: Page): Promise<Page> {
  const context = opener?.context() ?? (await browser.newContext({ viewport: { width: 900, height: 1200 } }));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  onTestFinished(() => page.close());
  page.on("pageerror", (error) => expect.unreachable(error.message));
  await page.goto(examples.urlOf("supabase"));
  return page;
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const listed = (page: Page) =>
  page.getByRole("region", { name: "List of articles" }).getByRole("listitem").allInnerTexts();
const comments = (page: Page) => page.getByRole("region", { name: "Comments" }).locator("li .content").allInnerTexts();
const alerts = async (page: Page) => (await page.getByRole("alert").allInnerTexts()).join("").trim();

const publish = (title: string) => publishArticle(service.database, title);

describe.skipIf(!installed)("the example page in demo/pages/supabase", () => {
  test("signs in with a username, lists articles and drafts, publishes, and shows faults beside their fields", async () => {
    const page = await openPage();
    await expect.poll(() => listed(page), POLL).not.toEqual([]);
    await button(page, "Register").click();
    const register = page.getByRole("form", { name: "Register" });
    await register.getByLabel("Name").fill("Edith Clarke");
    await register.getByLabel("E-mail").fill("edith@supabase.example");
    await register.getByRole("button").first().click();
    await register.locator("label", { hasText: "Password" }).locator(".error", { hasText: "password" }).waitFor();
    await register.getByLabel("Password").fill("short");
    await register.getByRole("button").first().click();
    await register.locator(".error", { hasText: "assword" }).waitFor();
    await page.keyboard.press("Escape");

    await signIn(page);
    await button(page, "New article").click();
    const create = page.getByRole("form", { name: "New article" });
    await create.getByLabel("Text").fill("Text.");
    await create.getByRole("button", { name: "Save as draft" }).click();
    await create.locator(".error", { hasText: "title must have" }).waitFor();
    await create.getByLabel("Title").fill("Draft of supabase");
    await create.getByRole("button", { name: "Save as draft" }).click();
    await expect.poll(() => listed(page), POLL).toContain("Draft of supabase\n\nby Ada Lovelace");
    await button(page, "Publish").click();
    await expect.poll(() => listed(page), POLL).not.toContain("Draft of supabase\n\nby Ada Lovelace");
    await button(page, "Published").click();
    await expect.poll(async () => (await listed(page))[0], POLL).toBe("Draft of supabase\n\nby Ada Lovelace");
  });

  test("reads its list again after a write whose response is lost, and shows what the last read has found", async () => {
    const page = await openPage();
    await signIn(page);
    await expect.poll(() => listed(page), POLL).not.toEqual([]);
    const [answered, held, arrived] = [
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
    ];
    let reads = 0;
    await page.route("**/rest/v1/articles*", async (route) => {
      const response = await route.fetch();
      if (route.request().method() === "POST") return route.abort();
      if (reads++ > 0) return route.fulfill({ response });
      answered.resolve();
      await held.promise;
      await route.fulfill({ response });
      return arrived.resolve();
    });
    await button(page, "New article").click();
    const create = page.getByRole("form", { name: "New article" });
    const titles = ["Sent first, without a response", "Sent then, without a response"];
    for (const title of titles) {
      await create.getByLabel("Title").fill(title);
      await create.getByLabel("Text").fill("Text.");
      await create.getByRole("button", { name: "Publish" }).click();
      await answered.promise;
      await expect.poll(() => create.getByRole("button", { name: "Publish" }).isEnabled(), POLL).toBe(true);
    }
    const newest = async () => (await listed(page)).slice(0, 2).map((text) => text.split("\n")[0]);
    await expect.poll(newest, POLL).toEqual(titles.toReversed());
    held.resolve();
    await arrived.promise;
    await page.evaluate("fetch('/health').then((response) => response.text())");
    expect(await newest()).toEqual(titles.toReversed());
  });

  test("says that it waits, and repeats reads that are not answered", async () => {
    await publish("Lost reads");
    const page = await openPage();
    const lost = new Set<string>();
    const lose = (path: string) =>
      page.route(`**/rest/v1/${path}*`, (route) => {
        if (lost.has(path)) return route.continue();
        lost.add(path);
        return undefined;
      });
    await page.addInitScript(() => {
      const { timeout } = AbortSignal;
      AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 20);
    });
    await lose("articles");
    await lose("comments");
    await page.reload();
    await page.getByRole("status").getByText("Loading…").waitFor();
    await expect.poll(() => listed(page), POLL).toContain("Lost reads\n\nby Ada Lovelace");
    lost.delete("articles");
    await button(page, "Lost reads").click();
    await page.getByRole("heading", { name: "Loading…" }).waitFor();
    await page.getByRole("heading", { name: "Lost reads" }).waitFor();
    await expect.poll(() => lost.has("comments"), POLL).toBe(true);
    await expect.poll(() => alerts(page), POLL).toMatch(/timed out/);
    await expect.poll(() => alerts(page), POLL).toBe("");
  });

  test("shows no HTML of a proxy whose service is down", async () => {
    const page = await openPage();
    await expect.poll(() => listed(page), POLL).not.toEqual([]);
    const proxy = { status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" };
    await page.route(/\/(rest|auth)\/v1\//, (route) => route.fulfill(proxy));
    await button(page, "Sign in").click();
    const form = page.getByRole("form", { name: "Sign in" });
    await form.getByRole("button").first().click();
    const message = "The service cannot be reached (status 502).";
    await form.getByRole("alert").getByText(message).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#articles button").first().click();
    await page.locator("#fault").getByText(message).waitFor();
  });

  test("keeps all rows of its list when an article is published, and signs the user out without the service", async () => {
    await service.database.owner.query(
      "insert into articles (title, content, author_id, status) select 'Row ' || i, 'x', 1, 'PUBLISHED' from generate_series(1, 20) i",
    );
    const page = await openPage();
    await signIn(page);
    const count = async () => (await listed(page)).length;
    await expect.poll(count, POLL).toBe(8);
    await button(page, "More").click();
    await expect.poll(count, POLL).toBe(16);
    await button(page, "New article").click();
    const create = page.getByRole("form", { name: "New article" });
    await create.getByLabel("Title").fill("The newest");
    await create.getByLabel("Text").fill("Text.");
    await create.getByRole("button", { name: "Publish" }).click();
    await expect.poll(async () => (await listed(page))[0], POLL).toBe("The newest\n\nby Ada Lovelace");
    expect(await count()).toBe(16);

    await page.route("**/auth/v1/*", (route) => route.abort());
    await button(page, "Sign out").click();
    await page
      .getByRole("alert")
      .filter({ hasText: "You are signed out here. The service cannot be reached" })
      .waitFor();
    await button(page, "Sign in").waitFor();
  });

  test("repeats a read that failed, follows comments, and forgets what the last user has read", async () => {
    const title = "Faults of supabase";
    const write = await publish(title);
    let isDown = false;
    const page = await openPage();
    await page.route(/\/rest\/v1\//, (route) => {
      const { authorization } = route.request().headers();
      if (isDown) return route.fulfill({ status: 503, body: "" });
      // What an anonymous caller reads, as if policies hid all rows.
      if (authorization === `Bearer ${key}`)
        return route.fulfill({ json: [], headers: { "content-range": "*/0", "content-type": "application/json" } });
      return route.continue();
    });
    await signIn(page);
    await expect.poll(() => listed(page), POLL).toContain(`${title}\n\nby Ada Lovelace`);
    isDown = true;
    await button(page, title).click();
    await button(page, "My drafts").click();
    // It does not show the rows of the other list until it has been read.
    expect(await listed(page)).toEqual([]);
    await button(page, "Published").click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    await write("first");
    isDown = false;
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await expect.poll(() => listed(page), POLL).toContain(`${title}\n\nby Ada Lovelace`);
    expect(await alerts(page)).toBe("");
    await write("live");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "live"]);

    const form = page.getByRole("form", { name: "Comment" });
    await form.getByRole("button").click();
    await form.locator(".error", { hasText: "content must not be empty" }).waitFor();
    await form.getByLabel("Your comment").fill("own");
    await form.getByRole("button").click();
    await expect.poll(() => comments(page), POLL).toEqual(["first", "live", "own"]);

    const other = await openPage(page);
    await button(other, "Sign out").click();
    await page.getByText("Nothing here yet.").waitFor();
    await page.getByText("This article no longer exists.").waitFor();
    expect(await page.getByText(title).count()).toBe(0);
    expect(await comments(page)).toEqual([]);
  });

  test("shows a comment once while it is sent, also if its change arrives before the response", async () => {
    const write = await publish("Sent slowly");
    const page = await openPage();
    await signIn(page);
    await button(page, "Sent slowly").click();
    await write("first");
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    const [send, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(/\/rest\/v1\/comments/, async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      await send.promise;
      const response = await route.fetch();
      await answer.promise;
      return route.fulfill({ response });
    });
    const form = page.getByRole("form", { name: "Comment" });
    await form.getByLabel("Your comment").fill("own");
    await form.getByRole("button").click();
    await page.getByText("sending…").waitFor();
    expect(await comments(page)).toEqual(["first", "own"]);
    send.resolve();
    await page.getByText("sending…").waitFor({ state: "detached" });
    expect(await comments(page)).toEqual(["first", "own"]);
    answer.resolve();
    await expect.poll(() => form.getByLabel("Your comment").inputValue(), POLL).toBe("");
    await write("last");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "own", "last"]);
  });

  /** Ends the sessions of ada, as another device of hers does. */
  async function signOutElsewhere(): Promise<void> {
    const post = (path: string, headers: object, body: object) =>
      fetch(service.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", apikey: key, ...headers },
        body: JSON.stringify(body),
      });
    const login = await post("/auth/login", {}, { username: "ada", password: "Correct-Horse-7!" });
    const { accessToken } = (await login.json()) as { readonly accessToken: string };
    await post("/auth/logout", { authorization: `Bearer ${accessToken}` }, { scope: "global" });
  }

  test("shows a visitor's page, which goes on, after the session was revoked elsewhere", async () => {
    const title = "Revoked elsewhere";
    const write = await publish(title);
    const page = await openPage();
    await signIn(page);
    await button(page, title).click();
    await write("first");
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await signOutElsewhere();
    await button(page, "Sign in").waitFor();
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await write("second");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "second"]);

    // Without a channel, the next read of the page notices it.
    const other = await openPage();
    await signIn(other);
    await expect.poll(() => listed(other), POLL).toContain(`${title}\n\nby Ada Lovelace`);
    await signOutElsewhere();
    await button(other, "My drafts").click();
    await button(other, "Sign in").waitFor();
  });

  test("gets another token when the service takes that of the page for expired", async () => {
    const write = await publish("Wrong clock");
    const page = await openPage();
    await signIn(page);
    const refreshed = page.waitForResponse((response) => response.url().includes("grant_type=refresh_token"));
    let refusals = 1;
    await page.route(/\/rest\/v1\/articles/, (route) =>
      refusals-- > 0
        ? route.fulfill({ status: 401, json: { code: "PGRST303", message: "JWT expired" } })
        : route.continue(),
    );
    await button(page, "My drafts").click();
    expect((await refreshed).status()).toBe(200);
    await button(page, "Published").click();
    await button(page, "Wrong clock").click();
    await write("first");
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await page.getByText("Signed in as").waitFor();
  });

  test("sends nothing under the name of another user, who has signed in in another tab during a refresh", async () => {
    await publish("Two users");
    const page = await openPage();
    await signIn(page);
    await button(page, "Two users").click();
    const form = page.getByRole("form", { name: "Comment" });
    await form.getByLabel("Your comment").fill("written by ada");
    const other = await openPage(page);
    await other.getByText("Signed in as").waitFor();
    const [held, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route("**/auth/v1/token?grant_type=refresh_token", async (route) => {
      const response = await route.fetch();
      held.resolve();
      await answer.promise;
      return route.fulfill({ response });
    });
    await page.evaluate(() => {
      const key = Object.keys(localStorage).find((name) => name.endsWith("-auth-token"))!;
      localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)!), expires_at: 1 }));
    });
    await form.getByRole("button").click();
    await held.promise;
    await button(other, "Sign out").click();
    await button(other, "Sign in").waitFor();
    await signIn(other, "bob");
    answer.resolve();
    await expect.poll(() => form.getByRole("alert").textContent(), POLL).toMatch("You have been signed out.");
    const { rows } = await service.database.owner.query("select from comments where content = 'written by ada'");
    expect(rows).toEqual([]);
  });

  test.each(["light", "dark"] as const)("is accessible and fits on a phone, %s", async (colorScheme) => {
    const comment = await publish(`Pneumono${"ultramicroscopic".repeat(8)} of supabase`);
    await comment(`A long word: ${"silicovolcanoconiosis".repeat(20)}`);
    const page = await openPage();
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await signIn(page);
    await page.getByRole("button", { name: "Pneumono" }).first().click();
    await expect.poll(() => comments(page), POLL).toHaveLength(1);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await overflowOf(page)).toBe(0);
    expect(await violationsOf(page)).toEqual([]);
  });
});

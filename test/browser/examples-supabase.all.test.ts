import { describe, expect, test } from "vitest";
import { faultsAtEachSize } from "../support/axe.ts";
import { hasBrowser } from "../support/browser.ts";
import * as examples from "../support/examples.ts";
import {
  alerts,
  button,
  comment,
  expectRows,
  listed,
  openPage,
  publishRows,
  send,
  settled,
  shown,
  signIn,
  useExamples,
  write,
} from "../support/examples.ts";
import { POLL } from "../support/until.ts";

const installed = hasBrowser("the example page with supabase-js");
const used = useExamples(installed);
const publish = (title: string) => examples.publish(used, title);

describe.skipIf(!installed)("the example page in demo/pages/supabase", () => {
  test("signs in with a username, lists articles and drafts with more on request, publishes, shows faults beside their fields, and signs the user out without the service", async () => {
    await publishRows(used);
    const page = await openPage(used, "supabase");
    await expectRows(page, 8);
    await button(page, "Register").click();
    const register = page.getByRole("form", { name: "Register" });
    await send(register, { Name: "Edith Clarke", "E-mail": "edith@supabase.example" });
    await register.locator("label", { hasText: "Password" }).locator(".error", { hasText: "password" }).waitFor();
    await send(register, { Password: "short" });
    await register.locator(".error", { hasText: "assword" }).waitFor();
    await page.keyboard.press("Escape");

    await signIn(page);
    await expectRows(page, 8);
    await button(page, "More").click();
    await expectRows(page, 16);
    const first = async () => (await listed(page))[0];
    await write(page, "The newest");
    await expect.poll(first, POLL).toBe("The newest");
    expect(await listed(page)).toHaveLength(16);
    const form = await write(page, "", "Save as draft");
    await form.locator(".error", { hasText: "title must have" }).waitFor();
    await write(page, "Draft of supabase", "Save as draft");
    await expect.poll(() => listed(page), POLL).toContain("Draft of supabase");
    await button(page, "Publish").click();
    await expect.poll(() => listed(page), POLL).not.toContain("Draft of supabase");
    await button(page, "Published").click();
    await expect.poll(first, POLL).toBe("Draft of supabase");

    await page.route("**/auth/v1/*", (route) => route.abort());
    await button(page, "Sign out").click();
    await page
      .getByRole("alert")
      .filter({ hasText: "You are signed out here. The service cannot be reached" })
      .waitFor();
    await button(page, "Sign in").waitFor();
  });

  test("reads its list again after a write whose response is lost, and shows what the last read has found", async () => {
    const page = await openPage(used, "supabase");
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
    const titles = ["Sent first, without a response", "Sent then, without a response"];
    for (const title of titles) {
      const form = await write(page, title);
      await answered.promise;
      await expect.poll(() => button(page, "Publish").isEnabled(), POLL).toBe(true);
      await form.getByRole("alert").getByText(/./).waitFor();
    }
    const newest = async () => (await listed(page)).slice(0, 2);
    await expect.poll(newest, POLL).toEqual(titles.toReversed());
    held.resolve();
    await arrived.promise;
    await settled(page);
    expect(await newest()).toEqual(titles.toReversed());
  });

  test("says that it waits, and repeats reads that are not answered", async () => {
    await publish("Lost reads");
    const page = await openPage(used, "supabase");
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
    await expect.poll(() => listed(page), POLL).toContain("Lost reads");
    lost.delete("articles");
    await button(page, "Lost reads").click();
    await page.getByRole("heading", { name: "Loading…" }).waitFor();
    await page.getByRole("heading", { name: "Lost reads" }).waitFor();
    await expect.poll(() => lost.has("comments"), POLL).toBe(true);
    await expect.poll(() => alerts(page), POLL).toMatch(/timed out/);
    await expect.poll(() => alerts(page), POLL).toBe("");
  });

  test("shows no HTML of a proxy whose service is down", async () => {
    const page = await openPage(used, "supabase");
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

  test("repeats a read that failed, follows comments, and forgets what the last user has read", async () => {
    const title = "Faults of supabase";
    const write = await publish(title);
    let isDown = false;
    const page = await openPage(used, "supabase");
    await page.route(/\/rest\/v1\//, (route) => {
      const { authorization } = route.request().headers();
      if (isDown) return route.fulfill({ status: 503, body: "" });
      // What an anonymous caller reads, as if policies hid all rows.
      if (authorization === `Bearer ${used.key}`)
        return route.fulfill({ json: [], headers: { "content-range": "*/0", "content-type": "application/json" } });
      return route.continue();
    });
    await signIn(page);
    await expect.poll(() => listed(page), POLL).toContain(`${title}`);
    isDown = true;
    await button(page, title).click();
    await button(page, "My drafts").click();
    // It does not show the rows of the other list until it has been read.
    expect(await listed(page)).toEqual([]);
    await button(page, "Published").click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    await write("first");
    isDown = false;
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    await expect.poll(() => listed(page), POLL).toContain(`${title}`);
    expect(await alerts(page)).toBe("");
    await write("live");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "live"]);

    await comment(page, "");
    await page.locator(".error", { hasText: "content must not be empty" }).waitFor();
    await comment(page, "own");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "live", "own"]);

    const other = await openPage(used, "supabase", page);
    await button(other, "Sign out").click();
    await page.getByText("Nothing here yet.").waitFor();
    await page.getByText("This article no longer exists.").waitFor();
    expect(await page.getByText(title).count()).toBe(0);
    expect(await shown(page)).toEqual([]);
  });

  test("shows a comment once while it is sent, also if its change arrives before the response", async () => {
    const write = await publish("Sent slowly");
    const page = await openPage(used, "supabase");
    await signIn(page);
    await button(page, "Sent slowly").click();
    await write("first");
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    const [send, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(/\/rest\/v1\/comments/, async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      await send.promise;
      const response = await route.fetch();
      await answer.promise;
      return route.fulfill({ response });
    });
    await comment(page, "own");
    await page.getByText("sending…").waitFor();
    expect(await shown(page)).toEqual(["first", "own"]);
    send.resolve();
    await page.getByText("sending…").waitFor({ state: "detached" });
    expect(await shown(page)).toEqual(["first", "own"]);
    answer.resolve();
    await expect.poll(() => page.getByLabel("Your comment").inputValue(), POLL).toBe("");
    await write("last");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "own", "last"]);
  });

  /** Ends the sessions of ada, as another device of hers does. */
  async function signOutElsewhere(): Promise<void> {
    const post = (path: string, headers: object, body: object) =>
      fetch(used.service.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", apikey: used.key, ...headers },
        body: JSON.stringify(body),
      });
    const login = await post("/auth/login", {}, { username: "ada", password: "Correct-Horse-7!" });
    const { accessToken } = (await login.json()) as { readonly accessToken: string };
    await post("/auth/logout", { authorization: `Bearer ${accessToken}` }, { scope: "global" });
  }

  test("shows a visitor's page, which goes on, after the session was revoked elsewhere", async () => {
    const title = "Revoked elsewhere";
    const write = await publish(title);
    const page = await openPage(used, "supabase");
    await signIn(page);
    await button(page, title).click();
    await write("first");
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    await signOutElsewhere();
    await button(page, "Sign in").waitFor();
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    await write("second");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "second"]);

    // Without a channel, the next read of the page notices it.
    const other = await openPage(used, "supabase");
    await signIn(other);
    await expect.poll(() => listed(other), POLL).toContain(`${title}`);
    await signOutElsewhere();
    await button(other, "My drafts").click();
    await button(other, "Sign in").waitFor();
  });

  test("gets another token when the service takes that of the page for expired", async () => {
    const write = await publish("Wrong clock");
    const page = await openPage(used, "supabase");
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
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    await page.getByText("Signed in as").waitFor();
  });

  test("sends nothing under the name of another user, who has signed in in another tab during a refresh", async () => {
    await publish("Two users");
    const page = await openPage(used, "supabase");
    await signIn(page);
    await button(page, "Two users").click();
    const form = page.getByRole("form", { name: "Comment" });
    await form.getByLabel("Your comment").fill("written by ada");
    const other = await openPage(used, "supabase", page);
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
    const { rows } = await used.service.database.owner.query("select from comments where content = 'written by ada'");
    expect(rows).toEqual([]);
  });

  test("is accessible, light and dark, and fits on a phone", async () => {
    const add = await publish(`Pneumono${"ultramicroscopic".repeat(8)} of supabase`);
    await add(`A long word: ${"silicovolcanoconiosis".repeat(20)}`);
    const page = await openPage(used, "supabase");
    await page.emulateMedia({ reducedMotion: "reduce" });
    await signIn(page);
    await page.getByRole("button", { name: "Pneumono" }).first().click();
    await expect.poll(() => shown(page), POLL).toHaveLength(1);
    expect(await faultsAtEachSize(page)).toEqual([]);
  });
});

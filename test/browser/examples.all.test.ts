import { once } from "node:events";
import { createServer } from "node:http";
import jwt from "jsonwebtoken";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { faultsAtEachSize } from "../support/axe.ts";
import { hasBrowser } from "../support/browser.ts";
import * as examples from "../support/examples.ts";
import {
  button,
  comments,
  listed,
  openPage,
  openTab,
  send,
  shown,
  signIn,
  useExamples,
  write,
} from "../support/examples.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** What all example pages do with the same code, each shown with one client. The forms of "plain" have no framework, the others React. */
const FORMS = ["plain", "apollo"];

const installed = hasBrowser("the example pages");
const SETTINGS = { MAIL_URL: "keep" };
const used = useExamples(installed, () => startTestService(SETTINGS));
const publish = (title: string) => examples.publish(used, title);

/** Answers requests on the port as a service that is starting, until one has come. */
async function answerStarting(port: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    response.writeHead(503, { "Retry-After": "1", Connection: "close" }).end();
    resolve();
  });
  server.on("upgrade", (_request, socket) => {
    socket.end("HTTP/1.1 503 Service Unavailable\r\n\r\n");
    resolve();
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  await promise;
  await once(server.close(), "close");
}

/** Changes what the browser has kept of the session. */
const change = (page: Page, changed: object) =>
  page.evaluate((values) => {
    const session = JSON.parse(localStorage.getItem("session")!);
    localStorage.setItem("session", JSON.stringify({ ...session, ...values }));
  }, changed);

const accessToken = (page: Page): Promise<string> =>
  page.evaluate(() => JSON.parse(localStorage.getItem("session")!).accessToken);

/** The statuses of the refreshes of the page. */
function refreshesOf(page: Page): number[] {
  const statuses: number[] = [];
  page.on("response", (response) => {
    if (response.url().endsWith("/auth/refresh") && response.request().method() === "POST")
      statuses.push(response.status());
  });
  return statuses;
}

describe.skipIf(!installed).each(FORMS)("the forms of the example page in demo/pages/%s", (folder) => {
  test("register users with all faults beside their fields, reset passwords, and sign users out, also without the service", async () => {
    const page = await openPage(used, folder);
    await button(page, "Register").click();
    const register = page.getByRole("form", { name: "Register" });
    await send(register, { Name: "", "E-mail": "nowhere", Password: "short" });
    const errors = async () => (await register.locator(".error:visible").allInnerTexts()).join("; ").split("; ");
    await expect
      .poll(errors, POLL)
      .toEqual([
        "name must have 1 to 200 characters",
        "email must be a valid address",
        "password must have at least 12 characters",
        "password must have an upper case letter",
        "password must have a digit",
        "password must have a special character, such as ! or -",
      ]);
    expect(await register.getByLabel("E-mail").getAttribute("aria-invalid")).toBe("true");
    expect(
      await register.getByLabel("Name").evaluate((input) => input === (globalThis as any).document.activeElement),
    ).toBe(true);
    await send(register, { Name: "Edith Clarke", "E-mail": `edith@${folder}.example`, Password: "Correct-Horse-8!" });
    await expect.poll(() => page.locator("strong").innerText(), POLL).toBe("Edith Clarke");
    await button(page, "Sign out").click();

    await button(page, "Sign in").click();
    const form = page.getByRole("form", { name: "Sign in" });
    await send(form, { Username: "ada", Password: "wrong" });
    await expect.poll(() => form.getByRole("alert").innerText(), POLL).toMatch(/password/);
    await button(page, "Forgot your password?").click();
    await send(page.getByRole("form", { name: "Reset your password" }), { "E-mail": "ada@example.com" });
    await page.getByText("You will get an e-mail with a link").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count(), POLL).toBe(0);

    await signIn(page);
    await page.route("**/auth/*", (route) => route.abort());
    await button(page, "Sign out").click();
    await page
      .getByRole("alert")
      .filter({
        hasText: "You are signed out here. The service cannot be reached: there, the sign-in ends when it expires.",
      })
      .waitFor();
    await button(page, "Sign in").waitFor();
    await page.reload();
    await button(page, "Sign in").waitFor();
    await page.unroute("**/auth/*");
    await signIn(page);
  });

  test("and its lists are accessible, light and dark, and fit on a phone", async () => {
    const add = await publish(`Pneumono${"ultramicroscopic".repeat(8)} in ${folder}`);
    await add(`A long word: ${"silicovolcanoconiosis".repeat(20)}`);
    const page = await openPage(used, folder);
    await page.emulateMedia({ reducedMotion: "reduce" });
    await signIn(page);
    await page.getByRole("button", { name: "Pneumono" }).first().click();
    await comments(page).getByRole("listitem").waitFor();
    expect(await faultsAtEachSize(page)).toEqual([]);
    await write(page, "");
    await expect.poll(() => page.locator(".error:visible").count(), POLL).toBeGreaterThan(0);
    expect(await faultsAtEachSize(page)).toEqual([]);
  });
});

test.skipIf(!installed)(
  "the tabs of a page share the session, of which one refreshes the tokens, until it is ended there, or found to have ended",
  async () => {
    const first = await openPage(used, "plain");
    const tabs = [first, await openPage(used, "plain", first)] as const;
    await signIn(first);
    await tabs[1].getByText("Signed in as").waitFor();
    const refreshed = tabs.map(refreshesOf);
    await change(first, { expiresAt: Date.now() - 1 });
    await Promise.all(tabs.map((tab) => button(tab, "My drafts").click()));
    await expect.poll(() => refreshed.flat(), POLL).toEqual([200]);
    for (const tab of tabs) await tab.getByText("Signed in as").waitFor();
    // A token that only the service finds expired.
    const claims = jwt.decode(await accessToken(first)) as object;
    await change(first, { accessToken: jwt.sign({ ...claims, exp: 1 }, JWT_SECRET) });
    await write(first, "With another token");
    await expect.poll(() => listed(first), POLL).toContain("With another token");
    expect(refreshed.flat()).toEqual([200, 200]);

    const last = { authorization: `Bearer ${await accessToken(first)}` };
    await button(first, "Sign out").click();
    await button(tabs[1], "Sign in").waitFor();
    const statusOf = async () => (await fetch(`${used.service.url}/auth/me`, { headers: last })).status;
    await expect.poll(statusOf, POLL).toBe(401);

    await signIn(first);
    const headers = { authorization: `Bearer ${await accessToken(first)}` };
    await fetch(`${used.service.url}/auth/logout`, { method: "POST", headers });
    // The socket finds the end of the session.
    for (const tab of tabs) await button(tab, "Sign in").waitFor();
  },
);

test.skipIf(!installed)(
  "a page reads its list again only when the service lets it, if it has refused a read",
  async () => {
    const { page } = await openTab(used, "urql");
    await page.getByText("Nothing here yet.").waitFor();
    await page.addInitScript(() => {
      const { setTimeout } = globalThis;
      const pauses: number[] = [];
      const hurried = (run: () => void, ms = 0) => {
        if (ms < 50_000) return setTimeout(run, ms);
        pauses.push(ms);
        return setTimeout(run, 100);
      };
      Object.assign(globalThis, { pauses, setTimeout: hurried });
    });
    let reads = 0;
    await page.route(/\/graphql$/, (route) =>
      reads++ > 0
        ? route.fallback()
        : route.fulfill({
            status: 429,
            headers: { "Retry-After": "50" },
            json: { errors: [{ message: "Too many requests.", extensions: { code: "RATE_LIMITED" } }] },
          }),
    );
    await page.reload();
    await page.getByText("Nothing here yet.").waitFor();
    expect(await page.evaluate("pauses")).toEqual([expect.any(Number)]);
  },
);

test.skipIf(!installed)(
  "a page misses no comment while the service is restarted, and before its subscription has begun again",
  async () => {
    const { database } = used.service;
    const add = await publish("Restarted");
    const page = await openPage(used, "plain");
    await button(page, "Restarted").click();
    await expect
      .poll(async () => {
        await add("Before.");
        return shown(page);
      })
      .toContain("Before.");

    const { port } = new URL(used.service.url);
    const failures: string[] = [];
    page.on("websocket", (socket) => socket.on("socketerror", (error) => failures.push(error)));
    let reads = 0;
    page.on("requestfinished", (request) => {
      if (request.postData()?.includes("query Articles")) reads++;
    });
    const connecting: string[] = [];
    await page.exposeFunction("beforeSubscribe", async () => {
      // What the page reads again has been read.
      await expect.poll(() => reads).toBeGreaterThan(0);
      connecting.push(`Connecting ${connecting.length}.`);
      await add(connecting.at(-1)!);
    });
    await page.evaluate(() => {
      const { send } = WebSocket.prototype;
      WebSocket.prototype.send = async function (message) {
        if (String(message).includes('"type":"subscribe"')) await (globalThis as any).beforeSubscribe();
        send.call(this, message);
      };
    });
    await used.service.service.stop();
    await add("Meanwhile.");
    // The page has tried to connect while nothing listens.
    await expect.poll(() => failures).not.toEqual([]);
    await answerStarting(Number(port));
    used.service = await startTestService({ ...SETTINGS, PORT: port }, database);
    await expect.poll(() => shown(page), POLL).toContain("Meanwhile.");
    await add("After.");
    await expect.poll(() => shown(page), POLL).toContain("After.");
    expect(connecting).not.toEqual([]);
    for (const content of ["Meanwhile.", ...connecting]) {
      await expect.poll(async () => (await shown(page)).filter((text) => text === content)).toHaveLength(1);
    }
  },
);

test.skipIf(!installed)(
  "the page with the cookie sends the CSRF token, and follows comments with the rights of the user who has signed in, in every tab, and of a visitor after that",
  async () => {
    const { owner } = used.service.database;
    await owner.query(
      `create policy "bob alone reads some comments" on public.comments as restrictive for select
        using (content <> 'For Bob.' or author_id = (select auth.uid()))`,
    );
    onTestFinished(async () => {
      await owner.query('drop policy "bob alone reads some comments" on public.comments');
    });
    const write = (content: string) =>
      owner.query("insert into comments (article_id, author_id, content) values (1, 2, $1)", [content]);
    const context = await used.browser.newContext();
    onTestFinished(() => context.close());
    const tabs = [await context.newPage(), await context.newPage()] as const;
    const shown = (tab: Page) => tab.getByRole("region", { name: "Comments" }).getByRole("listitem").allInnerTexts();
    /** The tab follows, and the service knows the policy. */
    const begins = (tab: Page, expected: string) =>
      expect
        .poll(async () => {
          await write("For Bob.");
          await write("Begin.");
          return (await shown(tab)).slice(-2);
        })
        .toEqual([expected, "Begin."]);
    for (const tab of tabs) {
      await tab.goto(used.urlOf("cookie"));
      await begins(tab, "Begin.");
    }
    const follow = async (content: string) => {
      await write("For Bob.");
      await write(content);
      for (const tab of tabs) await expect.poll(() => shown(tab)).toContain(content);
      return Promise.all(tabs.map(async (tab) => (await shown(tab)).slice(-2)));
    };
    const comment = tabs[0].getByRole("form", { name: "Comment" });
    await send(comment, { "Your comment": "Anonymous." });
    await expect.poll(() => tabs[0].getByRole("alert").innerText()).toMatch(/login required/);
    await send(tabs[0].getByRole("form", { name: "Sign in" }), { Username: "bob", Password: "Correct-Horse-7!" });
    for (const tab of tabs) await expect.poll(() => tab.locator("strong").innerText()).toBe("Bob Kahn");
    const both = ["For Bob.", "Signed in."];
    expect(await follow("Signed in.")).toEqual([both, both]);
    await send(comment, { "Your comment": "With the cookie." });
    for (const tab of tabs) await expect.poll(() => shown(tab)).toContain("With the cookie.");
    await tabs[1].reload();
    await expect.poll(() => tabs[1].locator("strong").innerText()).toBe("Bob Kahn");
    await begins(tabs[1], "For Bob.");

    await button(tabs[1], "Sign out").click();
    for (const tab of tabs) await tab.getByRole("form", { name: "Sign in" }).waitFor();
    for (const tab of tabs) expect(await shown(tab)).toEqual([]);
    expect(await follow("Signed out.")).toEqual([["Signed out."], ["Signed out."]]);

    await send(tabs[1].getByRole("form", { name: "Sign in" }), { Username: "bob", Password: "Correct-Horse-7!" });
    for (const tab of tabs) await expect.poll(() => tab.locator("strong").innerText()).toBe("Bob Kahn");
    expect(await follow("Again.")).toEqual([
      ["For Bob.", "Again."],
      ["For Bob.", "Again."],
    ]);
    await fetch(`${used.service.url}/auth/logout`, {
      method: "POST",
      headers: { authorization: `Bearer ${used.service.token("bob")}` },
    });
    for (const tab of tabs) await tab.getByRole("form", { name: "Sign in" }).waitFor();
  },
);

import { once } from "node:events";
import { createServer } from "node:http";
import jwt from "jsonwebtoken";
import type { Locator, Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { overflowOf, violationsOf } from "../support/axe.ts";
import { hasBrowser } from "../support/browser.ts";
import { publishArticle, signIn, useExamples } from "../support/examples.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";

const installed = hasBrowser("the example pages");

const SETTINGS = { MAIL_URL: "keep" };

const used = useExamples(installed, SETTINGS);

/** Opens a page of the examples. */
async function open(folder: string): Promise<Page> {
  const page = await used.browser.newPage({ viewport: { width: 900, height: 1200 } });
  page.setDefaultTimeout(120_000);
  onTestFinished(() => page.close());
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  onTestFinished(() => expect(faults).toEqual([]));
  await page.goto(used.examples.urlOf(folder));
  return page;
}

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

const list = (page: Page) => page.getByRole("region", { name: "List of articles" });
const titles = (page: Page) => list(page).getByRole("listitem").allInnerTexts();
const comments = (page: Page) => page.getByRole("region", { name: "Comments" });
/** The texts of the comments that the page shows, in order, without their authors and times. */
const shown = (page: Page) => comments(page).locator("li .content").allInnerTexts();
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

/** Fills the fields with these labels, and sends the form. */
async function send(form: Locator, values: Readonly<Record<string, string>>, action?: string): Promise<void> {
  for (const [label, value] of Object.entries(values)) await form.getByLabel(label).fill(value);
  await (action ? form.getByRole("button", { name: action }) : form.getByRole("button").first()).click();
}

/** Changes what the browser has kept of the session. */
const change = (page: Page, changed: object) =>
  page.evaluate((values) => {
    const session = JSON.parse(localStorage.getItem("session")!);
    localStorage.setItem("session", JSON.stringify({ ...session, ...values }));
  }, changed);

const accessToken = (page: Page): Promise<string> =>
  page.evaluate(() => JSON.parse(localStorage.getItem("session")!).accessToken);

/** Lets the page find that its access token has expired. */
const expire = (page: Page) => change(page, { expiresAt: Date.now() - 1 });

/** Replaces the access token of the page by one that the service finds expired. */
async function expireAtService(page: Page): Promise<void> {
  const claims = jwt.decode(await accessToken(page)) as object;
  await change(page, { accessToken: jwt.sign({ ...claims, exp: 1 }, JWT_SECRET) });
}

/** Ends the session of the page as on another device. */
async function logout(page: Page): Promise<void> {
  const headers = { authorization: `Bearer ${await accessToken(page)}` };
  await fetch(`${used.service.url}/auth/logout`, { method: "POST", headers });
}

/** The statuses of the refreshes of the page. */
function refreshesOf(page: Page): number[] {
  const statuses: number[] = [];
  page.on("response", (response) => {
    if (response.url().endsWith("/auth/refresh") && response.request().method() === "POST")
      statuses.push(response.status());
  });
  return statuses;
}

const publish = (title: string) => publishArticle(used.service.database, title);

describe.skipIf(!installed).each(["plain", "apollo", "urql"])("the example page in demo/pages/%s", (folder) => {
  test("registers users with all faults beside their fields, and resets passwords", async () => {
    const page = await open(folder);
    await button(page, "Register").click();
    const register = page.getByRole("form", { name: "Register" });
    await send(register, { Name: "", "E-mail": "nowhere", Password: "short" });
    const errors = async () => (await register.locator(".error:visible").allInnerTexts()).join("; ").split("; ");
    await expect
      .poll(errors)
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
    await expect.poll(() => page.locator("strong").innerText()).toBe("Edith Clarke");
    await button(page, "Sign out").click();

    await button(page, "Sign in").click();
    const signIn = page.getByRole("form", { name: "Sign in" });
    await send(signIn, { Username: "ada", Password: "wrong" });
    await expect.poll(() => signIn.getByRole("alert").innerText()).toMatch(/password/);
    await button(page, "Forgot your password?").click();
    await send(page.getByRole("form", { name: "Reset your password" }), { "E-mail": "ada@example.com" });
    await page.getByText("You will get an e-mail with a link").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  });

  test("refreshes expired tokens, also those that only the service finds expired, and shows when the session has ended", async () => {
    const page = await open(folder);
    await signIn(page);
    const refreshed = refreshesOf(page);
    await expire(page);
    await button(page, "New article").click();
    const create = page.getByRole("form", { name: "New article" });
    await send(create, { Title: "", Text: "Cards and threads." });
    await expect.poll(() => create.locator(".error:visible").innerText()).toMatch(/title/);
    expect(refreshed).toEqual([200]);
    await expireAtService(page);
    await send(create, { Title: `Mills in ${folder}`, Text: "Stores." });
    await expect.poll(() => titles(page)).toContain(`Mills in ${folder}\n\nby Ada Lovelace`);
    expect(refreshed).toEqual([200, 200]);

    await logout(page);
    // The socket finds the end of the session.
    await button(page, "Sign in").waitFor();
  });

  test("shares the session among its tabs, of which one refreshes the tokens, and ends it at the service", async () => {
    const context = await used.browser.newContext();
    onTestFinished(() => context.close());
    const tabs = [await context.newPage(), await context.newPage()] as const;
    for (const tab of tabs) await tab.goto(used.examples.urlOf(folder));
    await signIn(tabs[0]);
    await tabs[1].getByText("Signed in as").waitFor();
    const refreshed = tabs.map(refreshesOf);
    await expire(tabs[0]);
    await Promise.all(tabs.map((tab) => button(tab, "My drafts").click()));
    await expect.poll(() => refreshed.flat()).toEqual([200]);
    for (const tab of tabs) await tab.getByText("Signed in as").waitFor();

    const last = await accessToken(tabs[0]);
    await button(tabs[0], "Sign out").click();
    await button(tabs[1], "Sign in").waitFor();
    const statusOf = async () =>
      (await fetch(`${used.service.url}/auth/me`, { headers: { authorization: `Bearer ${last}` } })).status;
    await expect.poll(statusOf).toBe(401);
  });

  test("lists articles with more on request, and drafts for their author, who publishes them", async () => {
    await used.service.database.owner.query(
      "insert into articles (title, content, author_id, status) select 'Card ' || n, 'x', 1, 'PUBLISHED' from generate_series(1, 9) as n",
    );
    const page = await open(folder);
    await expect.poll(() => titles(page)).toHaveLength(8);
    await button(page, "More").click();
    await expect.poll(async () => new Set(await titles(page)).size).toBeGreaterThan(8);

    await signIn(page);
    await button(page, "New article").click();
    const title = `Draft in ${folder}`;
    await send(page.getByRole("form", { name: "New article" }), { Title: title, Text: "Text." }, "Save as draft");
    await expect.poll(() => titles(page)).toContain(`${title}\n\nby Ada Lovelace`);
    await button(page, "Publish").click();
    await expect.poll(() => titles(page)).not.toContain(`${title}\n\nby Ada Lovelace`);
    await button(page, "Published").click();
    await expect.poll(async () => (await titles(page))[0]).toBe(`${title}\n\nby Ada Lovelace`);
    await expect.poll(() => button(page, "Publish").count()).toBe(0);
  });

  test("shows comments oldest first, earlier ones on request, and new ones once as they are written", async () => {
    const comment = await publish(`Comments in ${folder}`);
    for (let i = 1; i <= 12; i++) await comment(`Comment ${i}`);
    const page = await open(folder);
    await signIn(page);
    await button(page, `Comments in ${folder}`).click();
    const numbers = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, i) => `Comment ${from + i}`);
    await expect.poll(() => shown(page)).toEqual(numbers(3, 12));
    await comment("Comment 13");
    await expect.poll(() => shown(page)).toEqual(numbers(3, 13));
    await button(page, "Earlier comments").click();
    await expect.poll(() => shown(page)).toEqual(numbers(1, 13));
    expect(await button(page, "Earlier comments").isVisible()).toBe(false);

    const form = page.getByRole("form", { name: "Comment" });
    await send(form, { "Your comment": "" });
    await expect.poll(() => form.locator(".error:visible, [role=alert]").allInnerTexts()).not.toEqual([""]);
    await expect.poll(() => shown(page)).toEqual(numbers(1, 13));
    // The comment is there before the service has it.
    const held = Promise.withResolvers<void>();
    await page.route("**/graphql", async (route) => {
      if (route.request().postData()?.includes("mutation")) await held.promise;
      await route.continue();
    });
    await send(form, { "Your comment": "Comment 14" });
    await expect
      .poll(() => comments(page).locator(".sending").innerText())
      .toMatch(/Comment 14\s+Ada Lovelace, sending…/);
    await comment("Of another user");
    await expect.poll(() => shown(page)).toEqual([...numbers(1, 13), "Of another user", "Comment 14"]);
    held.resolve();
    await expect.poll(() => comments(page).locator(".sending").count()).toBe(0);
    await expect
      .poll(async () => (await shown(page)).filter((text) => text.startsWith("Comment")))
      .toEqual(numbers(1, 14));
  });

  test("shows comments without a hole when an article is opened again whose earlier ones have been read", async () => {
    const comment = await publish(`Opened again in ${folder}`);
    await publish(`Other of ${folder}`);
    for (let i = 1; i <= 25; i++) await comment(`Comment ${i}`);
    const page = await open(folder);
    await button(page, `Opened again in ${folder}`).click();
    const numbers = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, i) => `Comment ${from + i}`);
    await expect.poll(() => shown(page)).toEqual(numbers(16, 25));
    await button(page, "Earlier comments").click();
    await expect.poll(() => shown(page)).toEqual(numbers(6, 25));
    await button(page, `Other of ${folder}`).click();
    await page.getByRole("heading", { name: `Other of ${folder}` }).waitFor();
    for (let i = 26; i <= 30; i++) await comment(`Comment ${i}`);
    await button(page, `Opened again in ${folder}`).click();
    await expect.poll(() => shown(page)).toEqual(numbers(21, 30));
    await comment("Comment 31");
    await expect.poll(() => shown(page)).toEqual(numbers(21, 31));
    for (const first of [11, 1]) {
      await button(page, "Earlier comments").click();
      await expect.poll(() => shown(page)).toEqual(numbers(first, 31));
    }
    expect(await button(page, "Earlier comments").isVisible()).toBe(false);
  });

  test("shows a comment once whose event arrives before the response", async () => {
    await publish(`Events in ${folder}`);
    const page = await open(folder);
    const received = Promise.withResolvers<void>();
    page.on("websocket", (socket) =>
      socket.on("framereceived", ({ payload }) => String(payload).includes("Mine") && received.resolve()),
    );
    await signIn(page);
    await button(page, `Events in ${folder}`).click();
    const held = Promise.withResolvers<void>();
    await page.route("**/graphql", async (route) => {
      if (!route.request().postData()?.includes("mutation")) return route.continue();
      const response = await route.fetch();
      await held.promise;
      await route.fulfill({ response });
    });
    await send(page.getByRole("form", { name: "Comment" }), { "Your comment": "Mine" });
    await received.promise;
    held.resolve();
    await expect.poll(() => button(page, "Send").isEnabled()).toBe(true);
    expect(await shown(page)).toEqual(["Mine"]);
  });

  test("says that an article which was deleted meanwhile no longer exists, and does not subscribe to it", async () => {
    await publish(`Deleted in ${folder}`);
    const page = await open(folder);
    const subscriptions: unknown[] = [];
    page.on("websocket", (socket) =>
      socket.on("framesent", ({ payload }) => {
        if (String(payload).includes('"type":"subscribe"')) subscriptions.push(payload);
      }),
    );
    // The socket of this page is one that the test sees.
    await page.reload();
    const title = button(page, `Deleted in ${folder}`);
    await title.waitFor();
    await used.service.database.owner.query("delete from articles where title = $1", [`Deleted in ${folder}`]);
    await title.click();
    await page.getByText("This article no longer exists.").waitFor();
    expect(await comments(page).isVisible()).toBe(false);
    expect(subscriptions).toEqual([]);
  });

  test("misses no comment while the service is restarted, and before its subscription has begun again", async () => {
    const { database } = used.service;
    const comment = await publish(`Restart of ${folder}`);
    const page = await open(folder);
    await button(page, `Restart of ${folder}`).click();
    await expect
      .poll(async () => {
        await comment("Before.");
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
      await comment(connecting.at(-1)!);
    });
    await page.evaluate(() => {
      const { send } = WebSocket.prototype;
      WebSocket.prototype.send = async function (message) {
        if (String(message).includes('"type":"subscribe"')) await (globalThis as any).beforeSubscribe();
        send.call(this, message);
      };
    });
    await used.service.service.stop();
    await comment("Meanwhile.");
    // The page has tried to connect while nothing listens.
    await expect.poll(() => failures).not.toEqual([]);
    await answerStarting(Number(port));
    used.service = await startTestService({ ...SETTINGS, PORT: port }, database);
    await expect.poll(() => shown(page)).toContain("Meanwhile.");
    await comment("After.");
    await expect.poll(() => shown(page)).toContain("After.");
    expect(connecting).not.toEqual([]);
    for (const content of ["Meanwhile.", ...connecting]) {
      await expect.poll(async () => (await shown(page)).filter((text) => text === content)).toHaveLength(1);
    }
  });

  test.each(["light", "dark"] as const)("is accessible and fits on a phone, %s", async (colorScheme) => {
    const comment = await publish(`Pneumono${"ultramicroscopic".repeat(8)} in ${folder}`);
    await comment(`A long word: ${"silicovolcanoconiosis".repeat(20)}`);
    const page = await open(folder);
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await signIn(page);
    await list(page).getByRole("button", { name: "Pneumono" }).first().click();
    await comments(page).getByRole("listitem").waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await overflowOf(page)).toBe(0);
    expect(await violationsOf(page)).toEqual([]);
    await button(page, "New article").click();
    await send(page.getByRole("form", { name: "New article" }), { Title: "", Text: "" });
    await expect.poll(() => page.locator(".error:visible").count()).toBeGreaterThan(0);
    expect(await overflowOf(page)).toBe(0);
    expect(await violationsOf(page)).toEqual([]);
  });
});

test.skipIf(!installed)(
  "a page behind the proxy of Vite signs in with the cookie, sends the CSRF token, and follows comments over a WebSocket",
  async () => {
    const page = await open("cookie");
    const list = () => page.getByRole("region", { name: "Comments" }).getByRole("listitem").allInnerTexts();
    await expect
      .poll(async () => {
        await used.service.database.owner.query(
          "insert into comments (article_id, author_id, content) values (1, 2, 'For all.')",
        );
        return list();
      })
      .toContain("For all.");
    const comment = page.getByRole("form", { name: "Comment" });
    await send(comment, { "Your comment": "Anonymous." });
    await expect.poll(() => page.getByRole("alert").innerText()).toMatch(/login required/);
    await send(page.getByRole("form", { name: "Sign in" }), { Username: "bob", Password: "Correct-Horse-7!" });
    await expect.poll(() => page.locator("strong").innerText()).toBe("Bob Kahn");
    await send(comment, { "Your comment": "With the cookie." });
    await expect.poll(list).toContain("With the cookie.");
    await page.reload();
    await expect.poll(() => page.locator("strong").innerText()).toBe("Bob Kahn");
    await button(page, "Sign out").click();
    await page.getByRole("form", { name: "Sign in" }).waitFor();
  },
);

test.skipIf(!installed)(
  "the page with the cookie follows comments with the rights of the user who has signed in, in every tab, and of a visitor after that",
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
    for (const tab of tabs) {
      await tab.goto(used.examples.urlOf("cookie"));
      // It follows, and the service knows the policy.
      await expect
        .poll(async () => {
          await write("For Bob.");
          await write("Begin.");
          return (await shown(tab)).slice(-2);
        })
        .toEqual(["Begin.", "Begin."]);
    }
    const follow = async (content: string) => {
      await write("For Bob.");
      await write(content);
      for (const tab of tabs) await expect.poll(() => shown(tab)).toContain(content);
      return Promise.all(tabs.map(async (tab) => (await shown(tab)).slice(-2)));
    };
    await send(tabs[0].getByRole("form", { name: "Sign in" }), { Username: "bob", Password: "Correct-Horse-7!" });
    for (const tab of tabs) await expect.poll(() => tab.locator("strong").innerText()).toBe("Bob Kahn");
    const both = ["For Bob.", "Signed in."];
    expect(await follow("Signed in.")).toEqual([both, both]);

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

import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import jwt from "jsonwebtoken";
import type { Browser, Locator, Page, WebSocket } from "playwright-core";
import { build, type PreviewServer, preview } from "vite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

const installed = hasBrowser("the example pages");

let service: TestService;
let pages: PreviewServer;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  const options = { root: "demo/pages", logLevel: "warn" } as const;
  const outDir = await mkdtemp(join(tmpdir(), "examples-"));
  [service, browser] = await Promise.all([
    startTestService(),
    launchBrowser(),
    build({ ...options, build: { outDir } }),
  ]);
  pages = await preview({ ...options, build: { outDir }, preview: { port: 0, host: "127.0.0.1" } });
});
afterAll(async () => {
  await browser?.close();
  await pages?.close();
  await service?.stop();
});

/** Opens a page of the examples, which are on another origin than the service. */
async function open(folder: string): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 900, height: 1200 } });
  page.setDefaultTimeout(60_000);
  onTestFinished(() => page.close());
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  onTestFinished(() => expect(faults).toEqual([]));
  await page.goto(`${pages.resolvedUrls!.local[0]}${folder}/index.html?api=${service.url}`);
  return page;
}

/** The state of an EventSource that does not connect again. */
const CLOSED = 2;

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

const titles = (page: Page) =>
  page.getByRole("region", { name: "List of articles" }).getByRole("listitem").allInnerTexts();

/** Fills the fields with these labels, and sends the form. */
async function send(form: Locator, values: Readonly<Record<string, string>>): Promise<void> {
  for (const [label, value] of Object.entries(values)) await form.getByLabel(label).fill(value);
  await form.getByRole("button").click();
}

/** Lets the page find that its access token has expired. */
const expire = (page: Page) =>
  page.evaluate(() => {
    const session = JSON.parse(sessionStorage.getItem("session")!);
    sessionStorage.setItem("session", JSON.stringify({ ...session, expiresAt: Date.now() - 1 }));
  });

/** Replaces the access token of the page by one that the service finds expired. */
async function expireAtService(page: Page): Promise<void> {
  const own = await page.evaluate(() => JSON.parse(sessionStorage.getItem("session")!).accessToken);
  const expired = jwt.sign({ ...(jwt.decode(own) as object), exp: 1 }, JWT_SECRET);
  await page.evaluate((accessToken) => {
    const session = JSON.parse(sessionStorage.getItem("session")!);
    sessionStorage.setItem("session", JSON.stringify({ ...session, accessToken }));
  }, expired);
}

/** Ends the session of the page as on another device. */
async function logout(page: Page): Promise<void> {
  const own = await page.evaluate(() => JSON.parse(sessionStorage.getItem("session")!).accessToken);
  await fetch(`${service.url}/auth/logout`, { method: "POST", headers: { authorization: `Bearer ${own}` } });
}

describe.skipIf(!installed).each(["plain", "react"])("the example page in demo/pages/%s", (folder) => {
  test("registers users with all faults beside their fields, signs them in, and refreshes an expired token", async () => {
    const page = await open(folder);
    const register = page.getByRole("form", { name: "Register" });
    await send(register, { Name: "", "E-mail": "nowhere", Password: "short" });
    await expect
      .poll(() => register.locator(".error").allInnerTexts())
      .toEqual([
        "name must have 1 to 200 characters",
        "email must be a valid address",
        "password must have at least 12 characters",
        "password must have an upper case letter",
        "password must have a digit",
        "password must have a special character, such as ! or -",
      ]);
    expect(await register.getByLabel("E-mail").getAttribute("aria-invalid")).toBe("true");
    await send(register, { Name: "Edith Clarke", "E-mail": `edith@${folder}.example`, Password: "Correct-Horse-8!" });
    await expect.poll(() => page.locator("strong").innerText()).toBe("Edith Clarke");
    await page.getByRole("button", { name: "Sign out" }).click();

    const signIn = page.getByRole("form", { name: "Sign in" });
    await send(signIn, { Username: "ada", Password: "wrong" });
    await expect.poll(() => signIn.getByRole("alert").innerText()).toMatch(/password/);
    await send(signIn, { Username: "ada", Password: "Correct-Horse-7!" });
    await expect.poll(() => page.locator("strong").innerText()).toBe("Ada Lovelace");

    await expire(page);
    const refreshed: number[] = [];
    page.on("response", (response) => {
      if (response.url().endsWith("/auth/refresh") && response.request().method() === "POST")
        refreshed.push(response.status());
    });
    const create = page.getByRole("form", { name: "New article" });
    await send(create, { Title: "", Content: "Cards and threads." });
    await expect.poll(() => create.locator(".error").innerText()).toMatch(/title/);
    expect(refreshed).toEqual([200]);
    await send(create, { Title: `Looms in ${folder}`, Content: "Cards and threads." });
    await expect.poll(() => titles(page)).toContain(`Looms in ${folder} by Ada Lovelace`);
    await expireAtService(page);
    await send(create, { Title: `Mills in ${folder}`, Content: "Stores." });
    await expect.poll(() => titles(page)).toContain(`Mills in ${folder} by Ada Lovelace`);
    expect(refreshed).toEqual([200, 200]);

    await logout(page);
    await send(create, { Title: "Looms again", Content: "Cards and threads." });
    await expect.poll(() => create.getByRole("alert").innerText()).toBe("Your session has ended: sign in again.");
    await send(signIn, { Username: "ada", Password: "Correct-Horse-7!" });
    await expect.poll(() => page.locator("strong").innerText()).toBe("Ada Lovelace");
    await logout(page);
    await expire(page);
    await send(create, { Title: "Looms again", Content: "Cards and threads." });
    await signIn.waitFor();
    expect(refreshed).toEqual([200, 200, 401]);
  });

  test("shows a list with pages, and the comments on an article as they are written", async () => {
    await service.database.owner.query(
      "insert into articles (title, content, author_id, status) select 'Card ' || n, 'x', 1, 'PUBLISHED' from generate_series(1, 6) as n",
    );
    const page = await open(folder);
    const sockets: WebSocket[] = [];
    const greetings: string[] = [];
    page.on("websocket", (socket) => {
      sockets.push(socket);
      socket.on("framesent", ({ payload }) => {
        if (String(payload).includes("connection_init")) greetings.push(String(payload));
      });
    });
    await expect.poll(() => titles(page)).toHaveLength(5);
    const first = await titles(page);
    await page.getByRole("button", { name: "Next" }).click();
    await expect.poll(() => titles(page)).not.toEqual(first);
    await page.getByRole("button", { name: "Previous" }).click();
    await expect.poll(() => titles(page)).toEqual(first);

    const { rows } = await service.database.owner.query("select max(id) as id from articles");
    const comment = (content: string) =>
      service.database.owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [
        rows[0].id,
        content,
      ]);
    await comment("Written before.");
    await page
      .getByRole("button", { name: first[0]!.split(" by ")[0]! })
      .first()
      .click();
    const comments = page.getByRole("region", { name: "Comments" });
    const shown = () => comments.getByRole("listitem").allInnerTexts();
    await expect.poll(shown).toEqual(["Bob Kahn: Written before."]);
    // Until the subscription of the page has begun.
    await expect
      .poll(async () => {
        await comment("Written after.");
        return shown();
      })
      .toContain("Bob Kahn: Written after.");
    await send(comments.getByRole("form"), { Comment: "Without an account" });
    await expect.poll(() => comments.getByRole("alert").innerText()).toMatch(/login required/);

    const signIn = page.getByRole("form", { name: "Sign in" });
    await send(signIn, { Username: "ada", Password: "Correct-Horse-7!" });
    await expect.poll(() => page.locator("strong").innerText()).toBe("Ada Lovelace");
    if (folder === "react") {
      await expect.poll(() => greetings.at(-1)).toMatch(/Bearer/);
      await page.getByRole("button", { name: "Sign out" }).click();
      await expect.poll(() => greetings.at(-1)).not.toMatch(/Bearer/);
      await expect.poll(() => sockets.slice(0, -1).every((socket) => socket.isClosed())).toBe(true);
      await send(signIn, { Username: "ada", Password: "Correct-Horse-7!" });
      await expect.poll(() => page.locator("strong").innerText()).toBe("Ada Lovelace");
    }
    await logout(page);
    await send(comments.getByRole("form"), { Comment: "After the end" });
    // In React, the socket may be the first to find the end of the session.
    const ended = folder === "react" ? /session has ended|login required/ : /session has ended/;
    await expect.poll(() => comments.getByRole("alert").innerText()).toMatch(ended);
    await signIn.waitFor();
  });

  test("says that an article which was deleted meanwhile no longer exists, and does not subscribe again", async () => {
    const inserted = await service.database.owner.query(
      "insert into articles (title, content, author_id, status) values ('Deleted soon', 'x', 1, 'PUBLISHED') returning id",
    );
    const page = await open(folder);
    const button = page.getByRole("button", { name: "Deleted soon" });
    await button.waitFor();
    await service.database.owner.query("delete from articles where id = $1", [inserted.rows[0].id]);
    await page.evaluate(() => {
      const page = globalThis as any;
      page.EventSource = class extends EventSource {
        constructor(url: string) {
          super(url);
          page.stream = this;
        }
      };
    });
    await button.click();
    const comments = page.getByRole("region", { name: "Comments" });
    await expect.poll(() => comments.getByRole("alert").innerText()).toBe("This article no longer exists.");
    expect(await comments.getByRole("form").count()).toBe(0);
    // Otherwise the stream would connect again, for good.
    const state = () => page.evaluate(() => (globalThis as any).stream?.readyState);
    await expect.poll(state).toBe(folder === "plain" ? CLOSED : undefined);
  });

  test("receives comments again after the service was restarted", async () => {
    const { database } = service;
    const inserted = await database.owner.query(
      "insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED') returning id",
      [`Restart of ${folder}`],
    );
    const comment = (content: string) =>
      database.owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [
        inserted.rows[0].id,
        content,
      ]);
    const page = await open(folder);
    await page.getByRole("button", { name: `Restart of ${folder}` }).click();
    const comments = page.getByRole("region", { name: "Comments" });
    const shown = () => comments.getByRole("listitem").allInnerTexts();
    await expect
      .poll(async () => {
        await comment("Before.");
        return shown();
      })
      .toContain("Bob Kahn: Before.");

    const { port } = new URL(service.url);
    const failures: string[] = [];
    page.on("requestfailed", (request) => failures.push(request.failure()!.errorText));
    page.on("websocket", (socket) => socket.on("socketerror", (error) => failures.push(error)));
    const connecting: string[] = [];
    let reads = 0;
    page.on("requestfinished", (request) => {
      if (request.postData()?.includes("query Articles")) reads++;
    });
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
    await service.service.stop();
    await comment("Meanwhile.");
    // The page has tried to connect while nothing listens.
    await expect.poll(() => failures.join()).toContain("ERR_CONNECTION_REFUSED");
    await answerStarting(Number(port));
    service = await startTestService({ PORT: port }, database);
    await expect.poll(shown).toContain("Bob Kahn: Meanwhile.");
    await comment("After.");
    await expect.poll(shown).toContain("Bob Kahn: After.");
    if (folder === "react") expect(connecting).not.toEqual([]);
    for (const content of ["Meanwhile.", ...connecting]) {
      expect((await shown()).filter((text) => text === `Bob Kahn: ${content}`)).toHaveLength(1);
    }
  });
});

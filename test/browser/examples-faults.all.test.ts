import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { hasBrowser } from "../support/browser.ts";
import { signIn, useExamples } from "../support/examples.ts";
import { POLL } from "../support/until.ts";

const installed = hasBrowser("what example pages do after a fault");

const used = useExamples(installed);

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const listed = (page: Page) =>
  page.getByRole("region", { name: "List of articles" }).getByRole("listitem").allInnerTexts();
/** The page has handled what has reached it when it handles what comes after that. */
const settled = (page: Page) => page.evaluate("fetch('/health').then((response) => response.text())");
const comments = (page: Page) => page.getByRole("region", { name: "Comments" }).locator("li .content").allInnerTexts();
const alerts = async (page: Page) => (await page.getByRole("alert").allInnerTexts()).join("").trim();

/** What an anonymous caller reads, as if policies hid all rows. */
const NOTHING = {
  article: null,
  articles: {
    ...{ __typename: "ArticleConnection", totalCount: 0, edges: [] },
    pageInfo: {
      __typename: "PageInfo",
      startCursor: null,
      endCursor: null,
      hasPreviousPage: false,
      hasNextPage: false,
    },
  },
};

/** A tab whose reads fail while `isDown`, and which ends its subscription with an error of a code. */
async function openTab(url: string, opener?: Page) {
  const context = opener?.context() ?? (await used.browser.newContext({ viewport: { width: 900, height: 1200 } }));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  onTestFinished(() => page.close());
  const tab = {
    page,
    isDown: false,
    /** Reads are answered when this is resolved; `waiting` has their names. */
    answer: Promise.resolve(),
    waiting: new Set<string>(),
    end: (_code: string): void => {},
    close: async () => {},
    after: [] as unknown[],
    users: [] as unknown[],
  };
  page.on("pageerror", (error) => expect.unreachable(error.message));
  await page.routeWebSocket(/\/graphql$/, (route) => {
    const server = route.connectToServer();
    let last = "";
    route.onMessage((message) => {
      const { type, id, payload } = JSON.parse(String(message));
      if (type === "subscribe") {
        last = id;
        tab.after.push(payload.extensions.after);
      }
      if (type === "connection_init") tab.users.push(payload?.Authorization);
      server.send(message);
    });
    tab.close = () => route.close({ code: 1012, reason: "the service is stopping" });
    tab.end = (code) => {
      server.send(JSON.stringify({ id: last, type: "complete" }));
      route.send(
        JSON.stringify({ id: last, type: "error", payload: [{ message: "It is faked.", extensions: { code } }] }),
      );
    };
  });
  await page.route(/\/graphql$/, async (route) => {
    const operation = /^\w+ \w+/.exec(route.request().postDataJSON().query)![0];
    tab.waiting.add(operation);
    await tab.answer;
    tab.waiting.delete(operation);
    if (tab.isDown) return route.fulfill({ status: 503, body: "" });
    if (route.request().headers().authorization === undefined) return route.fulfill({ json: { data: NOTHING } });
    return route.continue();
  });
  await page.goto(url);
  return tab;
}

test.skipIf(!installed).each(["plain", "apollo", "urql"])(
  "the page in demo/pages/%s keeps what it shows beside the error of a read, until another read has ended",
  async (folder) => {
    const { owner } = used.service.database;
    const title = `Kept in ${folder}`;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) select $1, 'x', 1, 'PUBLISHED' from generate_series(1, 20) returning id",
      [title],
    );
    await owner.query("insert into comments (article_id, author_id, content) select unnest($1::int[]), 2, 'kept'", [
      rows.map(({ id }) => id),
    ]);
    const tab = await openTab(used.examples.urlOf(folder));
    const { page } = tab;
    await signIn(page);
    const count = async () => (await listed(page)).length;
    await expect.poll(count, POLL).toBe(8);
    await button(page, title).first().click();
    await expect.poll(() => comments(page), POLL).toEqual(["kept"]);
    await expect.poll(() => tab.after.length, POLL).toBe(1);

    const message = page.getByText("The service cannot be reached (status 503).", { exact: true });
    tab.isDown = true;
    await button(page, "More").click();
    await message.first().waitFor();
    expect(await count()).toBe(8);
    tab.end("CHANGES_MISSED");
    await expect.poll(() => message.count(), POLL).toBe(2);
    expect(await comments(page)).toEqual(["kept"]);
    const answer = Promise.withResolvers<void>();
    tab.answer = answer.promise;
    await expect.poll(() => [...tab.waiting].sort(), POLL).toEqual(["query Articles", "query Read"]);
    await settled(page);
    expect([await message.count(), await count()]).toEqual([2, 8]);
    expect(await comments(page)).toEqual(["kept"]);
    tab.isDown = false;
    answer.resolve();
    await expect.poll(count, POLL).toBe(16);
    await expect.poll(() => message.count(), POLL).toBe(0);
    expect(await comments(page)).toEqual(["kept"]);
  },
);

describe.skipIf(!installed).each(["plain", "apollo", "urql"])("the example page in demo/pages/%s", (folder) => {
  test("keeps all rows of its list when an article is published, and when the service is reached again", async () => {
    const { owner } = used.service.database;
    await owner.query(
      "insert into articles (title, content, author_id, status) select 'Row ' || i, 'x', 1, 'PUBLISHED' from generate_series(1, 20) i",
    );
    const tab = await openTab(used.examples.urlOf(folder));
    const { page } = tab;
    await signIn(page);
    const count = async () => (await listed(page)).length;
    await expect.poll(count, POLL).toBe(8);
    await button(page, "More").click();
    await expect.poll(count, POLL).toBe(16);
    const first = async () => (await listed(page))[0]?.split("\n")[0];
    await button(page, "New article").click();
    const article = page.getByRole("form", { name: "New article" });
    await article.getByLabel("Title").fill(`Published in ${folder}`);
    await article.getByLabel("Text").fill("x");
    await article.getByRole("button", { name: "Publish" }).click();
    await expect.poll(first, POLL).toBe(`Published in ${folder}`);
    expect(await count()).toBe(16);

    await expect.poll(() => tab.after.length, POLL).toBe(1);
    await owner.query("insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED')", [
      `Meanwhile in ${folder}`,
    ]);
    await tab.close();
    await expect.poll(first, POLL).toBe(`Meanwhile in ${folder}`);
    expect(await count()).toBe(16);
  });

  test("reads its list again after a lost connection, also while no article is open", async () => {
    const tab = await openTab(used.examples.urlOf(folder));
    await signIn(tab.page);
    await expect.poll(() => tab.users.at(-1), POLL).toMatch(/^Bearer /);
    const title = `Nothing is open in ${folder}`;
    await used.service.database.owner.query(
      "insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED')",
      [title],
    );
    await tab.close();
    await expect.poll(() => listed(tab.page), POLL).toContain(`${title}\n\nby Ada Lovelace`);
  });

  test("reads its list again only when the service lets it, if it has refused a read", async () => {
    const { page } = await openTab(used.examples.urlOf(folder));
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
  });

  test("reads its list again after a mutation whose response is lost", async () => {
    const { page } = await openTab(used.examples.urlOf(folder));
    // Lists are not read because the socket is open again.
    await page.routeWebSocket(/\/graphql$/, () => {});
    await page.reload();
    await signIn(page);
    await expect.poll(() => listed(page), POLL).not.toEqual([]);
    await page.route(/\/graphql$/, async (route) => {
      if (!route.request().postData()?.includes("mutation")) return route.fallback();
      await route.fetch();
      return route.abort();
    });
    const title = `Without a response in ${folder}`;
    await button(page, "New article").click();
    const article = page.getByRole("form", { name: "New article" });
    await article.getByLabel("Title").fill(title);
    await article.getByLabel("Text").fill("x");
    await article.getByRole("button", { name: "Publish" }).click();
    await article.getByRole("alert").getByText("The service cannot be reached.", { exact: true }).waitFor();
    await expect.poll(async () => (await listed(page))[0], POLL).toBe(`${title}\n\nby Ada Lovelace`);
  });

  test("signs the user out without the service, and says what that means", async () => {
    const { page } = await openTab(used.examples.urlOf(folder));
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

  test("repeats a read that failed, goes on after its changes could not be read, and forgets what the last user has read", async () => {
    const title = `Faults of ${folder}`;
    const { owner } = used.service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) select unnest($1::text[]), 'x', 1, 'PUBLISHED' returning id",
      [[title, `Another of ${folder}`]],
    );
    const write = (content: string) =>
      owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [rows[0].id, content]);
    const tab = await openTab(used.examples.urlOf(folder));
    const { page } = tab;
    await page.getByText("Nothing here yet.").waitFor();
    await signIn(page);
    await expect.poll(() => listed(page), POLL).toContain(`${title}\n\nby Ada Lovelace`);

    tab.isDown = true;
    await page.reload();
    await page.getByText("The service cannot be reached (status 503).").waitFor();
    tab.isDown = false;
    await expect.poll(() => listed(page), POLL).toContain(`${title}\n\nby Ada Lovelace`);

    await write("first");
    tab.isDown = true;
    await button(page, title).click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    tab.isDown = false;
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await expect.poll(() => alerts(page), POLL).toBe("");
    await expect.poll(() => tab.after.length, POLL).toBeGreaterThan(0);

    const before = tab.after.length;
    tab.end("CHANGES_UNAVAILABLE");
    await expect.poll(() => alerts(page), POLL).toContain("It is faked.");
    await write("while changes were not read");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "while changes were not read"]);
    expect(tab.after.length).toBe(before + 1);
    expect(tab.after.at(-1)).toEqual(expect.any(String));
    expect(await alerts(page)).toBe("");

    tab.isDown = true;
    tab.end("CHANGES_MISSED");
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    await write("while the read failed");
    tab.isDown = false;
    const three = ["first", "while changes were not read", "while the read failed"];
    await expect.poll(() => comments(page), POLL).toEqual(three);

    // It is opened again while it cannot be read.
    await button(page, `Another of ${folder}`).click();
    await page.getByRole("heading", { name: `Another of ${folder}` }).waitFor();
    tab.isDown = true;
    await button(page, title).click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    tab.isDown = false;
    await expect.poll(() => alerts(page), POLL).toBe("");
    await expect.poll(() => comments(page), POLL).toEqual(three);

    const other = await openTab(used.examples.urlOf(folder), page);
    await button(other.page, "Sign out").click();
    await page.getByText("Nothing here yet.").waitFor();
    await page.getByText("This article no longer exists.").waitFor();
    expect(await listed(page)).toEqual([]);
    expect(await page.getByText(title).count()).toBe(0);
    expect(await comments(page)).toEqual([]);
  });
});

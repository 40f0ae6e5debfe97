import { isDeepStrictEqual } from "node:util";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { hasBrowser } from "../support/browser.ts";
import { publishArticle, signIn, useExamples } from "../support/examples.ts";
import { POLL } from "../support/until.ts";

const installed = hasBrowser("what example pages do while answers are on their way");

const used = useExamples(installed);

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const listed = async (page: Page) =>
  (await page.getByRole("region", { name: "List of articles" }).getByRole("listitem").allInnerTexts()).map(
    (text) => text.split("\n")[0],
  );
const comments = (page: Page) => page.getByRole("region", { name: "Comments" }).locator("li .content").allInnerTexts();
const opened = (page: Page, title: string) => page.getByRole("heading", { name: title, exact: true }).waitFor();

async function open(folder: string): Promise<Page> {
  const page = await used.browser.newPage({ viewport: { width: 900, height: 1200 } });
  page.setDefaultTimeout(60_000);
  onTestFinished(() => page.close());
  page.on("pageerror", (error) => expect.unreachable(error.message));
  // The limit of session.ts must not end what is held.
  await page.addInitScript(() => {
    AbortSignal.timeout = () => new AbortController().signal;
  });
  await page.goto(used.examples.urlOf(folder));
  return page;
}

/** Lets the service answer operations with this text, and holds the answers until they are released, in the order of the requests. */
async function hold(page: Page, text: string) {
  const [held, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let turn: Promise<unknown> = held.promise;
  await page.route(/\/graphql$/, async (route) => {
    if (!route.request().postData()?.includes(text)) return route.fallback();
    const fetched = route.fetch();
    turn = turn
      .then(async () => route.fulfill({ response: await fetched }))
      // The page gives up a read when it begins another one.
      .then(async () => route.request().failure() ?? (await route.request().response())?.finished())
      // The page may have given the request up.
      .catch(() => {});
    await fetched;
    answered.resolve();
  });
  async function release(): Promise<void> {
    const arrived = page.waitForEvent("requestfinished", (request) => Boolean(request.postData()?.includes(text)));
    held.resolve();
    await arrived;
    // The page has handled the response when it handles what comes after it.
    await page.evaluate("fetch('/health').then((response) => response.text())");
  }
  return { answered: answered.promise, release };
}

/** Lets the service answer the next operation with this text, and holds the answer until it is released, unless the page gives it up. */
async function holdNext(page: Page, text: string) {
  const [held, answered, arrived] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  let isFirst = true;
  await page.route(/\/graphql$/, async (route) => {
    if (!isFirst || !route.request().postData()?.includes(text)) return route.fallback();
    isFirst = false;
    const response = await route.fetch();
    answered.resolve();
    await held.promise;
    await route.fulfill({ response }).catch(() => {});
    arrived.resolve();
  });
  async function release(): Promise<void> {
    held.resolve();
    await arrived.promise;
    // The page has handled the response when it handles what comes after it.
    await page.evaluate("fetch('/health').then((response) => response.text())");
  }
  return { answered: answered.promise, release };
}

describe.skipIf(!installed).each(["plain", "apollo", "urql"])("the example page in demo/pages/%s", (folder) => {
  test("shows no fault when a user signs in and out beside an open article, while lists are read, and follows it each time", async () => {
    const title = `Beside a sign-in with ${folder}`;
    const comment = await publishArticle(used.service.database, title);
    await comment("first");
    const page = await open(folder);
    await button(page, title).click();
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await page.evaluate(() => {
      const { document, MutationObserver } = globalThis as any;
      const alerts: string[] = [];
      const note = (): void => {
        for (const alert of document.querySelectorAll("[role=alert]"))
          if (alert.checkVisibility() && alert.textContent.trim()) alerts.push(alert.textContent);
      };
      new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
      Object.assign(globalThis, { alerts });
    });
    const list = await hold(page, "query Articles");
    // Of two reads, the older response could arrive later, and hide what has been written meanwhile.
    let reads = 0;
    page.on("request", (request) => request.postData()?.includes("query Read") && reads++);
    await signIn(page);
    await list.answered;
    await comment("signed in");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "signed in"]);
    expect(reads).toBe(1);
    await button(page, "Sign out").click();
    await button(page, "Sign in").waitFor();
    await list.release();
    await comment("signed out");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "signed in", "signed out"]);
    expect(await page.evaluate("alerts")).toEqual([]);
  });

  test("keeps the comments that are written while an article is opened again", async () => {
    const [title, another] = [`Opened again with ${folder}`, `Beside that, with ${folder}`];
    const comment = await publishArticle(used.service.database, title);
    await publishArticle(used.service.database, another);
    const page = await open(folder);
    await signIn(page);
    await button(page, title).click();
    await comment("first");
    await expect.poll(() => comments(page), POLL).toEqual(["first"]);
    await button(page, another).click();
    await opened(page, another);
    const read = await hold(page, "query Read");
    await button(page, title).click();
    await read.answered;
    await comment("of Bob");
    const three = ["first", "of Bob"];
    // Without a cache, the form comes with the article.
    if (folder !== "plain") {
      const form = page.getByRole("form", { name: "Comment" });
      await form.getByLabel("Your comment").fill("own");
      const sent = page.waitForResponse((response) => Boolean(response.request().postData()?.includes("mutation")));
      await form.getByRole("button").click();
      await (await sent).finished();
      three.push("own");
      await page.evaluate(() => {
        const { document, MutationObserver } = globalThis as any;
        const note = (): void => {
          const texts = [...document.querySelectorAll("li .content")].map(({ textContent }) => textContent);
          if (!texts.includes("own")) lost.push(texts);
        };
        const lost: unknown[] = [];
        new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
        Object.assign(globalThis, { lost });
      });
    }
    await read.release();
    await expect.poll(() => comments(page), POLL).toEqual(three);
    if (folder !== "plain") expect(await page.evaluate("lost")).toEqual([]);
  });

  test("keeps a comment of another user that arrives before the response to the read of an article that is opened again", async () => {
    const [title, another] = [`Opened once more with ${folder}`, `Left to with ${folder}`];
    const comment = await publishArticle(used.service.database, title);
    await publishArticle(used.service.database, another);
    await comment("first");
    const [page, other] = [await open(folder), await open(folder)];
    for (const each of [page, other]) {
      await button(each, title).click();
      await expect.poll(() => comments(each), POLL).toEqual(["first"]);
    }
    await button(page, another).click();
    await opened(page, another);
    const read = await hold(page, "query Read");
    await button(page, title).click();
    await read.answered;
    await comment("during");
    await expect.poll(() => comments(other), POLL).toEqual(["first", "during"]);
    await read.release();
    await expect.poll(() => comments(page), POLL).toEqual(["first", "during"]);
    await comment("later");
    await expect.poll(() => comments(page), POLL).toEqual(["first", "during", "later"]);
  });

  test("shows comments without a hole when earlier ones arrive after the article has been read again", async () => {
    const [title, another] = [`Read again with ${folder}`, `Another with ${folder}`];
    const comment = await publishArticle(used.service.database, title);
    await publishArticle(used.service.database, another);
    for (let i = 1; i <= 25; i++) await comment(`${i}`);
    const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => `${from + i}`);
    const page = await open(folder);
    await button(page, title).click();
    await expect.poll(() => comments(page), POLL).toEqual(numbers(16, 25));
    const earlier = await hold(page, '"before":"');
    await button(page, "Earlier comments").click();
    await earlier.answered;
    await button(page, another).click();
    await opened(page, another);
    for (let i = 26; i <= 37; i++) await comment(`${i}`);
    await button(page, title).click();
    const isWholeUpTo = async (last: number) => {
      const shown = await comments(page);
      return isDeepStrictEqual(shown, numbers(Number(shown[0]), last));
    };
    await expect.poll(() => isWholeUpTo(37), POLL).toBe(true);
    await earlier.release();
    await comment("38");
    await expect.poll(() => isWholeUpTo(38), POLL).toBe(true);
  });

  test("shows what the last read of its list has found, also if the answer of an earlier one arrives later", async () => {
    const { owner } = used.service.database;
    await owner.query(
      "insert into articles (title, content, author_id, status) select 'Row ' || i, 'x', 1, 'PUBLISHED' from generate_series(1, 20) i",
    );
    const page = await open(folder);
    await signIn(page);
    await expect.poll(() => listed(page), POLL).toHaveLength(8);
    let read = await holdNext(page, "query Articles");
    const create = async (title: string) => {
      await button(page, "New article").click();
      const form = page.getByRole("form", { name: "New article" });
      await form.getByLabel("Title").fill(title);
      await form.getByLabel("Text").fill("x");
      await form.getByRole("button", { name: "Publish" }).click();
      await opened(page, title);
    };
    await create(`First with ${folder}`);
    await read.answered;
    await create(`Second with ${folder}`);
    const two = [`Second with ${folder}`, `First with ${folder}`];
    await expect.poll(async () => (await listed(page)).slice(0, 2), POLL).toEqual(two);
    await read.release();
    expect((await listed(page)).slice(0, 2)).toEqual(two);

    read = await holdNext(page, "query Articles");
    await create(`Third with ${folder}`);
    await read.answered;
    await button(page, "More").click();
    await expect.poll(() => listed(page), POLL).toHaveLength(16);
    await read.release();
    expect(await listed(page)).toHaveLength(16);
  });

  test("shows the list after the last of two mutations, also if it was being read when that was sent", async () => {
    const { owner } = used.service.database;
    const drafts = [`First draft with ${folder}`, `Second draft with ${folder}`] as const;
    await owner.query("insert into articles (title, content, author_id) select unnest($1::text[]), 'x', 1", [drafts]);
    const page = await open(folder);
    await signIn(page);
    await button(page, "My drafts").click();
    const listedDrafts = async () => (await listed(page)).filter((title) => title?.endsWith(`draft with ${folder}`));
    await expect.poll(listedDrafts, POLL).toHaveLength(2);
    const read = await hold(page, "query Articles");
    for (const draft of drafts) {
      await button(page, draft).click();
      await opened(page, draft);
      const sent = page.waitForResponse((response) => Boolean(response.request().postData()?.includes("mutation")));
      await button(page, "Publish").click();
      await (await sent).finished();
      await read.answered;
    }
    await read.release();
    await expect.poll(listedDrafts, POLL).toEqual([]);
  });
});

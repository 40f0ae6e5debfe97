import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { hasBrowser } from "../support/browser.ts";
import * as examples from "../support/examples.ts";
import {
  alerts,
  button,
  comment,
  comments,
  expectRows,
  hold,
  listed,
  newPage,
  openArticle,
  openTab,
  publishRows,
  settled,
  shown,
  signIn,
  useExamples,
  write,
} from "../support/examples.ts";
import { POLL } from "../support/until.ts";

/** What each client does with its own code. What they share is shown by one of them, in examples.all.test.ts and page-files.all.test.ts. */
const CLIENTS = ["plain", "apollo", "urql"];

const installed = hasBrowser("the clients of the example pages");
const used = useExamples(installed);
const publish = (title: string) => examples.publish(used, title);

/** A page on which requests do not end by themselves: what is held must not. */
async function open(folder: string) {
  const page = await newPage(used);
  await page.addInitScript(() => {
    AbortSignal.timeout = () => new AbortController().signal;
  });
  await page.goto(used.urlOf(folder));
  return page;
}
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => `${from + i}`);

describe.skipIf(!installed).each(CLIENTS)("the example page in demo/pages/%s", (folder) => {
  test("lists articles with more on request, drafts for their author, who publishes them, and all its rows again after each write and each lost connection", async () => {
    await publishRows(used);
    const tab = await openTab(used, folder);
    const { page } = tab;
    const first = async () => (await listed(page))[0];
    await signIn(page);
    await expectRows(page, 8);
    await button(page, "More").click();
    await expectRows(page, 16);
    // The socket of the user, while no article is open.
    await expect.poll(() => tab.users.at(-1), POLL).toMatch(/^Bearer /);
    await publish(`Meanwhile in ${folder}`);
    await tab.close();
    await expect.poll(first, POLL).toBe(`Meanwhile in ${folder}`);
    expect(await listed(page)).toHaveLength(16);
    await write(page, `Published in ${folder}`);
    await expect.poll(first, POLL).toBe(`Published in ${folder}`);
    expect(await listed(page)).toHaveLength(16);

    const title = `Draft in ${folder}`;
    const form = await write(page, "", "Save as draft");
    await expect.poll(() => form.locator(".error:visible").innerText(), POLL).toMatch(/title/);
    await write(page, title, "Save as draft");
    await expect.poll(() => listed(page), POLL).toContain(title);
    await button(page, "Publish").click();
    await expect.poll(() => listed(page), POLL).not.toContain(title);
    await button(page, "Published").click();
    await expect.poll(first, POLL).toBe(title);
    await expect.poll(() => button(page, "Publish").count(), POLL).toBe(0);

    await page.route(/\/graphql$/, async (route) => {
      if (!route.request().postData()?.includes("mutation")) return route.fallback();
      await route.fetch();
      return route.abort();
    });
    const lost = await write(page, `Without a response in ${folder}`);
    await lost.getByRole("alert").getByText("The service cannot be reached.", { exact: true }).waitFor();
    await expect.poll(first, POLL).toBe(`Without a response in ${folder}`);
  });

  test("shows comments oldest first, earlier ones on request, and new ones once, also if the event of an own one arrives before the response", async () => {
    const title = `Comments in ${folder}`;
    const add = await publish(title);
    await add(...numbers(1, 12));
    const page = await open(folder);
    await signIn(page);
    await openArticle(page, title);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(3, 12));
    await add("13");
    await expect.poll(() => shown(page), POLL).toEqual(numbers(3, 13));
    await button(page, "Earlier comments").click();
    await expect.poll(() => shown(page), POLL).toEqual(numbers(1, 13));
    expect(await button(page, "Earlier comments").isVisible()).toBe(false);

    await comment(page, "");
    const form = page.getByRole("form", { name: "Comment" });
    await expect.poll(() => form.locator(".error:visible").innerText(), POLL).toMatch(/content/);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(1, 13));
    const [sent, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(/\/graphql$/, async (route) => {
      if (!route.request().postData()?.includes("mutation")) return route.continue();
      await sent.promise;
      const response = await route.fetch();
      await answered.promise;
      return route.fulfill({ response });
    });
    // The comment is there before the service has it.
    await comment(page, "own");
    const sending = comments(page).locator(".sending");
    await expect.poll(() => sending.innerText(), POLL).toMatch(/own\s+Ada Lovelace, sending…/);
    await add("of Bob");
    await expect.poll(() => shown(page), POLL).toEqual([...numbers(1, 13), "of Bob", "own"]);
    sent.resolve();
    await expect.poll(() => sending.count(), POLL).toBe(0);
    const all = [...numbers(1, 13), "of Bob", "own", "last"];
    await add("last");
    await expect.poll(() => shown(page), POLL).toEqual(all);
    answered.resolve();
    await expect.poll(() => button(page, "Send").isEnabled(), POLL).toBe(true);
    expect(await shown(page)).toEqual(all);
  });

  test("shows comments without a hole when an article is opened again, also if earlier ones arrive after that", async () => {
    const [title, another] = [`Opened again in ${folder}`, `Another in ${folder}`];
    const add = await publish(title);
    await publish(another);
    await add(...numbers(1, 25));
    const page = await open(folder);
    await openArticle(page, title);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(16, 25));
    await button(page, "Earlier comments").click();
    await expect.poll(() => shown(page), POLL).toEqual(numbers(6, 25));
    await openArticle(page, another);
    await add(...numbers(26, 30));
    await openArticle(page, title);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(21, 30));
    await add("31");
    await expect.poll(() => shown(page), POLL).toEqual(numbers(21, 31));
    for (const first of [11, 1]) {
      await button(page, "Earlier comments").click();
      await expect.poll(() => shown(page), POLL).toEqual(numbers(first, 31));
    }
    expect(await button(page, "Earlier comments").isVisible()).toBe(false);

    await add(...numbers(32, 51));
    await page.reload();
    await openArticle(page, title);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(42, 51));
    const earlier = await hold(page, '"before":"');
    await button(page, "Earlier comments").click();
    await earlier.answered;
    await openArticle(page, another);
    await add(...numbers(52, 63));
    await openArticle(page, title);
    const isWholeUpTo = async (last: number) => {
      const texts = await shown(page);
      return isDeepStrictEqual(texts, numbers(Number(texts[0]), last));
    };
    await expect.poll(() => isWholeUpTo(63), POLL).toBe(true);
    await earlier.release();
    await add("64");
    await expect.poll(() => isWholeUpTo(64), POLL).toBe(true);
  });

  test("misses nothing between the read and the subscription, repeats what failed, keeps what it shows beside an error, and forgets what the last user has read", async () => {
    const [title, another] = [`Followed in ${folder}`, `Not followed in ${folder}`];
    await publishRows(used);
    const add = await publish(title);
    await publish(another);
    const texts: string[] = [];
    const follow = async (text: string) => {
      await add(text);
      texts.push(text);
    };
    const expectShown = () => expect.poll(() => shown(page), POLL).toEqual(texts);
    const tab = await openTab(used, folder);
    const { page } = tab;
    await page.getByText("Nothing here yet.").waitFor();
    await signIn(page);
    await expect.poll(() => listed(page), POLL).toContain(title);
    tab.isDown = true;
    await page.reload();
    const message = page.getByText("The service cannot be reached (status 503).", { exact: true });
    await message.waitFor();
    tab.isDown = false;
    await expect.poll(() => listed(page), POLL).toContain(title);

    const subscribing = Promise.withResolvers<void>();
    tab.subscribing = subscribing.promise;
    await follow("before the read");
    tab.isDown = true;
    await button(page, title).click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    tab.isDown = false;
    await expectShown();
    await expect.poll(() => alerts(page), POLL).toBe("");
    await expect.poll(() => tab.after, POLL).toEqual([expect.any(String)]);
    await follow("between the read and the subscription");
    subscribing.resolve();
    await expectShown();
    await tab.close();
    await follow("while the socket was closed");
    await expectShown();

    const before = tab.after.length;
    tab.end("CHANGES_UNAVAILABLE");
    await expect.poll(() => alerts(page), POLL).toContain("It is faked.");
    await follow("while changes were not read");
    await expectShown();
    expect(tab.after.slice(before)).toEqual([expect.any(String)]);
    await expect.poll(() => alerts(page), POLL).toBe("");

    tab.isDown = true;
    await button(page, "More").click();
    await message.first().waitFor();
    tab.end("CHANGES_MISSED");
    await expect.poll(() => message.count(), POLL).toBe(2);
    const answer = Promise.withResolvers<void>();
    tab.answer = answer.promise;
    await expect.poll(() => [...tab.waiting].sort(), POLL).toEqual(["query Articles", "query Read"]);
    await settled(page);
    // Until another read has ended.
    expect([await message.count(), (await listed(page)).length, await shown(page)]).toEqual([2, 8, texts]);
    await follow("while the read failed");
    tab.isDown = false;
    answer.resolve();
    await expectRows(page, 16);
    await expectShown();
    expect(await message.count()).toBe(0);
    tab.end("INTERNAL_ERROR");
    await follow("after an error of the service");
    await expectShown();

    // It is opened again while it cannot be read.
    await openArticle(page, another);
    tab.isDown = true;
    await button(page, title).click();
    await expect.poll(() => alerts(page), POLL).not.toBe("");
    tab.isDown = false;
    await expect.poll(() => alerts(page), POLL).toBe("");
    await expectShown();

    const { length } = tab.after;
    const other = await newPage(used, page);
    await other.goto(used.urlOf(folder));
    await button(other, "Sign out").click();
    await page.getByText("Nothing here yet.").waitFor();
    // As after a deletion. There is nothing to subscribe to.
    await page.getByText("This article no longer exists.").waitFor();
    await expect.poll(() => tab.users.at(-1), POLL).toBeUndefined();
    await settled(page);
    expect([await listed(page), await page.getByText(title).count(), await shown(page)]).toEqual([[], 0, []]);
    expect(await comments(page).isVisible()).toBe(false);
    expect(tab.after).toHaveLength(length);
  });

  test("shows no fault when a user signs in and out beside an open article, while lists are read, and follows it each time", async () => {
    const title = `Beside a sign-in with ${folder}`;
    const add = await publish(title);
    await add("first");
    const page = await open(folder);
    await openArticle(page, title);
    await expect.poll(() => shown(page), POLL).toEqual(["first"]);
    await page.evaluate(() => {
      const { document, MutationObserver } = globalThis as any;
      const seen: string[] = [];
      const note = (): void => {
        for (const alert of document.querySelectorAll("[role=alert]"))
          if (alert.checkVisibility() && alert.textContent.trim()) seen.push(alert.textContent);
      };
      new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
      Object.assign(globalThis, { seen });
    });
    const read = await hold(page, "query Articles");
    // Of two reads, the older response could arrive later, and hide what has been written meanwhile.
    let reads = 0;
    page.on("request", (request) => request.postData()?.includes("query Read") && reads++);
    await signIn(page);
    await read.answered;
    await add("signed in");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "signed in"]);
    expect(reads).toBe(1);
    await button(page, "Sign out").click();
    await button(page, "Sign in").waitFor();
    await read.release();
    await add("signed out");
    await expect.poll(() => shown(page), POLL).toEqual(["first", "signed in", "signed out"]);
    expect(await page.evaluate("seen")).toEqual([]);
  });

  test("shows no comment of the article that was open before", async () => {
    const [many, one] = [`Many with ${folder}`, `One with ${folder}`];
    const [addToMany, addToOne] = [await publish(many), await publish(one)];
    await addToMany(...numbers(1, 8));
    await addToOne("only");
    const page = await open(folder);
    await openArticle(page, many);
    await expect.poll(() => shown(page), POLL).toEqual(numbers(1, 8));
    await openArticle(page, one);
    await expect.poll(() => shown(page), POLL).toContain("only");
    expect(await shown(page)).toEqual(["only"]);
  });

  test("keeps the comments that are written, and whose events pass, while an article is opened again", async () => {
    const [title, another] = [`Once more with ${folder}`, `Left to with ${folder}`];
    const add = await publish(title);
    await publish(another);
    await add("first");
    const [page, other] = [await open(folder), await open("plain")];
    await signIn(page);
    for (const each of [page, other]) {
      await openArticle(each, title);
      await expect.poll(() => shown(each), POLL).toEqual(["first"]);
    }
    await openArticle(page, another);
    const read = await hold(page, "query Read");
    await button(page, title).click();
    await read.answered;
    const texts = ["first", "of Bob"];
    await add("of Bob");
    // Without a cache, the form comes with the article.
    if (folder !== "plain") {
      const answered = page.waitForResponse((response) => Boolean(response.request().postData()?.includes("mutation")));
      await comment(page, "own");
      await (await answered).finished();
      texts.push("own");
      await expect.poll(() => shown(page), POLL).toContain("own");
      await page.evaluate(() => {
        const { document, MutationObserver } = globalThis as any;
        const lost: unknown[] = [];
        const note = (): void => {
          const all = [...document.querySelectorAll("li .content")].map(({ textContent }) => textContent);
          if (!all.includes("own")) lost.push(all);
        };
        new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
        Object.assign(globalThis, { lost });
      });
    }
    await expect.poll(() => shown(other), POLL).toEqual(texts);
    await read.release();
    await expect.poll(() => shown(page), POLL).toEqual(texts);
    if (folder !== "plain") expect(await page.evaluate("lost")).toEqual([]);
    await add("later");
    await expect.poll(() => shown(page), POLL).toEqual([...texts, "later"]);
  });

  test("shows what the last read of its list has found, also if the answer of an earlier one arrives later", async () => {
    await publishRows(used);
    const page = await open(folder);
    await signIn(page);
    await expectRows(page, 8);
    const newest = async () => (await listed(page)).slice(0, 2);
    let read = await hold(page, "query Articles", true);
    const titles = [`Second with ${folder}`, `First with ${folder}`];
    for (const title of titles.toReversed()) {
      await write(page, title);
      await page.getByRole("heading", { name: title, exact: true }).waitFor();
      await read.answered;
    }
    await expect.poll(newest, POLL).toEqual(titles);
    await read.release();
    expect(await newest()).toEqual(titles);

    read = await hold(page, "query Articles", true);
    await write(page, `Third with ${folder}`);
    await read.answered;
    await button(page, "More").click();
    await expectRows(page, 16);
    await read.release();
    expect(await listed(page)).toHaveLength(16);
  });
});

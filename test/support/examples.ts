import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page, WebSocketRoute } from "playwright-core";
import { build, type PluginOption, type PreviewServer, preview } from "vite";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { shownKey } from "../../identity/keys.ts";
import { closePages, sharedBrowser } from "./browser.ts";
import { startTestService, type TestService } from "./service.ts";
import { POLL } from "./until.ts";

const OPTIONS = { root: "demo/pages", logLevel: "error" } as const;

/** The pages as they are, built once for all files of a worker. */
let built: Promise<string> | undefined;

/** `key`: the anon key that each service of the tests shows. */
async function buildPages(key: string, plugins: PluginOption[] = []): Promise<string> {
  const outDir = await mkdtemp(join(tmpdir(), "examples-"));
  const define = { "import.meta.env.VITE_ANON_KEY": JSON.stringify(key) };
  await build({ ...OPTIONS, plugins, define, build: { outDir, emptyOutDir: false } });
  return outDir;
}

/** A test may restart the service. */
type Used = { service: TestService; browser: Browser; key: string; urlOf(folder: string): string };

/**
 * The example pages behind a proxy that passes the paths of the service on, a browser and a service, for the tests of a file, unless no
 * browser is installed. With `plugins`, the pages are built for this file.
 */
export function useExamples(
  installed: boolean,
  start: () => Promise<TestService> = startTestService,
  plugins?: PluginOption[],
): Used {
  const used = {} as Used;
  let pages: PreviewServer | undefined;
  beforeAll(async () => {
    if (!installed) return;
    [used.service, used.browser] = await Promise.all([start(), sharedBrowser()]);
    used.key = shownKey(used.service.service.tokens, "anon");
    if (!plugins) built ??= buildPages(used.key);
    const outDir = await (plugins ? buildPages(used.key, plugins) : built!);
    process.env.SERVICE_URL = used.service.url;
    pages = await preview({ ...OPTIONS, build: { outDir }, preview: { port: 0, host: "127.0.0.1" } });
    delete process.env.SERVICE_URL;
    used.urlOf = (folder) => `${pages!.resolvedUrls!.local[0]}${folder}/index.html`;
  });
  afterAll(async () => {
    await closePages();
    await pages?.close();
    await used.service?.stop();
  });
  return used;
}

/** A page of its own browser, or another tab of `opener`. An error that it does not catch fails the test. */
export async function newPage({ browser }: Used, opener?: Page): Promise<Page> {
  const context = opener?.context() ?? (await browser.newContext({ viewport: { width: 900, height: 1200 } }));
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  onTestFinished(async () => {
    // The page may be reading something.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await (opener ? page : context).close();
    expect(faults).toEqual([]);
  });
  return page;
}

export async function openPage(used: Used, folder: string, opener?: Page): Promise<Page> {
  const page = await newPage(used, opener);
  await page.goto(used.urlOf(folder));
  return page;
}

/** What an anonymous caller reads, as if policies hid all rows. */
const NOTHING = {
  article: null,
  articles: {
    ...{ __typename: "ArticleConnection", totalCount: 0, edges: [] },
    pageInfo: {
      ...{ __typename: "PageInfo", startCursor: null, endCursor: null },
      ...{ hasPreviousPage: false, hasNextPage: false },
    },
  },
};

/** A page whose reads fail while `isDown`, and whose socket the test closes, or ends the subscription of, with an error of a code. */
export async function openTab(used: Used, folder: string) {
  const page = await newPage(used);
  let socket: WebSocketRoute | undefined;
  const tab = {
    page,
    isDown: false,
    /** Reads are answered when this is resolved; `waiting` has their names. */
    answer: Promise.resolve(),
    waiting: new Set<string>(),
    /** Subscriptions begin when this is resolved; `after` has their positions, and `users` those of the sockets. */
    subscribing: Promise.resolve(),
    after: [] as unknown[],
    users: [] as unknown[],
    end: (_code: string): void => {},
    close: () => socket!.close({ code: 1012, reason: "the service is stopping" }),
  };
  await page.routeWebSocket(/\/graphql$/, (route) => {
    socket = route;
    const server = route.connectToServer();
    let last = "";
    route.onMessage(async (message) => {
      const { type, id, payload } = JSON.parse(String(message));
      if (type === "connection_init") tab.users.push(payload?.Authorization);
      if (type === "subscribe") {
        last = id;
        tab.after.push(payload.extensions.after);
        await tab.subscribing;
      }
      server.send(message);
    });
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
  await page.goto(used.urlOf(folder));
  return tab;
}

/** The page has handled what has reached it when it handles what comes after that. */
export const settled = (page: Page) => page.evaluate("fetch('/health').then((response) => response.text())");

/**
 * Lets the service answer operations with this text, and holds the answers until they are released, in the order of the requests; with
 * `isOne` only the first of them.
 */
export async function hold(page: Page, text: string, isOne = false) {
  const [held, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let turn: Promise<unknown> = held.promise;
  let isOver = false;
  await page.route(/\/graphql$/, async (route) => {
    if (isOver || !route.request().postData()?.includes(text)) return route.fallback();
    isOver = isOne;
    const fetched = route.fetch();
    turn = turn
      .then(async () => route.fulfill({ response: await fetched }))
      // The page gives up a read when it begins another one.
      .then(async () => route.request().failure() ?? (await route.request().response())?.finished())
      .catch(() => {});
    await fetched;
    answered.resolve();
  });
  async function release(): Promise<void> {
    held.resolve();
    await turn;
    await settled(page);
  }
  return { answered: answered.promise, release };
}

export const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const list = (page: Page) => page.getByRole("region", { name: "List of articles" });
/** The titles that the page lists. All articles of these tests are of ada. */
export const listed = async (page: Page): Promise<string[]> =>
  (await list(page).getByRole("listitem").allInnerTexts()).map((text) => text.replace("\n\nby Ada Lovelace", ""));
export const comments = (page: Page): Locator => page.getByRole("region", { name: "Comments" });
/** The texts of the comments that the page shows, in order, without their authors and times. */
export const shown = (page: Page): Promise<string[]> => comments(page).locator("li .content").allInnerTexts();
export const alerts = async (page: Page) => (await page.getByRole("alert").allInnerTexts()).join("").trim();

/** Opens an article, and waits until the page shows it. */
export async function openArticle(page: Page, title: string): Promise<void> {
  await button(page, title).click();
  await page.getByRole("heading", { name: title, exact: true }).waitFor();
}

/** Fills the fields with these labels, and sends the form. */
export async function send(form: Locator, values: Readonly<Record<string, string>>, action?: string): Promise<void> {
  for (const [label, value] of Object.entries(values)) await form.getByLabel(label).fill(value);
  await (action ? form.getByRole("button", { name: action }) : form.getByRole("button").first()).click();
}

/** Sends the form of a new article. */
export async function write(page: Page, title: string, action = "Publish"): Promise<Locator> {
  const form = page.getByRole("form", { name: "New article" });
  if (!(await form.isVisible())) await button(page, "New article").click();
  await send(form, { Title: title, Text: "Text." }, action);
  return form;
}

export const comment = (page: Page, text: string): Promise<void> =>
  send(page.getByRole("form", { name: "Comment" }), { "Your comment": text });

/** Signs in on an example page. */
export async function signIn(page: Page, username = "ada"): Promise<void> {
  await button(page, "Sign in").click();
  await send(page.getByRole("form", { name: "Sign in" }), { Username: username, Password: "Correct-Horse-7!" });
  await page.getByText("Signed in as").waitFor();
}

/** Inserts an article of ada, and returns a function that inserts comments of bob on it. */
export async function publish({ service }: Used, title: string): Promise<(...texts: string[]) => Promise<unknown>> {
  const { owner } = service.database;
  const { rows } = await owner.query(
    "insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED') returning id",
    [title],
  );
  return (...texts) =>
    owner.query("insert into comments (article_id, author_id, content) select $1, 2, unnest($2::text[])", [
      rows[0].id,
      texts,
    ]);
}

/** Inserts articles of ada that are longer than the first part of a list. */
export const publishRows = ({ service }: Used, count = 20) =>
  service.database.owner.query(
    "insert into articles (title, content, author_id, status) select 'Row ' || i, 'x', 1, 'PUBLISHED' from generate_series(1, $1::integer) i",
    [count],
  );

/** Waits until the page lists so many. Of long lists, the texts would take long. */
export const expectRows = (page: Page, count: number) =>
  expect.poll(() => list(page).locator("li").count(), POLL).toBe(count);

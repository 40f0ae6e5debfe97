import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { overflowOf, violationsInBoth } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const installed = hasBrowser("every page");

let service: TestService;
let browser: Browser;
/** Browsers accept the cookies, which are Secure, from localhost without TLS. */
let base: string;
type Opened = { readonly page: Page; readonly faults: string[] };
/** Without cookies, and with those of an administrator and of an operator. */
let anonymous: Opened;
let signedIn: Opened;
beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([
    startTestService({ PARTS: "+site,+reference,+explorer,+console", ADVISOR: "on", MAIL_URL: "keep", SIGNUP: "open" }),
    sharedBrowser(),
  ]);
  base = service.url.replace("127.0.0.1", "localhost");
  [anonymous, signedIn] = await Promise.all([newPage(), newPage()]);
  const { request } = signedIn.page.context();
  const data = { username: "admin", password: "Correct-Horse-7!" };
  expect((await request.post(`${base}/api/auth/login`, { data })).status()).toBe(200);
  const form = { credential: service.service.tokens.issueKey("service_role") };
  await request.post(`${base}/console/sign-in`, { form });
});
afterAll(async () => {
  await closePages();
  await service?.stop();
});

/** A page that records how its layout shifts, and its errors. */
async function newPage(): Promise<Opened> {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  await context.addInitScript(`
    // It would refresh itself meanwhile.
    if (location.pathname === "/console/live") globalThis.setInterval = () => 0;
    globalThis.shifts = [];
    const nameOf = ({ node }) => node?.outerHTML?.slice(0, 80);
    new PerformanceObserver((list) => {
      for (const { value, sources } of list.getEntries()) shifts.push({ value, sources: sources.map(nameOf) });
    }).observe({ type: "layout-shift", buffered: true });
  `);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  return { page, faults };
}

/** Pages, and the selector of an element that they have once they have loaded everything. */
const PAGES: readonly (readonly [path: string, loaded?: string])[] = [
  ["/"],
  ["/docs/realtime"],
  ["/docs", "h1"],
  ["/docs/live", "#table:enabled"],
  ["/graphiql", "[data-ready]"],
  ["/console/sign-in"],
  ["/auth/sign-in"],
  ["/auth/sign-in/e-mail"],
  ["/auth/sign-up"],
  ["/auth/forgot-password"],
  ["/auth/confirm-e-mail"],
  ["/auth/link?token=wrong"],
  ["/auth/done?of=reset"],
  ["/nothing"],
  ["/docs/nothing"],
];
const OWN_PAGES: typeof PAGES = [
  ["/auth/account"],
  ["/auth/account/password"],
  ["/auth/account/e-mail"],
  ["/auth/account/second-factor"],
  ["/auth/account/backup-codes"],
  ["/auth/account/keys"],
  ["/console/access"],
  ["/console/schema"],
  ["/console/schema?table=public.articles"],
  ["/console/data"],
  ["/console/data?table=public.articles"],
  ["/console/data?table=public.articles&key=%5B%221%22%5D"],
  ["/console/try"],
  ["/console/why"],
  ["/console/users"],
  ["/console/users?id=2"],
  ["/console/events"],
  ["/console/mail"],
  ["/console/live"],
  ["/console/activity"],
  ["/console/nothing"],
];

/** The sum of the shifts that is called good, https://web.dev/articles/cls. */
const MAX_SHIFT = 0.1;

/** How many elements are focused: pages of the documentation have hundreds of links. */
const MAX_STOPS = 40;

type Stop = {
  readonly element: string;
  readonly isSame: boolean;
  /** Whether the focus has begun again: a page may begin with the focus in a field. */
  readonly isAtStart: boolean;
  readonly follows: boolean;
  readonly isSeen: boolean;
  readonly isOutlined: boolean;
};

/** The element that has the focus, compared with the one before; null if it is the document. */
const FOCUSED = `(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  globalThis.firstFocused ??= element;
  // A page that refreshes itself may have removed it.
  const last = globalThis.lastFocused?.isConnected ? lastFocused : element;
  const { outlineStyle, outlineWidth } = getComputedStyle(element.closest(".cm-editor") ?? element);
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const isBefore = (one, other) => Boolean(one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
  const [x, y] = [Math.max(left, 0) + Math.min(right, innerWidth), Math.max(top, 0) + Math.min(bottom, innerHeight)];
  const shown = document.elementFromPoint(x / 2, y / 2);
  const found = {
    element: element.outerHTML.slice(0, 150),
    isSame: element === globalThis.lastFocused,
    isAtStart: isBefore(element, last) && (element === firstFocused || isBefore(element, firstFocused)),
    follows: element === last || isBefore(last, element),
    isSeen: Boolean(shown && (element.contains(shown) || shown.contains(element))),
    isOutlined: outlineStyle !== "none" && outlineWidth !== "0px",
  };
  globalThis.lastFocused = element;
  return found;
})()`;

/** The links to the page itself that are out of view, because the list of links scrolls, or the page does. */
const HIDDEN_LINKS = `[...document.querySelectorAll(".site [aria-current], .console [aria-current]")].flatMap((link) => {
  const { left, right, top } = link.getBoundingClientRect();
  return left < 0 || right > innerWidth || top < 0 ? [link.textContent] : [];
})`;

/** Presses Tab until the focus leaves the page. Names what is wrong with the elements that receive it. */
async function focusFaultsOf(page: Page): Promise<string[]> {
  const faults: string[] = [];
  for (let i = 0; i < MAX_STOPS; i++) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate<Stop | null>(FOCUSED);
    if (!stop || stop.isAtStart) break;
    // The parts of a field for a date.
    if (stop.isSame) continue;
    if (!stop.follows) faults.push(`is before the last one: ${stop.element}`);
    if (!stop.isSeen) faults.push(`is covered or out of view: ${stop.element}`);
    if (!stop.isOutlined) faults.push(`has no outline: ${stop.element}`);
  }
  return faults;
}

const SIZES = [
  { width: 390, height: 844 },
  { width: 1280, height: 900 },
];

test
  .skipIf(!installed)
  .each([
    ...PAGES.map(([path, loaded]) => ({ path, loaded, isOwn: false })),
    ...OWN_PAGES.map(([path, loaded]) => ({ path, loaded, isOwn: true })),
  ])(
  "$path keeps its layout while it loads, fits on a phone and on a desktop, shows the focus in the order of the document, and is accessible in light and dark",
  async ({ path, loaded, isOwn }) => {
    const { page, faults } = isOwn ? signedIn : anonymous;
    faults.length = 0;
    let status = 0;
    await page.emulateMedia({ colorScheme: "light" });
    for (const viewport of SIZES) {
      const at = `${viewport.width} pixels`;
      await page.setViewportSize(viewport);
      status = (await page.goto(base + path))?.status() ?? 0;
      await page
        .locator(loaded ?? "h1")
        .first()
        .waitFor();
      const shifts = await page.evaluate<{ value: number }[]>("shifts");
      const sum = shifts.reduce((total, { value }) => total + value, 0);
      expect.soft([at, sum < MAX_SHIFT ? [] : shifts]).toEqual([at, []]);
      expect.soft([at, await overflowOf(page)]).toEqual([at, 0]);
      expect.soft([at, await page.evaluate(HIDDEN_LINKS)]).toEqual([at, []]);
      expect.soft([at, await focusFaultsOf(page)]).toEqual([at, []]);
    }
    expect.soft(await violationsInBoth(page)).toEqual([]);
    // Browsers report the status of a page that does not exist.
    expect.soft(faults.filter((fault) => status < 400 || !fault.includes(`status of ${status}`))).toEqual([]);
  },
);

test.skipIf(!installed)("every page of the documentation fits on a phone", async () => {
  const { page } = anonymous;
  await page.setViewportSize(SIZES[0]!);
  await page.goto(`${base}/docs/operations`);
  const pages = await page
    .locator('a[href^="/docs/"]')
    .evaluateAll((links) => links.map((link) => link.getAttribute("href")!.split("#")[0]!));
  const wide: string[] = [];
  for (const path of new Set(pages)) {
    await page.goto(base + path);
    if ((await overflowOf(page)) > 0) wide.push(path);
  }
  expect(pages.length).toBeGreaterThan(20);
  expect(wide).toEqual([]);
});

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { faultsAtEachSize, overflowOf, violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const installed = hasBrowser("the pages");

let service: TestService;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([
    startTestService({ PARTS: "+site,+reference,+console,+explorer", ADVISOR: "on" }),
    sharedBrowser(),
  ]);
});
afterAll(async () => {
  await closePages();
  await service?.stop();
});

/** A page, with the errors that it reports. */
async function open(path: string): Promise<{ page: Page; faults: string[] }> {
  const faults: string[] = [];
  const page = await browser.newPage({ viewport: { width: 1100, height: 800 } });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  await page.goto(service.url + path);
  return { page, faults };
}

/** The number of the buttons to copy, and the text that lies under one of them. */
const COVERED = `(() => {
  const buttons = [...document.querySelectorAll(".copy")];
  const rectsOf = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()];
  };
  const covered = buttons.flatMap((button) => {
    const box = button.getBoundingClientRect();
    const listing = button.closest(".listing");
    const isUnder = (rect) => rect.left < box.right && rect.right > box.left && rect.top < box.bottom && rect.bottom > box.top;
    const texts = [listing.querySelector("code"), listing.querySelector(".file"), listing.previousElementSibling];
    return texts.filter((each) => each && rectsOf(each).some(isUnder)).map((each) => each.textContent.slice(0, 60));
  });
  return [buttons.length, covered];
})()` as unknown as () => [number, string[]];

describe.skipIf(!installed)("the start page", () => {
  test("leads to the documentation, whose links lead on, with the keyboard alone", async () => {
    const { page } = await open("/");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.getByRole("link", { name: "Operations", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL("**/docs/operations");
    expect(await page.getByRole("link", { name: "Operations", exact: true }).getAttribute("aria-current")).toBe("page");
    await page.getByRole("link", { name: "ContentServicePoolExhausted" }).first().focus();
    await page.keyboard.press("Enter");
    await page.waitForURL("**/docs/operations#contentservicepoolexhausted");
    expect(await page.getByRole("heading", { name: "ContentServicePoolExhausted" }).isVisible()).toBe(true);
    await page.close();
  });

  test.each([390, 1280])("nothing lies under a button to copy, also of a document, %i pixels wide", async (width) => {
    const { page } = await open("/");
    await page.setViewportSize({ width, height: 800 });
    for (const path of ["/", "/docs/tables", "/docs/database-application"]) {
      await page.goto(service.url + path);
      await page.locator(".copy").first().waitFor({ state: "attached" });
      const [buttons, covered] = await page.evaluate(COVERED);
      expect([path, buttons > 3, covered]).toEqual([path, true, []]);
    }
    await page.close();
  });

  test("the search finds a section with the keyboard alone, and says when it finds nothing", async () => {
    const { page, faults } = await open("/docs/tables");
    await page.keyboard.press("/");
    await page.keyboard.type("nonOptionalTypename");
    const found = page.locator("#found");
    await found.getByRole("link", { name: "GraphQL for frontends: graphql-codegen" }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL("**/docs/graphql#graphql-codegen");
    await page.getByRole("searchbox").fill("xyzzyplugh");
    await found.getByText("Nothing contains “xyzzyplugh”.").waitFor();
    expect(faults).toEqual([]);
    await page.close();
  });

  test("code of a page can be copied", async () => {
    const { page } = await open("/docs/graphql");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy" }).first().focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const code = await page.locator(".listing code").first().innerText();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(code.trimEnd());
    // The button covers the code below it.
    const ground = await page.evaluate("getComputedStyle(document.querySelector('.copy')).backgroundColor");
    expect(ground).toBe("rgb(255, 255, 255)");
    await page.close();
  });

  test("on a phone, the lists of pages and of sections open as dialogs, and a page with wide tables fits", async () => {
    const { page } = await open("/docs/graphql");
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.getByRole("navigation", { name: "Documentation" }).isVisible()).toBe(false);
    await page.getByRole("button", { name: "On this page" }).click();
    await page.getByRole("link", { name: "Aggregates", exact: true }).last().click();
    await page.waitForURL("**/docs/graphql#aggregates");
    await page.getByRole("button", { name: "All pages" }).click();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Realtime", exact: true }).first().click();
    await page.waitForURL("**/docs/realtime");
    await page.goto(`${service.url}/docs/configuration`);
    expect(await overflowOf(page)).toBe(0);
    await page.close();
  });
});

describe.skipIf(!installed)("the console", () => {
  /** Signs in with the keyboard alone. */
  async function signedIn(path: string): Promise<{ page: Page; faults: string[] }> {
    const opened = await open(path);
    await opened.page.getByLabel("Service key").focus();
    await opened.page.keyboard.type(service.service.tokens.issueKey("service_role"));
    await opened.page.keyboard.press("Enter");
    await opened.page.waitForURL(`**${path}`);
    return opened;
  }

  /** Pages, and how their forms are sent. */
  const SENT: Readonly<Record<string, (page: Page) => Promise<unknown>>> = {
    "/console/access": async (page) => {
      await page.getByLabel("Role").selectOption("authenticated");
      await page.getByLabel("Name contains").fill("articles");
      await page.keyboard.press("Enter");
      await page.waitForURL("**/access?role=authenticated&q=articles");
      await page
        .getByRole("cell", { name: /^title, .*tags/ })
        .first()
        .waitFor();
    },
    "/console/try": async (page) => {
      await page.getByLabel("Path").fill("/rest/v1/articles?select=id,title,author:users(name)");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Response: 200" }).waitFor();
    },
    "/console/why": async (page) => {
      await page.getByLabel("Table").fill("public.articles");
      await page.getByLabel("Primary key").fill("1");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "may do with this row" }).waitFor();
    },
    "/console/why?change": async (page) => {
      await page.getByLabel("Table").fill("public.articles");
      await page.getByLabel("Primary key").fill("1");
      await page.getByLabel("Change").selectOption("UPDATE");
      await page.getByLabel("Old values").fill('{"status": "DRAFT"}');
      await page.getByLabel("Filter").fill("status=eq.DRAFT");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "receives of this UPDATE" }).waitFor();
    },
    "/console/data?table=public.articles&order=title": async () => {},
    "/console/data?table=public.articles&key=%5B%221%22%5D": async (page) => {
      await page.getByLabel("title").fill("Another title");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "What will change" }).waitFor();
    },
    "/console/users": async (page) => {
      await page.getByText("Create a user").click();
      await page.getByLabel("Name", { exact: true }).fill("Ada");
      await page.getByLabel("E-mail", { exact: true }).fill("ada@example.com");
      await page.keyboard.press("Enter");
      await page.getByText("Email already registered.").waitFor();
    },
    "/console/users?id=2": async (page) => {
      await page.getByRole("button", { name: "Sign out everywhere" }).press("Enter");
      await page.getByText("The user is signed out everywhere.").waitFor();
    },
    "/console/events": async (page) => {
      await page.getByLabel("User id").fill("2");
      await page.keyboard.press("Enter");
      await page.waitForURL("**/console/events?*user=2*");
      await page.getByRole("link", { name: "logout", exact: true }).waitFor();
    },
  };

  test("what the form of a page leads to is accessible, light and dark, fits on a phone, and violates no policy, until the sign-out", async () => {
    const { page, faults } = await signedIn("/console/access");
    for (const [path, send] of Object.entries(SENT)) {
      await page.goto(service.url + path);
      await send(page);
      expect([path, ...(await faultsAtEachSize(page))]).toEqual([path]);
    }
    expect(faults).toEqual([]);
    await page.getByRole("button", { name: "Sign out", exact: true }).press("Enter");
    await page.waitForURL("**/console/sign-in");
    await page.goto(`${service.url}/console/access`);
    expect(await page.getByLabel("Service key").isVisible()).toBe(true);
    await page.close();
  });

  test("the link that npm start prints fills the key in, takes it out of the URL, and signs in with one click", async () => {
    const { page, faults } = await open(`/console/sign-in#${service.service.tokens.issueKey("service_role")}`);
    const field = page.getByLabel("Service key");
    await expect.poll(() => field.inputValue(), POLL).toMatch(/^eyJ/);
    expect(page.url()).toBe(`${service.url}/console/sign-in`);
    await page.keyboard.press("Enter");
    await page.waitForURL("**/console/access");
    expect(faults).toEqual([]);
    await page.close();
  });

  /** Sends a request at /console/try. */
  async function tried(page: Page): Promise<void> {
    await page.getByLabel("Path").fill("/rest/v1/articles?select=id,title&limit=20");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Response: 200" }).waitFor();
  }

  test("shows the response of a trial in the first window, with the form folded above it", async () => {
    const { page } = await signedIn("/console/try");
    for (const size of [
      { width: 1280, height: 900 },
      { width: 390, height: 844 },
    ]) {
      await page.setViewportSize(size);
      await page.goto(`${service.url}/console/try`);
      await tried(page);
      const heading = await page.getByRole("heading", { name: "Response: 200" }).boundingBox();
      expect(heading!.y).toBeGreaterThan(0);
      expect(heading!.y).toBeLessThan(size.height / 2);
      expect(await page.getByLabel("Path").isVisible()).toBe(false);
    }
    await page.getByText("GET /rest/v1/articles?select=id,title&limit=20").click();
    await page.getByLabel("Path").fill("/rest/v1/users?select=name&id=eq.1");
    await page.keyboard.press("Enter");
    await page.getByRole("cell", { name: "Ada Lovelace" }).waitFor();
    await page.close();
  });

  /** Forms, what is entered wrong in each, the field that is marked, and its message. */
  const MISTAKES: readonly [path: string, enter: (page: Page) => Promise<void>, label: string, message: RegExp][] = [
    [
      "/console/try",
      async (page) => {
        await page.getByLabel("a user").check();
        await page.getByRole("button", { name: "Send" }).click();
      },
      "Username, e-mail or id",
      /^Enter the username, the e-mail or the id of a user\.$/,
    ],
    [
      "/console/why",
      async (page) => {
        await page.getByLabel("Table").fill("public.articles");
        await page.keyboard.press("Enter");
      },
      "Primary key",
      /^The key has 1 value: id\.$/,
    ],
    [
      "/console/why",
      async (page) => {
        await page.getByLabel("Table").fill("public.articles");
        await page.getByLabel("Primary key").fill("1");
        await page.getByLabel("Change").selectOption("INSERT");
        await page.getByLabel("New values").fill("DRAFT");
        await page.keyboard.press("Enter");
      },
      "New values",
      /must be a JSON object/,
    ],
    [
      "/console/data",
      async (page) => {
        await page.getByLabel("a user").check();
        await page.getByRole("button", { name: "Show" }).click();
      },
      "Username, e-mail or id",
      /^Enter the username, the e-mail or the id of a user\.$/,
    ],
    [
      "/console/data?table=public.articles&key=%5B%221%22%5D",
      async (page) => {
        await page.getByLabel("title").fill("");
        await page.keyboard.press("Enter");
      },
      "title",
      /title must have at least 5 characters/,
    ],
    [
      "/console/users",
      async (page) => {
        await page.getByText("Create a user").click();
        await page.getByLabel("Name", { exact: true }).fill("Ada");
        await page.getByLabel("E-mail", { exact: true }).fill("ada@example.com");
        await page.keyboard.press("Enter");
      },
      "E-mail",
      /^Email already registered\.$/,
    ],
  ];

  test("every form marks the field that is empty or wrong, names the reason once, and puts the focus into the field", async () => {
    const { page } = await signedIn("/console/try");
    for (const [path, enter, label, message] of MISTAKES) {
      await page.goto(service.url + path);
      await enter(page);
      const marked = page.locator("[aria-invalid=true]");
      await marked.waitFor();
      expect([path, await page.locator("main .fault, main .alert").allInnerTexts()]).toEqual([
        path,
        [expect.stringMatching(message)],
      ]);
      const field = page.getByLabel(label, { exact: label === "E-mail" });
      expect(await field.getAttribute("aria-invalid")).toBe("true");
      expect(await field.evaluate((each) => each === each.ownerDocument.activeElement)).toBe(true);
      expect([path, await violationsOf(page)]).toEqual([path, []]);
    }
    await page.close();
  });

  test("completes tables in the path, and after ? the columns of the table", async () => {
    const { page } = await signedIn("/console/try");
    const suggested = (typed: string) =>
      page.evaluate((text) => {
        const path = (globalThis as any).document.getElementById("path");
        path.value = text;
        path.dispatchEvent(new (globalThis as any).Event("input"));
        return [...path.list.options].map((option: any) => option.value);
      }, typed);
    expect(await suggested("/rest/v1/a")).toContain("/rest/v1/articles");
    expect(await suggested("/rest/v1/a")).toContain("/rest/v1/rpc/search");
    expect(await suggested("/rest/v1/articles?ti")).toContain("/rest/v1/articles?title=eq.");
    expect(await suggested("/rest/v1/articles?id=eq.1&select=id,ti")).toContain(
      "/rest/v1/articles?id=eq.1&select=id,title",
    );
    await page.close();
  });

  test("shows every column of what a role may use at 1280 pixels, and with its name at 390", async () => {
    const { page } = await signedIn("/console/access");
    await page.setViewportSize({ width: 1280, height: 900 });
    const hidden =
      "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth).length";
    await page.goto(`${service.url}/console/access?role=authenticated`);
    expect(await page.evaluate(hidden)).toBe(0);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(hidden)).toBe(0);
    const name = page.getByRole("rowheader", { name: "public.articles", exact: true });
    expect((await name.boundingBox())!.height).toBeLessThan(40);
    await page.close();
  });

  test("the diagram of the schema zooms, and its tables are links", async () => {
    const { page } = await signedIn("/console/schema");
    const diagram = page.getByRole("group", { name: "Tables and their foreign keys" });
    const width = async () => (await diagram.boundingBox())!.width;
    const first = await width();
    await page.getByRole("button", { name: "Larger" }).press("Enter");
    expect(await width()).toBeGreaterThan(first * 1.2);
    await page.getByRole("button", { name: "Fit" }).press("Enter");
    expect(await width()).toBeCloseTo(first, 0);
    await diagram.getByRole("link", { name: "public.comments" }).press("Enter");
    await page.waitForURL("**/console/schema?table=public.comments");
    expect(await page.getByRole("heading", { name: "public.comments" }).isVisible()).toBe(true);
    expect(await page.getByRole("row", { name: /^author_id bigint/ }).isVisible()).toBe(true);
    await page.close();
  });

  test("finds a row as a user, changes it after a confirmation, and exports what is shown", async () => {
    const { page } = await signedIn("/console/data");
    await page.getByLabel("Table").selectOption("public.articles");
    await page.getByLabel("a user").check();
    await page.getByLabel("Username, e-mail or id").fill("ada");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByLabel("Filter").selectOption("title");
    await page.getByLabel("Operator").selectOption("contains (ilike)");
    await page.getByLabel("Value").fill("bernoulli");
    await page.keyboard.press("Enter");
    await page.getByText("title contains (ilike) bernoulli").waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Export as CSV" }).click();
    expect((await download).suggestedFilename()).toBe("articles.csv");
    await page.getByRole("link", { name: /^Edit/ }).click();
    await page.getByLabel("title").fill("Computing Bernoulli numbers again");
    await page.getByRole("button", { name: "Show the change" }).click();
    await page.getByRole("heading", { name: "What will change" }).waitFor();
    expect(await page.getByText('update "public"."articles"').first().isVisible()).toBe(true);
    const isStored = async () => {
      const text = "select count(*)::integer as count from articles where title = 'Computing Bernoulli numbers again'";
      return (await service.database.owner.query(text)).rows[0].count === 1;
    };
    expect(await isStored()).toBe(false);
    await page.getByRole("button", { name: "Make this change" }).press("Enter");
    await page.getByText("The change is made.").waitFor();
    expect(await page.getByLabel("title").inputValue()).toBe("Computing Bernoulli numbers again");
    expect(await isStored()).toBe(true);
    await page.close();
  });

  test("an administrator signs in with the account, and continues at the page of the console that was opened", async () => {
    const page = await browser.newPage();
    // Browsers accept the cookie of the session, which is Secure, from localhost without TLS.
    await page.goto(`${service.url.replace("127.0.0.1", "localhost")}/console/events`);
    await page.getByRole("link", { name: "sign in to the service" }).click();
    await page.getByLabel("E-mail or username").fill("admin");
    await page.getByLabel("Password").fill("Correct-Horse-7!");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForURL("**/console/events");
    await page.getByText("Signed in as Administrator.").waitFor();
    await page.getByRole("link", { name: "Users" }).click();
    await page.getByRole("link", { name: "Carol Shaw" }).click();
    await page.getByRole("button", { name: "Sign out everywhere" }).click();
    await page.getByText("The user is signed out everywhere.").waitFor();
    await page.context().close();
  });

  test("the live numbers refresh themselves, until they are paused", async () => {
    const { page } = await signedIn("/console/live");
    const row = page.locator("tr", { hasText: "GET /docs/decisions" });
    expect(await row.count()).toBe(0);
    await fetch(`${service.url}/docs/decisions`);
    await expect.poll(() => row.count()).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Pause" }).press("Enter");
    expect(await page.getByRole("button", { name: "Continue" }).isVisible()).toBe(true);
    await page.close();
  });
});

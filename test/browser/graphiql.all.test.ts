import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { bundleLibrary } from "../../build/browser-library/build.ts";
import { overflowOf, violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const installed = hasBrowser("the explorer");

let service: TestService;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([startTestService({ PARTS: "+site,+reference,+explorer" }), sharedBrowser()]);
});
afterAll(async () => {
  await closePages();
  await service?.stop();
});

type Opened = { readonly page: Page; readonly faults: string[]; readonly hosts: Set<string> };

/** Opens the explorer. Resolves when it has read the schema. */
async function openExplorer(
  fragment = "",
  { width = 1280, context }: { width?: number; context?: BrowserContext } = {},
) {
  const page = await (context ?? browser).newPage();
  await page.setViewportSize({ width, height: 800 });
  onTestFinished(() => page.close());
  const hosts = new Set<string>();
  const faults: string[] = [];
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  page.on("response", (response) => {
    if (response.status() === 404) faults.push(`404 ${response.url()}`);
  });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  await page.goto(`${service.url}/graphiql${fragment}`);
  await page.locator("[data-ready]").waitFor();
  return { page, faults, hosts } satisfies Opened;
}

const editor = (page: Page, name: string) => page.getByRole("textbox", { name, exact: true });
const textOf = async (page: Page, name: string) =>
  (await editor(page, name).locator(".cm-line").allTextContents()).join("\n");

async function write(page: Page, text: string, name = "Operation"): Promise<void> {
  await editor(page, name).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

const run = (page: Page) => page.getByRole("button", { name: "Run", exact: true }).click();
const expectResponse = (page: Page) => expect.poll(() => textOf(page, "Response"), { timeout: 120_000 });

async function signIn(page: Page, fields: Readonly<Record<string, string>>): Promise<void> {
  await page.getByRole("button", { name: "Sign in", exact: true }).first().click();
  const form = page.getByRole("form", { name: "Sign in" });
  for (const [label, value] of Object.entries(fields)) await form.getByLabel(label).fill(value);
  await page.keyboard.press("Enter");
}

const who = (page: Page) => page.getByRole("status", { name: "Signed in as" });

test("the library of the page is what its packages make", async () => {
  const stored = gunzipSync(readFileSync("parts/explorer/browser/library.js.gz")).toString();
  expect(stored === (await bundleLibrary())).toBe(true);
});

test.skipIf(!installed)("every example runs, and the page sends no request to another host", async () => {
  const { page, faults, hosts } = await openExplorer();
  const names = await page.getByLabel("Examples").locator("option").allInnerTexts();
  expect(names.slice(1)).toEqual([
    "A page of rows",
    "One row",
    "Create a row",
    "Rows as they are created",
    "Changes of rows",
  ]);
  await run(page);
  await expectResponse(page).toContain('"totalCount": 4');
  for (const [name, expected] of [
    ["One row", '"article": {'],
    ["Create a row", '"success": false'],
  ] as const) {
    await page.getByLabel("Examples").selectOption(name);
    await run(page);
    await expectResponse(page).toMatch(new RegExp(expected, "i"));
    expect(await textOf(page, "Response")).not.toContain("GRAPHQL_VALIDATION_FAILED");
  }
  for (const name of ["Rows as they are created", "Changes of rows"]) {
    await page.getByLabel("Examples").selectOption(name);
    await run(page);
    await page.getByText("Waiting for events.").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Stopped after 0 events.").waitFor();
  }
  expect([...hosts]).toEqual([new URL(service.url).host]);
  expect(faults).toEqual([]);
});

test.skipIf(!installed)(
  "the editor completes fields, underlines wrong ones, and runs with the keyboard alone",
  async () => {
    const { page, faults } = await openExplorer();
    await editor(page, "Operation").focus();
    await page.keyboard.press("Control+A");
    await page.keyboard.press("Delete");
    await page.keyboard.type("{ sear");
    await page.locator(".cm-tooltip-autocomplete").getByText("search", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await write(page, "{ nothing }");
    await page.locator(".cm-lintRange-error").first().waitFor();
    await write(page, "{ users(limit: 1) { name } }");
    await page.keyboard.press("Control+Enter");
    await expectResponse(page).toContain('"name": "Ada Lovelace"');
    // Tab leaves the editor.
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.id")).toBe("variables-tab");
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)(
  "fragments are replaced by their fields, and those of another type by inline fragments",
  async () => {
    const { page, faults } = await openExplorer();
    const merge = page.getByRole("button", { name: "Merge fragments" });
    await write(
      page,
      `query One { article(id: 1) { id ...shown author { ...person } ... on Article { id tags } } }
fragment shown on Article { title author { id ...person @include(if: true) } }
fragment person on User { name }`,
    );
    await merge.click();
    expect(await textOf(page, "Operation")).toBe(`query One {
  article(id: 1) {
    id
    title
    author {
      id
      ... on User @include(if: true) {
        name
      }
      name
    }
    tags
  }
}`);
    await expect.poll(() => merge.isVisible()).toBe(false);
    await run(page);
    await expectResponse(page).toContain('"tags": [');
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)("a link opens the operation with its variables, and runs nothing", async () => {
  const { page, faults } = await openExplorer();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await write(page, "query One($id: ID!) { article(id: $id) { title } }");
  await write(page, '{ "id": 1 }', "Variables");
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByText("The link is copied.").waitFor();
  const link = String(await page.evaluate("navigator.clipboard.readText()"));
  expect(link).toContain("/graphiql#query=");
  const other = await openExplorer(link.slice(link.indexOf("#")));
  expect(await textOf(other.page, "Operation")).toBe("query One($id: ID!) { article(id: $id) { title } }");
  expect(await textOf(other.page, "Variables")).toBe('{ "id": 1 }');
  expect(await textOf(other.page, "Response")).toBe("");
  await run(other.page);
  await expectResponse(other.page).toContain('"title":');
  await write(other.page, "{ __typename }");
  await expect.poll(() => other.page.url()).toBe(`${service.url}/graphiql`);
  const third = await openExplorer(`?${new URLSearchParams({ query: "{ me { name } }" })}`);
  expect(await textOf(third.page, "Operation")).toBe("{ me { name } }");
  expect([...faults, ...other.faults, ...third.faults]).toEqual([]);
});

test.skipIf(!installed)(
  "the explorer writes the operation: fields, arguments and values, with the keyboard alone",
  async () => {
    const { page, faults } = await openExplorer("#query=%7B__typename%7D");
    await page.getByLabel("Search fields").fill("users");
    await page.getByRole("checkbox", { name: "users", exact: true }).focus();
    await page.keyboard.press("Space");
    await expect.poll(() => textOf(page, "Operation")).toContain("users {\n    id\n  }");
    await page.getByRole("checkbox", { name: "name", exact: true }).press("Space");
    await page.getByRole("checkbox", { name: "limit", exact: true }).press("Space");
    await page.getByLabel("Value of limit").fill("2");
    await page.keyboard.press("Enter");
    await expect.poll(() => textOf(page, "Operation")).toContain("users(limit: 2) {\n    id\n    name\n  }");
    await page.getByRole("checkbox", { name: "users", exact: true }).press("Space");
    await expect.poll(() => textOf(page, "Operation")).toBe("{\n  __typename\n}");
    await page.getByLabel("Search fields").fill("createArticle");
    await page.getByRole("checkbox", { name: "createArticle", exact: true }).press("Space");
    await page.getByLabel("Value of title").fill("A title: with a colon");
    await page.keyboard.press("Enter");
    await expect
      .poll(() => textOf(page, "Operation"))
      .toContain('createArticle(input: {title: "A title: with a colon", content: ""})');
    await write(page, "{ users {");
    await page.getByText("Correct it to use the explorer").waitFor();
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)(
  "the documentation leads from type to type and finds fields, with what is deprecated, with the keyboard alone",
  async () => {
    const { page, faults } = await openExplorer();
    await page.getByRole("button", { name: "Docs" }).press("Enter");
    const documentation = page.getByRole("region", { name: "Documentation" });
    expect(await page.getByRole("region", { name: "Explorer" }).isVisible()).toBe(false);
    const heading = () => documentation.getByRole("heading", { level: 3 }).innerText();
    const follow = (name: string) => documentation.getByRole("button", { name, exact: true }).first().press("Enter");
    expect(await heading()).toBe("Schema");
    for (const name of ["Query", "ArticleConnection", "ArticleEdge", "Article"]) {
      await follow(name);
      expect(await heading()).toMatch(`${name} object`);
      expect(await page.evaluate("document.activeElement.tagName")).toBe("H3");
    }
    expect(await documentation.innerText()).toContain("An article written by a user.");
    expect(await documentation.innerText()).toMatch(/title: String!\s+At least 5 characters\./);
    expect(await documentation.innerText()).toContain("length: Int = 200");
    await follow("ArticleStatus");
    expect(await documentation.innerText()).toContain("PUBLISHED");
    await documentation.getByRole("navigation", { name: "Types on the way" }).getByText("Query").press("Enter");
    expect(await heading()).toBe("Query object");
    expect(await violationsOf(page)).toEqual([]);
    await documentation.getByLabel("Search types and fields").fill("CREATEARTICLE");
    expect(await documentation.innerText()).toContain("Mutation.createArticle");
    await follow("CreateArticleInput");
    expect(await heading()).toBe("CreateArticleInput input");
    await documentation.getByLabel("Search types and fields").fill("xyzzy");
    await documentation.getByText("No type or field has this name.").waitFor();
    await editor(page, "Operation")
      .getByText("totalCount")
      .click({ modifiers: ["ControlOrMeta"] });
    await expect.poll(heading).toBe("ArticleConnection object");

    const { owner } = service.database;
    await owner.query("comment on column public.users.age is '@deprecated Ask for the birthday.'");
    const introspection = '{ __type(name: "User") { fields(includeDeprecated: true) { deprecationReason } } }';
    await expect
      .poll(async () => JSON.stringify((await service.gql(introspection)).data))
      .toContain("Ask for the birthday.");
    const other = await openExplorer();
    await other.page.getByRole("button", { name: "Docs" }).click();
    await other.page.getByRole("button", { name: "User", exact: true }).click();
    await other.page.getByText("Deprecated: Ask for the birthday.").waitFor();
    expect(await violationsOf(other.page)).toEqual([]);
    expect([...faults, ...other.faults]).toEqual([]);
  },
);

test.skipIf(!installed)("operations that were run are in the history of the browser, until it is cleared", async () => {
  const context = await browser.newContext();
  onTestFinished(() => context.close());
  const { page, faults } = await openExplorer("", { context });
  await write(page, "query First($id: ID!) { article(id: $id) { id } }");
  await write(page, '{ "id": 1 }', "Variables");
  await page.getByRole("button", { name: "Headers" }).click();
  await write(page, '{ "x-secret": "s3cret" }', "Headers");
  for (let i = 0; i < 2; i++) {
    await run(page);
    await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  }
  await write(page, "{ users { name } }");
  await run(page);
  await expectResponse(page).toContain("Ada Lovelace");
  const other = await openExplorer("", { context });
  await other.page.getByRole("button", { name: "History" }).press("Enter");
  const items = other.page.getByRole("group", { name: "Operations that were run" }).getByRole("button");
  expect(await items.allInnerTexts()).toEqual([
    expect.stringMatching(/^\{ users \{ name \} \}\s/),
    expect.stringMatching(/^First\s/),
  ]);
  expect(await other.page.evaluate("JSON.stringify(localStorage)")).not.toContain("s3cret");
  expect(await violationsOf(other.page)).toEqual([]);
  await items.nth(1).press("Enter");
  expect(await textOf(other.page, "Operation")).toBe("query First($id: ID!) { article(id: $id) { id } }");
  expect(await textOf(other.page, "Variables")).toBe('{ "id": 1 }');
  await other.page.getByRole("button", { name: "Clear" }).press("Enter");
  await other.page.getByText("Operations that you run appear here.").waitFor();
  await page.getByRole("button", { name: "History" }).click();
  await page.getByText("Operations that you run appear here.").waitFor();
  expect([...faults, ...other.faults]).toEqual([]);
});

test.skipIf(!installed)(
  "a user signs in, the page says who it is, and the token is sent with requests and subscriptions",
  async () => {
    const { page, faults } = await openExplorer("#query=query Me { me { name } }");
    expect(await who(page).innerText()).toBe("Anonymous");
    await run(page);
    await expectResponse(page).toContain("AUTH_REQUIRED");
    await signIn(page, { "E-mail or username": "ada", Password: "wrong" });
    await expect.poll(() => page.getByRole("dialog").getByRole("alert").innerText()).not.toBe("");
    await page.getByLabel("Password").fill("Correct-Horse-7!");
    await page.keyboard.press("Enter");
    await expect.poll(() => who(page).innerText()).toBe("Ada Lovelace (authenticated, access token)");
    await run(page);
    await expectResponse(page).toContain('"name": "Ada Lovelace"');

    await write(page, "subscription { onArticleCreated { title author { name } } }");
    await run(page);
    await page.getByText("Waiting for events.").waitFor();
    const created = await fetch(`${service.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${service.token("ada")}` },
      body: JSON.stringify({
        query:
          'mutation { createArticle(input: {title: "An event to see", content: "x", status: PUBLISHED}) { success } }',
      }),
    });
    expect(await created.json()).toEqual({ data: { createArticle: { success: true } } });
    await expectResponse(page).toContain('"title": "An event to see"');
    await page.getByText("1 event.").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();

    await page.getByRole("button", { name: "Sign out" }).click();
    await expect.poll(() => who(page).innerText()).toBe("Anonymous");
    const token = service.token("bob");
    await signIn(page, { "Access token": token });
    await expect.poll(() => who(page).innerText()).toBe("Bob Kahn (authenticated, access token)");
    await fetch(`${service.url}/auth/logout`, { method: "POST", headers: { authorization: `Bearer ${token}` } });
    await write(page, "query Me { me { name } }");
    await run(page);
    await page.getByText("The sign-in has ended: sign in again.").waitFor();
    await signIn(page, { "Access token": token });
    await page.getByText("This access token is not valid, or no longer.").waitFor();
    expect(faults.filter((fault) => !/status of 401/.test(fault))).toEqual([]);
  },
);

test.skipIf(!installed)(
  "with the cookie of a session the page says who it is, and changes have the CSRF token",
  async () => {
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    const data = { username: "ada", password: "Correct-Horse-7!" };
    expect((await context.request.post(`${service.url}/api/auth/login`, { data })).status()).toBe(200);
    const { page, faults } = await openExplorer("#query=mutation { publishArticle(id: 1) { status } }", { context });
    expect(await who(page).innerText()).toBe("Ada Lovelace (authenticated, session cookie)");
    await run(page);
    await expectResponse(page).toContain('"status": "PUBLISHED"');
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect.poll(() => who(page).innerText()).toBe("Anonymous");
    await run(page);
    await expectResponse(page).toContain("AUTH_REQUIRED");
    expect(faults).toEqual([]);
  },
);

test.skipIf(!installed)("a service that does not respond, and variables that are not JSON, are named", async () => {
  const { page } = await openExplorer("#query={ __typename }&variables={ a: 1");
  await run(page);
  await page.getByText("Variables or headers are not JSON").waitFor();
  await write(page, "", "Variables");
  await page.context().setOffline(true);
  await run(page);
  await page.getByText("The service does not respond.").waitFor();
  await page.context().setOffline(false);
  await run(page);
  await expectResponse(page).toContain('"__typename": "Query"');
});

test.skipIf(!installed)("the page is accessible, light and dark, and fits on a phone", async () => {
  for (const width of [1280, 390]) {
    const { page, faults } = await openExplorer("", { width });
    await run(page);
    await expectResponse(page).toContain('"totalCount"');
    if (width === 390) await page.getByRole("button", { name: "Explorer" }).click();
    await page.locator("#tree").getByText("Mutations").click();
    expect(await violationsOf(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await violationsOf(page, "color-contrast")).toEqual([]);
    expect(await overflowOf(page)).toBe(0);
    await page.getByRole("button", { name: "Sign in", exact: true }).first().click();
    expect(await violationsOf(page)).toEqual([]);
    expect(faults).toEqual([]);
  }
});

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const LOGIN = { username: "ada", password: "Correct-Horse-7!" };

type PageResponse = { readonly status: number; readonly json: any };

const installed = hasBrowser("sessions");

let service: TestService;
let evil: Server;
let browser: Browser;
/** One browser for all tests. Each test starts without cookies. */
let context: BrowserContext;
/** A same-origin page. Browsers accept `Secure` cookies from localhost without TLS. */
let page: Page;
let base: string;
/** A cross-site page: 127.0.0.1 and localhost are different sites. */
let evilUrl: string;
/** A same-site page of another origin, like a sibling subdomain. Browsers send the cookie with its requests. */
let neighbourUrl: string;

beforeAll(async () => {
  if (!installed) return;
  [service, browser] = await Promise.all([startTestService(), sharedBrowser()]);
  base = service.url.replace("127.0.0.1", "localhost");
  evil = createServer((_request, response) =>
    response.setHeader("content-type", "text/html").end("<!doctype html><title>A page of another site</title>"),
  );
  await new Promise<void>((resolve) => evil.listen(0, "127.0.0.1", resolve));
  const { port } = evil.address() as AddressInfo;
  evilUrl = `http://127.0.0.1:${port}/`;
  neighbourUrl = `http://localhost:${port}/`;
  context = await browser.newContext();
  page = await context.newPage();
  await page.goto(`${base}/live`);
});
afterAll(async () => {
  await closePages();
  evil?.close();
  await service?.stop();
});

beforeEach(() => context?.clearCookies());
afterEach(async () => {
  for (const other of context?.pages() ?? []) if (other !== page) await other.close();
});

/** The response that a script of the page receives; "blocked" if the browser does not let it read the response. */
const ask = (from: Page, request: string, body?: unknown, headers: Record<string, string> = {}) =>
  from.evaluate(
    async ([method, url, text, sent]) => {
      try {
        const response = await fetch(url!, {
          method: method!,
          headers: sent as Record<string, string>,
          credentials: "include",
          ...(text !== null && { body: text as string }),
        });
        const answer = await response.text();
        return { status: response.status, json: answer === "" ? null : JSON.parse(answer) };
      } catch {
        return "blocked" as const;
      }
    },
    [
      request.split(" ")[0]!,
      request.split(" ")[1]!,
      body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body),
      { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ] as const,
  );

const responseTo = async (...given: Parameters<typeof ask>) => (await ask(...given)) as PageResponse;
const ageOfAda = async () => (await service.database.owner.query("select age from users where id = 1")).rows[0].age;
const sessions = async () => (await service.database.owner.query("select from auth_private.sessions")).rowCount;

/** Submits a form from the page, as a forged request would. */
async function submit(from: Page, action: string, fields: Readonly<Record<string, string>>): Promise<number> {
  const received = from.waitForResponse((response) => response.url().startsWith(action));
  const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`);
  await from.setContent(`<form method="post" action="${action}">${inputs.join("")}</form>`);
  await from.evaluate("document.forms[0].submit()");
  const response = await received;
  await from.waitForURL(response.url());
  return response.status();
}

describe.skipIf(!installed)("in a browser", () => {
  test("the example of docs/authentication.md for pages works", async () => {
    const [, example] = /^```js browser\n([\s\S]*?)^```$/m.exec(readFileSync("docs/authentication.md", "utf8"))!;
    expect(await page.evaluate(`(async () => { ${example} return changed.status; })()`)).toBe(200);
    expect(await context.cookies(base)).toEqual([]);
  });

  test("a cross-site page can neither read nor write", async () => {
    await ask(page, "POST /api/auth/login", LOGIN);
    const { csrfToken } = (await responseTo(page, "GET /csrf-token")).json;
    const age = await ageOfAda();
    const foreign = await context.newPage();
    await foreign.goto(evilUrl);

    // The browser does not send the cookie, so the caller is anonymous.
    for (const path of ["/api/auth/me", "/csrf-token", "/users/1", "/graphql?query={me{id}}"])
      expect([path, await ask(foreign, `GET ${base}${path}`)]).toEqual([path, "blocked"]);
    const token = { "x-csrf-token": csrfToken };
    for (const headers of [{}, token])
      expect(await ask(foreign, `PATCH ${base}/users/1`, { age: 1 }, headers)).toBe("blocked");
    expect(await ask(foreign, `POST ${base}/api/auth/logout`)).toBe("blocked");
    await foreign.evaluate(
      (url) => fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).catch(() => {}),
      `${base}/api/auth/logout`,
    );
    expect((await responseTo(page, "GET /api/auth/me")).status).toBe(200);
    expect(await ageOfAda()).toBe(age);
  });

  test("a cross-site form can neither sign the user out nor sign them in as another user", async () => {
    await ask(page, "POST /api/auth/login", LOGIN);
    const count = await sessions();
    const foreign = await context.newPage();
    for (const path of ["/api/auth/logout", "/api/auth/login", "/users/1/follow", "/graphql"]) {
      await foreign.goto(evilUrl);
      const fields = { username: "bob", password: LOGIN.password, query: "mutation{deleteArticle(id:1)}" };
      expect([path, await submit(foreign, `${base}${path}`, fields)]).toEqual([
        path,
        expect.toBeOneOf([403, 404, 415]),
      ]);
    }
    expect(await sessions()).toBe(count);
    expect((await responseTo(page, "GET /api/auth/me")).json.username).toBe("ada");
  });

  test("a same-site page of another origin, which sends the cookie, can neither read nor write", async () => {
    await ask(page, "POST /api/auth/login", LOGIN);
    const age = await ageOfAda();
    const neighbour = await context.newPage();
    await neighbour.goto(neighbourUrl);
    for (const path of ["/api/auth/me", "/csrf-token"])
      expect([path, await ask(neighbour, `GET ${base}${path}`)]).toEqual([path, "blocked"]);
    const sent = { method: "POST", mode: "no-cors", credentials: "include" };
    await neighbour.evaluate(`fetch("${base}/api/auth/logout", ${JSON.stringify(sent)}).catch(() => {})`);
    for (const path of ["/api/auth/logout", "/api/auth/login"]) {
      await neighbour.goto(neighbourUrl);
      const requested = neighbour.waitForRequest(`${base}${path}`);
      expect([path, await submit(neighbour, `${base}${path}`, LOGIN)]).toEqual([path, 403]);
      expect((await (await requested).allHeaders()).cookie).toMatch(/^SESSION=/);
    }
    expect((await responseTo(page, "GET /api/auth/me")).status).toBe(200);
    expect(await ageOfAda()).toBe(age);
  });

  test("a same-site page whose origin is in CORS_ORIGINS signs in and writes with the token", async () => {
    const friendly = await startTestService({ CORS_ORIGINS: new URL(neighbourUrl).origin, GRAPHQL_DOCUMENTS: "none" });
    try {
      const api = friendly.url.replace("127.0.0.1", "localhost");
      const neighbour = await context.newPage();
      await neighbour.goto(neighbourUrl);
      expect((await responseTo(neighbour, `POST ${api}/api/auth/login`, LOGIN)).status).toBe(200);
      expect((await responseTo(neighbour, `GET ${api}/api/auth/me`)).json.username).toBe("ada");
      const { csrfToken } = (await responseTo(neighbour, `GET ${api}/csrf-token`)).json;
      const token = { "x-csrf-token": csrfToken };
      expect((await responseTo(neighbour, `PATCH ${api}/users/1`, { age: 38 }, token)).json.age).toBe(38);
      expect((await responseTo(neighbour, `POST ${api}/api/auth/logout`)).status).toBe(200);
    } finally {
      await friendly.stop();
    }
  });

  test("a cross-site link opens the page as an anonymous caller, because the cookie is only sent by same-site pages", async () => {
    await ask(page, "POST /api/auth/login", LOGIN);
    const foreign = await context.newPage();
    await foreign.goto(evilUrl);
    const answered = foreign.waitForResponse(`${base}/api/auth/me`);
    await foreign.evaluate(`location.assign("${base}/api/auth/me")`);
    expect((await answered).status()).toBe(401);
  });
});

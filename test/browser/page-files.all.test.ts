import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import jwt from "jsonwebtoken";
import type { Browser, BrowserContext, Page, WebSocketRoute } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { Relay } from "../support/relay.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** The documents that name the files of a page. */
const PAGES = ["authentication", "database-application", "errors", "graphql", "supabase-js"];
/** All files that the example pages share, without the suffix of the files that they import. */
const FILES = readdirSync("demo/pages/live").map(
  (name) => [name, readFileSync(`demo/pages/live/${name}`, "utf8").replaceAll('.ts";', '";')] as const,
);
/** What the tests do with session.ts, socket.ts and follow.ts. Those of Apollo and urql are shown by the example pages. */
const FOLLOW = `
  import * as session from "./session";
  import { ADDED, COMMENT, type Comment, READ, type Read, withComment } from "./comments";
  import { follow, graphql } from "./follow";
  import { socket } from "./socket";
  /** The texts of the comments that the page has shown, each time. */
  const shown: string[][] = [];
  const failures: string[] = [];
  const show = ({ article }: Read): void =>
    void shown.push((article?.commentsConnection.edges ?? []).map(({ node: { content } }) => content));
  let current: Read = { article: null };
  const open = (id: string) =>
    follow<Read, { onCommentAdded: Comment }>({
      query: READ,
      subscription: ADDED,
      variables: { id },
      onRead: (read) => show((current = read ?? { article: null })),
      onEvent: ({ onCommentAdded }) => show((current = withComment(current, onCommentAdded))),
      onError: (error) => void (error && failures.push(String(error))),
    });
  const comment = (id: string, content: string) => graphql(COMMENT, { id, content });
  Object.assign(globalThis, { session, socket, shown, failures, open, comment });`;
const SUPABASE = `
  import { createClient } from "@supabase/supabase-js";
  import { followComments } from "./live-comments";
  const shown: string[][] = [];
  const joins: string[] = [];
  const failures: unknown[] = [];
  /** How many failures there were each time that the last one had passed. */
  const passed: number[] = [];
  /** A position that the service does not have, in place of that of the page. */
  const forged = { position: "" };
  class Socket extends WebSocket {
    override send(message: string): void {
      if (message.includes("phx_join")) joins.push(/"since":"([^"]*)/.exec(message)?.[1] ?? "");
      // With another option the service does not recognise the client, so only the position counts.
      const other = message
        .replace('"positions":true', '"positions":true,"leave":true')
        .replace(/"since":"[^"]*/, '"since":"' + forged.position);
      super.send(forged.position === "" ? message : other);
    }
  }
  const open = (url: string, key: string, id: number) =>
    followComments(
      createClient(url, key, { realtime: { transport: Socket as typeof WebSocket } }),
      id,
      (comments) => shown.push(comments.map(({ content, author }) => author.name + ": " + content)),
      (error) => (error === undefined ? passed.push(failures.length) : failures.push(error)),
    );
  Object.assign(globalThis, { shown, failures, passed, joins, forged, open });`;

const installed = hasBrowser("the files of a page");
const folder = mkdtempSync(join(tmpdir(), "page-files-"));
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(() => {
  symlinkSync(resolve("demo/pages/node_modules"), join(folder, "node_modules"));
  for (const [name, text] of FILES) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, "test-follow.ts"), FOLLOW);
  const [, example = ""] = /^```ts\n(import .*[\s\S]*?)^```$/m.exec(readFileSync("docs/authentication.md", "utf8"))!;
  writeFileSync(join(folder, "example.ts"), `${example.replace("./live/session.ts", "./session")}export {};\n`);
  writeFileSync(join(folder, "test-live-comments.ts"), SUPABASE);
  const { compilerOptions } = JSON.parse(readFileSync("demo/pages/tsconfig.json", "utf8"));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
});

test("the documents name each file of a page, and all of them compile", () => {
  const documents = PAGES.map((page) => readFileSync(`docs/${page}.md`, "utf8")).join("");
  expect(FILES.length).toBeGreaterThan(16);
  expect(FILES.map(([name]) => name).filter((name) => !documents.includes(name))).toEqual([]);
  const compile = () => execFileSync(resolve("node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  expect(compile()).toBe("");
});

describe("docs/errors.md: faultsOf", () => {
  const ERRORS = readFileSync("docs/errors.md", "utf8");
  const section = ERRORS.slice(ERRORS.indexOf("## The shapes of invalid fields"));
  const examples = [...section.slice(0, section.indexOf("```ts")).matchAll(/^\|.*\| `(\{.*\})` \|$/gm)];
  const load = async (): Promise<{ faultsOf(refused: unknown): any[] }> => import(join(folder, "faults.ts"));

  test("reads the example of each shape", async () => {
    const { faultsOf } = await load();
    const read = examples.map(([, example]) => faultsOf(JSON.parse(example!)).map(({ field }) => field));
    expect(read).toEqual([["content"], ["title"], ["email"], ["title"]]);
  });

  test("reads what the service sends", async () => {
    const service = await startTestService({ API_KEY_REQUIRED: "off" });
    onTestFinished(() => service.stop());
    const { faultsOf } = await load();
    const fieldsOf = (refused: unknown) => faultsOf(refused).map(({ field }) => field);
    const headers = { "content-type": "application/json", authorization: `Bearer ${service.token("ada")}` };
    const post = async (path: string, body: object): Promise<any> =>
      (await fetch(service.url + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
    const query = 'mutation { createComment(articleId: 1, content: "") { id } }';
    expect(fieldsOf(await post("/graphql", { query }))).toEqual(["content"]);
    const create = 'mutation { createArticle(input: { title: "a", content: "" }) { errors { field message } } }';
    const { data } = await post("/graphql", { query: create });
    expect(fieldsOf(data.createArticle)).toEqual(["title", "content"]);
    expect(fieldsOf(await post("/users", { name: "", email: "x" }))).toEqual(expect.arrayContaining(["name", "email"]));
    expect(fieldsOf(await post("/rest/v1/articles", { title: "a", content: "" }))).toEqual(
      expect.arrayContaining(["title", "content"]),
    );
    for (const none of [null, undefined, new Error("no network"), { data: {} }]) expect(faultsOf(none)).toEqual([]);
  });
});

describe.skipIf(!installed)("in a browser", () => {
  let service: TestService;
  let browser: Browser;
  let context: BrowserContext;
  const scripts = new Map<string, string>();

  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), sharedBrowser()]);
    context = await browser.newContext();
    context.setDefaultTimeout(120_000);
    for (const name of ["follow.ts", "live-comments.ts"]) scripts.set(name, await bundle(`test-${name}`));
  });
  afterAll(async () => {
    await closePages();
    await service?.stop();
  });

  async function bundle(name: string): Promise<string> {
    const output = await build({
      ...{ root: folder, configFile: false, logLevel: "warn" },
      define: { "process.env.NODE_ENV": '"production"' },
      oxc: { jsx: { runtime: "automatic", development: false } },
      build: { write: false, lib: { entry: join(folder, name), formats: ["iife"], name: "page" } },
    });
    return (output as any)[0].output[0].code;
  }

  /** A page of the service's origin with these files. */
  async function open(client: string, prepare?: (page: Page) => Promise<unknown>, url = service.url): Promise<Page> {
    const page = await context.newPage();
    onTestFinished(() => page.close());
    await prepare?.(page);
    await page.goto(`${url}/live`);
    await page.evaluate(scripts.get(client)!);
    return page;
  }

  /** Queries have one a moment after the start of the service. */
  async function positionOfRead(): Promise<unknown> {
    const body = JSON.stringify({ query: "{ article(id: 1) { id } }", extensions: { changePosition: true } });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${service.url}/graphql`, { method: "POST", headers, body });
    return ((await response.json()) as any).extensions?.changePosition;
  }

  const LOGIN = JSON.stringify({ username: "ada", password: "Correct-Horse-7!" });

  test("session.ts keeps the user signed in after a reload and in all tabs", async () => {
    const [page, other] = [await open("follow.ts"), await open("follow.ts")];
    const tokenOf = (tab: Page): Promise<string> => tab.evaluate("session.accessToken()");
    const statusOf = (tab: Page) => tab.evaluate("session.request('/auth/me').then(({ status }) => status)");
    const change = (changed: object) =>
      page.evaluate(
        (values) =>
          localStorage.setItem(
            "session",
            JSON.stringify({ ...JSON.parse(localStorage.getItem("session")!), ...values }),
          ),
        changed,
      );
    await other.evaluate("globalThis.seen = 0; session.onSession(() => globalThis.seen++); 0");
    expect(await tokenOf(page)).toBeUndefined();
    const wrong = page.evaluate(`session.signIn({ username: "ada", password: "wrong" })`);
    await expect(wrong).rejects.toThrow(/password/);
    // A proxy answers for a service that is down.
    await page.route("**/auth/login", (route) => route.fulfill({ status: 502, body: "" }));
    await expect(page.evaluate(`session.signIn(${LOGIN})`)).rejects.toThrow(/cannot be reached \(status 502\)/);
    await page.unroute("**/auth/login");
    expect(await page.evaluate("session.session()")).toBeNull();
    await page.evaluate(`session.signIn(${LOGIN})`);
    expect(await page.evaluate("session.session() === session.session()")).toBe(true);
    await expect.poll(() => other.evaluate("seen"), POLL).toBe(1);
    const first = await tokenOf(page);
    // Both refresh at once, and one token for all: a second refresh would end the sign-in.
    await change({ expiresAt: 0 });
    const [given, same] = await Promise.all([page, other].map(tokenOf));
    expect([given === first, same]).toEqual([false, given]);
    await page.reload();
    await page.evaluate(scripts.get("follow.ts")!);
    expect(await Promise.all([page, other].map(statusOf))).toEqual([200, 200]);
    // The service finds a token expired that this device takes for valid.
    const claims = jwt.decode(await tokenOf(page)) as object;
    await change({ accessToken: jwt.sign({ ...claims, exp: 1 }, JWT_SECRET) });
    expect(await statusOf(page)).toBe(200);
    // A sign-in that has ended elsewhere.
    await change({ expiresAt: 0, refreshToken: "x" });
    expect(await tokenOf(page)).toBeUndefined();
    await expect.poll(() => other.evaluate("session.session()"), POLL).toBeNull();
    // Signing out ends the session at the service.
    await page.evaluate(`session.signIn(${LOGIN})`);
    const last = await tokenOf(page);
    await page.evaluate("session.signOut()");
    expect(await page.evaluate("session.session()")).toBeNull();
    const refused = () => fetch(`${service.url}/auth/me`, { headers: { authorization: `Bearer ${last}` } });
    await expect.poll(async () => (await refused()).status, POLL).toBe(401);
  });

  test("session.ts takes what is no session, in this tab or from another one, for signed out", async () => {
    const [page, other] = [await open("follow.ts"), await open("follow.ts")];
    const user = { id: 1, name: "Ada Lovelace" };
    const session = { id: "x", accessToken: "x", refreshToken: "x", expiresAt: 0, user };
    await other.evaluate(
      "globalThis.seen = []; session.onUser(() => globalThis.seen.push(session.session()?.user.name)); 0",
    );
    for (const stored of [
      ...["", "ada", "null", "7", "[]", '"text"', "{}", '{"session":', JSON.stringify({ user })],
      ...Object.keys(session).map((name) => JSON.stringify({ ...session, [name]: undefined })),
      JSON.stringify({ ...session, user: null }),
      JSON.stringify({ ...session, user: {} }),
    ]) {
      await page.evaluate((text) => localStorage.setItem("session", text), stored);
      expect([stored, await page.evaluate("session.session()")]).toEqual([stored, null]);
      expect(await page.evaluate("session.request('/auth/me').then(({ status }) => status)")).toBe(401);
    }
    await page.evaluate(`session.signIn(${LOGIN})`);
    await expect.poll(() => other.evaluate("seen"), POLL).toEqual(["Ada Lovelace"]);
    await page.evaluate(() => localStorage.setItem("session", "{"));
    await expect.poll(() => other.evaluate("seen"), POLL).toEqual(["Ada Lovelace", undefined]);
    await page.evaluate("session.signOut()");
  });

  /** Ada is signed in, in a tab whose refresh has been answered by the service, but the answer is still on its way. */
  async function refreshing(status = 200, prepare?: (page: Page) => Promise<unknown>) {
    const [page, other] = [await open("follow.ts"), await open("follow.ts")];
    await page.evaluate(`session.signIn(${LOGIN})`);
    const signedIn = () => other.evaluate<string | undefined>("session.session()?.user.username");
    await expect.poll(signedIn, POLL).toBe("ada");
    const [issued, answer] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()];
    await page.route("**/auth/refresh", async (route) => {
      const response = await route.fetch();
      issued.resolve((await response.json()).accessToken);
      await answer.promise;
      return route.fulfill(status === 200 ? { response } : { status, json: { error: { message: "ended" } } });
    });
    await page.evaluate(() => {
      const stored = JSON.parse(localStorage.getItem("session")!);
      localStorage.setItem("session", JSON.stringify({ ...stored, expiresAt: 0 }));
    });
    await prepare?.(page);
    await page.evaluate("globalThis.refreshed = session.accessToken(); 0");
    return { page, other, token: await issued.promise, answer };
  }
  const statusWith = async (token: string) =>
    (await fetch(`${service.url}/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status;

  test("session.ts stays signed out if the user signs out in another tab during a refresh, and ends the new tokens", async () => {
    const { page, other, token, answer } = await refreshing();
    // This tab cannot reach the service: only the one that refreshes can end its tokens.
    await other.route("**/auth/*", (route) => route.abort());
    await expect(other.evaluate("session.signOut()")).rejects.toThrow(
      "You are signed out here. The service cannot be reached: there, the sign-in ends when it expires.",
    );
    await expect.poll(() => page.evaluate("session.session()"), POLL).toBeNull();
    expect(await statusWith(token)).toBe(200);
    answer.resolve();
    expect(await page.evaluate("refreshed")).toBeUndefined();
    expect(await Promise.all([page, other].map((tab) => tab.evaluate("session.session()")))).toEqual([null, null]);
    await expect.poll(() => statusWith(token), POLL).toBe(401);
  });

  test("session.ts fails a request that is not answered, also a refresh, which another tab then repeats", async () => {
    const hurry = (tab: Page) =>
      tab.evaluate(() => {
        const { timeout } = AbortSignal;
        AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 20);
      });
    const { page, other, token } = await refreshing(200, hurry);
    const repeated = other.evaluate<string>("session.accessToken()");
    await expect(page.evaluate("refreshed")).rejects.toThrow("The service cannot be reached.");
    // The service has answered, and takes the token of the other tab for stolen.
    expect(await repeated).toBeUndefined();
    await expect.poll(() => statusWith(token), POLL).toBe(401);
    await other.evaluate(`session.signIn(${LOGIN})`);
    await hurry(other);
    await other.route("**/users/1", () => {});
    const unanswered = other.evaluate("session.request('/users/1')");
    await expect(unanswered).rejects.toThrow("The service cannot be reached.");
    await other.unroute("**/users/1");
    await other.route("**/users/1", (route) => route.fulfill({ status: 502, body: "<html>" }));
    const failed = other.evaluate("session.request('/users/1')");
    await expect(failed).rejects.toThrow("The service cannot be reached (status 502).");
  });

  test.each(["is lost", "is that of a proxy"])(
    "session.ts signs the user out if the answer of a refresh %s, and keeps the user signed in if the request is",
    async (what) => {
      const page = await open("follow.ts");
      await page.evaluate(`session.signIn(${LOGIN})`);
      let [refreshes, arrives] = [0, false];
      await page.route("**/auth/refresh", async (route) => {
        if (++refreshes % 2 === 0) return route.continue();
        if (arrives) await route.fetch();
        return what === "is lost" ? route.abort() : route.fulfill({ status: 504, body: "" });
      });
      const refresh = async () => {
        await page.evaluate(() => {
          const stored = JSON.parse(localStorage.getItem("session")!);
          localStorage.setItem("session", JSON.stringify({ ...stored, expiresAt: 0 }));
        });
        return page.evaluate<string | undefined>("session.accessToken()");
      };
      expect(await statusWith((await refresh())!)).toBe(200);
      arrives = true;
      expect([await refresh(), refreshes]).toEqual([undefined, 4]);
      expect(await page.evaluate("session.session()")).toBeNull();
    },
  );

  test.each([
    ["has new tokens", 200],
    ["finds that the last sign-in has ended", 401],
  ])("session.ts keeps the sign-in of another user when a refresh %s", async (_what, status) => {
    const { page, other, token, answer } = await refreshing(status);
    await other.evaluate("session.signOut()");
    const BOB = JSON.stringify({ username: "bob", password: "Correct-Horse-7!" });
    await other.evaluate(`session.signIn(${BOB})`);
    const signedIn = () => Promise.all([page, other].map((tab) => tab.evaluate("session.session()?.user.username")));
    await expect.poll(signedIn, POLL).toEqual(["bob", "bob"]);
    answer.resolve();
    const used = await page.evaluate("refreshed");
    expect(used).toBe(await other.evaluate("session.accessToken()"));
    expect(await signedIn()).toEqual(["bob", "bob"]);
    await expect.poll(() => statusWith(token), POLL).toBe(401);
  });

  test.each(["before it is sent", "before it is sent again with another token"])(
    "session.ts sends nothing under the name of another user, who has signed in %s",
    async (when) => {
      const content = `Of Ada, ${when}`;
      const isHeld = Promise.withResolvers<void>();
      const { page, other, token, answer } = await refreshing();
      if (when !== "before it is sent") {
        answer.resolve();
        await page.evaluate("refreshed");
        await page.route(/\/graphql$/, async (route) => {
          isHeld.resolve();
          await expect.poll(() => statusWith(token), POLL).toBe(401);
          return route.continue();
        });
      }
      await page.evaluate(`globalThis.sent = comment("1", "${content}").catch(String); 0`);
      if (when !== "before it is sent") await isHeld.promise;
      const user = () => page.evaluate("session.session()?.user.username");
      // While the request is on its way.
      const BOB = JSON.stringify({ username: "bob", password: "Correct-Horse-7!" });
      await other.evaluate(`session.signIn(${BOB})`);
      await expect.poll(user, POLL).toBe("bob");
      const authorization = `Bearer ${token}`;
      await fetch(`${service.url}/auth/logout`, { method: "POST", headers: { authorization } });
      answer.resolve();
      expect(await page.evaluate("sent")).toBe("Error: You have been signed out.");
      const { rowCount } = await service.database.owner.query("select from comments where content = $1", [content]);
      expect([rowCount, await user()]).toEqual([0, "bob"]);
    },
  );

  test("with socket.ts a page has one connection, also while it follows nothing", async () => {
    const { owner } = service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) values ('One socket', 'x', 1, 'PUBLISHED') returning id",
    );
    const id = rows[0].id;
    const sockets = { opened: 0, closed: 0 };
    const page = await open("follow.ts", async (page) =>
      page.on("websocket", (socket) => {
        sockets.opened++;
        socket.on("close", () => sockets.closed++);
      }),
    );
    for (const content of ["one", "two"]) {
      await page.evaluate(`globalThis.stop = open("${id}"); 0`);
      await owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [id, content]);
      const texts = async () => (await page.evaluate<string[][]>("shown")).at(-1);
      await expect.poll(texts, POLL).toContain(content);
      await page.evaluate("stop()");
    }
    expect(sockets).toEqual({ opened: 1, closed: 0 });
  });

  test("with socket.ts a page finds out that its connection is dead, and misses no comment", async () => {
    const { owner } = service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) values ('Silent', 'x', 1, 'PUBLISHED') returning id",
    );
    const write = (content: string) =>
      owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [rows[0].id, content]);
    await using relay = await Relay.open(service.url);
    const page = await open("follow.ts", undefined, relay.url);
    const texts = async () => (await page.evaluate<string[][]>("shown")).at(-1);
    await expect.poll(positionOfRead, POLL).toBeDefined();
    await write("read");
    await page.evaluate(`void open("${rows[0].id}")`);
    await expect.poll(texts, POLL).toEqual(["read"]);
    await write("live");
    await expect.poll(texts, POLL).toEqual(["read", "live"]);
    relay.silence();
    await write("while nothing passes");
    await expect.poll(texts, POLL).toEqual(["read", "live", "while nothing passes"]);
  });

  test("with socket.ts a page connects again after the network has failed before its token was refreshed", async () => {
    const { owner } = service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) values ('No network', 'x', 1, 'PUBLISHED') returning id",
    );
    const write = (content: string) =>
      owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [rows[0].id, content]);
    await using relay = await Relay.open(service.url);
    const page = await open("follow.ts", undefined, relay.url);
    const texts = async () => (await page.evaluate<string[][]>("shown")).at(-1);
    await page.evaluate(`session.signIn(${LOGIN})`);
    await expect.poll(positionOfRead, POLL).toBeDefined();
    await write("read");
    await page.evaluate(`void open("${rows[0].id}")`);
    await write("live");
    await expect.poll(texts, POLL).toEqual(["read", "live"]);

    let release: (() => void) | undefined;
    await page.route("**/auth/refresh", async (route) => {
      if (release === undefined) {
        // The socket is open, and what passes on it is late: also the frame that closes it.
        release = relay.hold();
        return route.abort();
      }
      release();
      return route.continue();
    });
    await page.evaluate(() => {
      const stored = JSON.parse(localStorage.getItem("session")!);
      localStorage.setItem("session", JSON.stringify({ ...stored, expiresAt: 0 }));
    });
    relay.cut();
    await expect.poll(() => page.evaluate("session.session().expiresAt > 0"), POLL).toBe(true);
    await write("after that");
    await expect.poll(texts, POLL).toEqual(["read", "live", "after that"]);
    expect(await page.evaluate("failures")).toEqual([]);
  });

  /** In this page, a pause of half a second and more is longer or shorter by this factor. */
  const stretch = (page: Page, factor: number) =>
    page.addInitScript((by) => {
      const { setTimeout } = globalThis;
      const stretched = (run: () => void, ms = 0) => setTimeout(run, ms < 500 ? ms : Math.min(ms * by, 2 ** 31 - 1));
      Object.assign(globalThis, { setTimeout: stretched });
    }, factor);

  test.each(["is lost", "is silent"])(
    "with socket.ts a page connects again as soon as the browser is online, if the connection %s",
    async (what) => {
      await using relay = await Relay.open(service.url);
      let connections = 0;
      const page = await open(
        "follow.ts",
        async (page) => {
          await stretch(page, 10_000);
          page.on("websocket", () => connections++);
        },
        relay.url,
      );
      await page.evaluate(`void open("1")`);
      await expect.poll(() => page.evaluate("shown.length"), POLL).toBeGreaterThan(0);
      await expect.poll(() => connections, POLL).toBe(1);
      if (what === "is silent") relay.silence();
      else {
        await page.evaluate("globalThis.isClosed = new Promise((resolve) => socket.on('closed', resolve)); 0");
        relay.cut();
        await page.evaluate("isClosed");
      }
      await page.evaluate("dispatchEvent(new Event('online'))");
      await expect.poll(() => connections, POLL).toBe(2);
      const content = `It ${what}, and is back`;
      await service.database.owner.query("insert into comments (article_id, author_id, content) values (1, 2, $1)", [
        content,
      ]);
      const texts = async () => (await page.evaluate<string[][]>("shown")).at(-1);
      await expect.poll(texts, POLL).toContain(content);
    },
  );

  test("with socket.ts a page connects again after codes after which graphql-ws gives up, but which pass", async () => {
    const sockets: WebSocketRoute[] = [];
    await open("follow.ts", async (page) => {
      await stretch(page, 0.02);
      await page.routeWebSocket(/\/graphql$/, (route) => {
        sockets.push(route);
        route.connectToServer();
      });
    });
    for (const [closed, code] of [1011, 4429, 4500, 4004].entries()) {
      await expect.poll(() => sockets.length, POLL).toBe(closed + 1);
      await sockets.at(-1)!.close({ code });
    }
    await expect.poll(() => sockets.length, POLL).toBe(5);
  });

  test("with live-comments.ts a page of supabase-js misses no comment, also after a gap", async () => {
    const { owner } = service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) values ('Channel', 'x', 1, 'PUBLISHED') returning id",
    );
    const id = Number(rows[0].id);
    const write = (content: string) =>
      owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [id, content]);
    await using relay = await Relay.open(service.url);
    const page = await open("live-comments.ts", undefined, relay.url);
    const joins = (): Promise<string[]> => page.evaluate("joins");
    const expectShown = (...texts: string[]) =>
      expect
        .poll(async () => (await page.evaluate<string[][]>("shown")).at(-1), POLL)
        .toEqual(texts.map((text) => `Bob Kahn: ${text}`));
    const cut = () => {
      relay.target = null;
      relay.cut();
    };

    await write("first");
    const key = service.service.tokens.issueKey("anon");
    await page.evaluate(`void open("${relay.url}", "${key}", ${id})`);
    await expectShown("first");
    await write("live");
    await expectShown("first", "live");
    expect((await joins())[0]).toBe("");

    cut();
    await write("while the socket was closed");
    relay.target = service.url;
    await expectShown("first", "live", "while the socket was closed");
    const position = (await joins()).at(-1);
    expect(position).toMatch(/-/);

    cut();
    await owner.query("delete from comments where article_id = $1 and content = 'live'", [id]);
    await write("long ago");
    await page.evaluate(`forged.position = "${position!.replace(/^[^-]+/, "aaaaaa")}"`);
    relay.target = service.url;
    await expectShown("first", "while the socket was closed", "long ago");
    expect((await joins()).at(-1)).toBe("");
    await write("after the gap");
    await expectShown("first", "while the socket was closed", "long ago", "after the gap");
  });
  /** A page that follows the comments of a new article, which has `count` of them; and what it has shown last. */
  async function followNew(count: number, prepare?: (page: Page) => Promise<unknown>, url = service.url) {
    const { owner } = service.database;
    const { rows } = await owner.query(
      "insert into articles (title, content, author_id, status) values ('Long discussion', 'x', 1, 'PUBLISHED') returning id",
    );
    const id = Number(rows[0].id);
    const write = (texts: string[]) =>
      owner.query("insert into comments (article_id, author_id, content) select $1, 2, unnest($2::text[])", [
        id,
        texts,
      ]);
    await write(Array.from({ length: count }, (_, index) => String(index + 1)));
    const page = await open("live-comments.ts", prepare, url);
    const key = service.service.tokens.issueKey("anon");
    await page.evaluate(`globalThis.following = open("${url}", "${key}", ${id}); 0`);
    const shown = async () =>
      (await page.evaluate<string[][]>("shown")).at(-1)?.map((line) => line.replace("Bob Kahn: ", ""));
    return { id, write, page, shown };
  }
  const numbers = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) => String(from + index));

  test("live-comments.ts shows the newest comments, and earlier ones when they are asked for, without a hole", async () => {
    const { id, write, page, shown } = await followNew(45);
    await expect.poll(shown, POLL).toEqual(numbers(26, 45));
    await service.database.owner.query("delete from comments where article_id = $1 and content in ('5', '30')", [id]);
    await write(["46"]);
    const some = numbers(26, 46).filter((text) => text !== "30");
    await expect.poll(shown, POLL).toEqual(some);
    await page.evaluate("following.earlier()");
    const more = [...numbers(6, 25), ...some];
    await expect.poll(shown, POLL).toEqual(more);
    await page.evaluate("following.earlier()");
    await expect.poll(shown, POLL).toEqual([...numbers(1, 4), ...more]);
    expect(await page.evaluate("failures")).toEqual([]);
  });

  test("live-comments.ts repeats a read that fails, and reads the changes of a moment together", async () => {
    let [fail, reads] = [1, 0];
    const { write, page, shown } = await followNew(1, (page) =>
      page.route(/\/rest\/v1\/comments/, (route) => {
        reads++;
        return fail-- > 0 ? route.fulfill({ status: 500, body: "{}" }) : route.continue();
      }),
    );
    await expect.poll(shown, POLL).toEqual(["1"]);
    expect(await page.evaluate("failures")).toHaveLength(1);
    const before = reads;
    await write(numbers(2, 12));
    await expect.poll(shown, POLL).toEqual(numbers(1, 12));
    expect(reads - before).toBeLessThan(11);
  });

  test("live-comments.ts says that a lost connection is back, also if nothing was written meanwhile", async () => {
    await using relay = await Relay.open(service.url);
    const { page, shown } = await followNew(1, undefined, relay.url);
    await expect.poll(shown, POLL).toEqual(["1"]);
    relay.cut();
    const failures = () => page.evaluate<number>("failures.length");
    await expect.poll(failures, POLL).toBe(1);
    await expect.poll(() => page.evaluate("passed.at(-1) === failures.length"), POLL).toBe(true);
    expect(await page.evaluate("shown.length")).toBe(1);
  });

  test("live-comments.ts shows nothing after its end, also not what was being read", async () => {
    const read = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const { page } = await followNew(1, (page) =>
      page.route(/\/rest\/v1\/comments/, async (route) => {
        const response = await route.fetch();
        held.resolve();
        await read.promise;
        await route.fulfill({ response });
      }),
    );
    await held.promise;
    await page.evaluate("following.end()");
    const arrived = page.waitForEvent("requestfinished", (request) => request.url().includes("/rest/v1/comments"));
    read.resolve();
    await arrived;
    // The page has handled the response when it handles what comes after it.
    await page.evaluate("fetch('/health').then((response) => response.text())");
    expect(await page.evaluate("[shown, failures]")).toEqual([[], []]);
  });
});

import jwt from "jsonwebtoken";
import type { Browser } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { overflowOf, violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { TABLES, useRealtime } from "../support/realtime.ts";
import { Relay } from "../support/relay.ts";
import { JWT_SECRET } from "../support/service.ts";

const CLIENT = "node_modules/@supabase/supabase-js/dist/umd/supabase.js";
const { service, sql } = useRealtime(
  { DOCS: "on", DB_SCHEMAS: "public,shop" },
  `${TABLES}
  create schema shop;
  grant usage on schema shop to anon, authenticated;
  create table shop.todos (id bigint primary key, title text);
  grant select on shop.todos to anon;`,
);

/** A page of the service with supabase-js. Chromium does not let pages of other hosts connect to this machine. */
async function openPage(browser: Browser) {
  const page = await browser.newPage({ bypassCSP: true });
  await page.goto(`${service().url}/docs/errors`);
  await page.addScriptTag({ path: CLIENT });
  return page;
}

/** A token of Ada that expires in so many seconds. */
function tokenOf(seconds: number): string {
  const { exp, iat, ...claims } = jwt.decode(service().token("ada")) as jwt.JwtPayload;
  const now = Math.floor(Date.now() / 1000);
  return jwt.sign({ ...claims, iat: now - 10, exp: now + seconds }, JWT_SECRET);
}

test.runIf(hasBrowser("channels"))(
  "in Chromium, a page gets the changes of its rows across lost connections and the expiry of its token",
  async () => {
    const browser = await sharedBrowser();
    onTestFinished(closePages);
    await using relay = await Relay.open(service().url);
    const page = await openPage(browser);
    const settings = { url: relay.url, key: service().service.tokens.issueKey("anon"), token: tokenOf(600) };
    await page.evaluate(async ({ url, key, token }) => {
      const state = { token, states: [] as string[], changes: [] as string[], system: [] as string[] };
      const client = (globalThis as any).supabase.createClient(url, key, { accessToken: async () => state.token });
      Object.assign(globalThis, { state, client });
      await client.realtime.setAuth();
      client
        .channel("todos")
        .on("postgres_changes", { event: "*", schema: "public", table: "todos", filter: "id=lt.100" }, (change: any) =>
          state.changes.push(`${change.eventType} ${change.new.id ?? change.old.id} ${change.new.title ?? ""}`),
        )
        .on("system", {}, ({ message }: any) => state.system.push(message))
        .subscribe((status: string, error: any) => state.states.push(error ? `${status}: ${error.message}` : status));
    }, settings);
    const read = (name: "states" | "changes" | "system") =>
      page.evaluate((member) => (globalThis as any).state[member] as string[], name);
    await expect.poll(() => read("states")).toEqual(["SUBSCRIBED"]);

    await sql("insert into todos (id, owner, title) values (1, 1, 'milk'), (2, 2, 'bread'), (100, 1, 'eggs')");
    await expect.poll(() => read("changes")).toEqual(["INSERT 1 milk"]);
    relay.cut();
    await sql("update todos set title = 'tea' where id = 1");
    const unique = async () => [...new Set(await read("changes"))];
    await expect.poll(unique).toEqual(["INSERT 1 milk", "UPDATE 1 tea"]);

    const renew = (token: string) =>
      page.evaluate(async (next) => {
        const { state, client } = globalThis as any;
        state.token = next;
        await client.realtime.setAuth();
      }, token);
    await renew(tokenOf(2));
    await expect
      .poll(() => read("system"))
      .toContain("InvalidJWTToken: the access token has expired: refresh it, or sign in again");
    await sql("delete from todos where id < 100");
    await renew(tokenOf(600));
    await expect.poll(unique).toEqual(["INSERT 1 milk", "UPDATE 1 tea", "DELETE 1 "]);
    expect(await page.evaluate(() => (globalThis as any).client.removeAllChannels())).toEqual(["ok"]);
    await expect.poll(async () => (await read("states")).at(-1)).toBe("CLOSED");
  },
);

test.runIf(hasBrowser("the page of live changes"))(
  "in Chromium, /docs/live shows the changes of a table of any served schema, pauses and stops, and says why a table cannot be subscribed to",
  async () => {
    const browser = await sharedBrowser();
    onTestFinished(closePages);
    const page = await browser.newPage({ viewport: { width: 1000, height: 500 } });
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    await page.goto(`${service().url}/docs/live`);
    const status = () => page.locator("output").innerText();
    const offered = page.getByLabel("Table");
    await offered.selectOption("todos");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await expect
      .poll(status)
      .toBe("Unauthorized: row-level security is on for public.todos, and no policy lets the role anon read a row");
    expect(await violationsOf(page)).toEqual([]);
    await page.getByLabel("Access token").fill(service().token("ada"));
    await page.getByLabel("Filter").fill("id=gt.200");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await expect.poll(status).toBe("Subscribed to todos: waiting for changes.");
    await sql("insert into todos (id, owner, title) values (200, 1, 'tea'), (201, 1, 'milk')");
    const changes = page.getByRole("list", { name: "Changes" }).getByRole("listitem");
    await expect.poll(() => changes.allInnerTexts()).toEqual([expect.stringContaining('"title":"milk"')]);
    expect(await changes.first().innerText()).toContain("INSERT");
    await sql("update todos set title = 'bread' where id = 201");
    await expect.poll(() => changes.first().innerText()).toContain("UPDATE");
    expect(await changes.first().innerText()).toContain("milk → bread");

    await page.getByRole("button", { name: "Pause" }).press("Enter");
    await sql("insert into todos (id, owner, title) values (202, 1, 'salt'), (203, 1, 'rice')");
    await page.getByRole("button", { name: "Continue (2 waiting)" }).waitFor();
    expect(await changes.count()).toBe(2);
    await page.getByRole("button", { name: "Continue (2 waiting)" }).press("Enter");
    await expect.poll(() => changes.count()).toBe(4);
    await sql("delete from todos where id > 199");
    await expect.poll(() => changes.first().innerText()).toContain("DELETE");
    expect(await violationsOf(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await violationsOf(page, "color-contrast")).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await overflowOf(page)).toBe(0);
    await page.getByRole("button", { name: "Stop" }).press("Enter");
    await expect.poll(status).toBe("Stopped.");
    await page.getByRole("button", { name: "Clear" }).press("Enter");
    await page.getByText("No changes yet.").waitFor();

    await page.getByLabel("Access token").fill("");
    await page.getByLabel("Filter").fill("");
    const schemas = () => offered.locator("optgroup").evaluateAll((groups) => groups.map(({ label }: any) => label));
    await expect.poll(schemas).toEqual(["public", "shop"]);
    await offered.selectOption("shop.todos");
    await page.getByRole("button", { name: "Subscribe" }).click();
    await expect.poll(status).toBe("Subscribed to shop.todos: waiting for changes.");
    await sql("insert into shop.todos values (1, 'jam')");
    await expect.poll(() => changes.allInnerTexts()).toEqual([expect.stringContaining('"title":"jam"')]);
    expect(faults).toEqual([]);
  },
);

import { expect, onTestFinished, test } from "vitest";
import { overflowOf, violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { TABLES, useRealtime } from "../support/realtime.ts";

const { service, sql } = useRealtime(
  { PARTS: "+site,+reference", DB_SCHEMAS: "public,shop" },
  `${TABLES}
  create schema shop;
  grant usage on schema shop to anon, authenticated;
  create table shop.todos (id bigint primary key, title text);
  grant select on shop.todos to anon;`,
);

test.runIf(hasBrowser("the page of live changes"))(
  "in Chromium, /docs/live shows the changes of a table of any served schema, pauses and stops, and says why a table cannot be subscribed to",
  async () => {
    onTestFinished(closePages);
    const page = await (await sharedBrowser()).newPage({ viewport: { width: 1000, height: 500 } });
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

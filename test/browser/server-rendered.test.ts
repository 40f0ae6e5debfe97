import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createSite } from "../../demo/pages/server-rendered/server.ts";
import { violationsOf } from "../support/axe.ts";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { startTestService } from "../support/service.ts";

test.runIf(hasBrowser("the server-rendered page"))(
  "in Chromium, a server-rendered page signs in with @supabase/ssr, keeps the user after a reload, and signs out",
  async () => {
    const [service, browser] = await Promise.all([startTestService(), launchBrowser()]);
    onTestFinished(() => service.stop());
    onTestFinished(() => browser.close());
    const site = createSite(service.url, service.service.tokens.issueKey("anon")).listen(0, "127.0.0.1");
    await once(site, "listening");
    onTestFinished(() => void site.close());
    onTestFinished(() => site.closeAllConnections());
    const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;

    const page = await browser.newPage();
    await page.goto(url);
    expect(await violationsOf(page)).toEqual([]);
    const signIn = async (password: string) => {
      await page.getByLabel("E-mail").fill("ada@example.com");
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    await signIn("wrong");
    expect(await page.getByRole("alert").textContent()).toBe("Invalid login credentials");
    await signIn("Correct-Horse-7!");
    const user = page.getByText("Signed in as");
    await user.waitFor();
    expect(await user.textContent()).toBe("Signed in as ada@example.com");

    await page.reload();
    expect(await user.textContent()).toBe("Signed in as ada@example.com");
    expect(await page.getByRole("listitem").count()).toBeGreaterThan(0);
    const cookies = await page.context().cookies();
    expect(cookies.map(({ name, httpOnly }) => [name.replace(/\.\d$/, ""), httpOnly])).toContainEqual([
      "sb-127-auth-token",
      true,
    ]);
    expect(await page.evaluate("document.cookie")).toBe("");

    // The server does not trust the user in the cookie: the session has to exist.
    const sessions = "select count(*)::integer as count from auth_private.sessions where revoked_at is null";
    expect((await service.database.owner.query(sessions)).rows).toEqual([{ count: 1 }]);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    expect((await service.database.owner.query(sessions)).rows).toEqual([{ count: 0 }]);
    expect(await page.context().cookies()).toEqual([]);
    await page.reload();
    expect(await user.count()).toBe(0);
  },
);

test("another site cannot sign a visitor in", async () => {
  const site = createSite("http://127.0.0.1:1", "no key").listen(0, "127.0.0.1");
  await once(site, "listening");
  onTestFinished(() => void site.close());
  const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/sign-in`;
  const body = new URLSearchParams({ email: "eve@test.example", password: "x" });
  const response = await fetch(url, { method: "POST", body, headers: { origin: "https://evil.example" } });
  expect([response.status, response.headers.getSetCookie()]).toEqual([404, []]);
});

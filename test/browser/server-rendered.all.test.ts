import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { violationsOf } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { startTestService } from "../support/service.ts";

// TypeScript does not follow this name: the root does not have the packages of the pages.
const SITE: string = "../../demo/pages/server-rendered/server.ts";
const { createSite }: { createSite(api: string, key: string, serviceKey?: string): Server } = await import(SITE);

test.runIf(hasBrowser("the server-rendered page"))(
  "in Chromium, a server-rendered page signs in with @supabase/ssr, keeps the user after a reload, and signs out",
  async () => {
    const [service, browser] = await Promise.all([startTestService(), sharedBrowser()]);
    onTestFinished(() => service.stop());
    onTestFinished(closePages);
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

test.runIf(hasBrowser("the links of the server-rendered page"))(
  "in Chromium, a user of the server-rendered page signs up, confirms the e-mail, resets the password, and another one accepts the invitation of an administrator",
  async () => {
    let site: Server | null = null;
    const front = createServer((request, response) => site!.emit("request", request, response)).listen(0, "127.0.0.1");
    await once(front, "listening");
    onTestFinished(() => void front.close());
    onTestFinished(() => front.closeAllConnections());
    const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    const mails = await startMailServer(undefined, onTestFinished);
    const settings = { ...mails.settings, EMAIL_CONFIRM: "required", AUTH_PAGES_URL: `${url}/link` };
    const [service, browser] = await Promise.all([startTestService(settings), sharedBrowser()]);
    onTestFinished(() => service.stop());
    onTestFinished(closePages);
    const { tokens } = service.service;
    site = createSite(service.url, tokens.issueKey("anon"), tokens.issueKey("service_role"));

    const page = await browser.newPage({ javaScriptEnabled: false });
    const send = async (fields: Readonly<Record<string, string>>, button: string) => {
      for (const [label, value] of Object.entries(fields)) await page.getByLabel(label).fill(value);
      await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: button }).click()]);
    };
    const openLink = async (email: string) => page.goto(linkIn(await mails.next(email)).url);
    const signedIn = () => page.locator("strong").innerText();
    const email = "hedy@ssr.example";

    await page.goto(`${url}/sign-up`);
    await send({ Name: "Hedy", "E-mail": email, Password: "short" }, "Create the account");
    expect(await page.getByRole("alert").innerText()).toMatch(/password/i);
    await send({ Name: "Hedy", "E-mail": email, Password: "Correct-Horse-7!" }, "Create the account");
    await page.getByText("An e-mail is on its way.").waitFor();
    await openLink(email);
    await send({ Password: "Correct-Horse-7!" }, "Confirm your e-mail");
    expect(await signedIn()).toBe(email);
    await send({}, "Sign out");
    await send({ "E-mail": email, Password: "Correct-Horse-7!" }, "Sign in");
    expect(await signedIn()).toBe(email);
    await send({}, "Sign out");
    const other = "mae@ssr.example";
    await page.goto(`${url}/sign-up`);
    await send({ Name: "Mae", "E-mail": other, Password: "Mallorys-Horse-7!" }, "Create the account");
    await openLink(other);
    await send({}, "Confirm your e-mail");
    await send({ Password: "Correct-Horse-7!" }, "Set the password");
    expect(await signedIn()).toBe(other);
    await send({}, "Sign out");

    await page.getByRole("link", { name: "Forgot your password?" }).click();
    await send({ "E-mail": email }, "Send the e-mail");
    await openLink(email);
    await send({}, "Choose a new password");
    await send({ Password: "Another-Horse-9?" }, "Set the password");
    expect(await signedIn()).toBe(email);
    await send({}, "Sign out");
    await send({ "E-mail": email, Password: "Another-Horse-9?" }, "Sign in");
    expect(await signedIn()).toBe(email);
    expect(await page.getByRole("link", { name: "Invite a user" }).count()).toBe(0);
    await page.goto(`${url}/invite`);
    await send({ Name: "Ivy", "E-mail": "ivy@ssr.example" }, "Send the invitation");
    expect(await page.getByRole("alert").innerText()).toBe("Only administrators send invitations.");
    await page.goto(url);
    await send({}, "Sign out");

    await send({ "E-mail": "admin@example.com", Password: "Correct-Horse-7!" }, "Sign in");
    await page.getByRole("link", { name: "Invite a user" }).click();
    await send({ Name: "Ivy", "E-mail": "ivy@ssr.example" }, "Send the invitation");
    await page.getByText("The invitation is on its way.").waitFor();
    await page.goto(url);
    await send({}, "Sign out");
    await openLink("ivy@ssr.example");
    const used = page.url();
    await send({}, "Accept the invitation");
    await send({ Password: "Correct-Horse-7!" }, "Set the password");
    await send({}, "Sign out");
    await send({ "E-mail": "ivy@ssr.example", Password: "Correct-Horse-7!" }, "Sign in");
    expect(await signedIn()).toBe("ivy@ssr.example");
    await page.goto(used);
    await send({}, "Accept the invitation");
    expect(await page.getByRole("alert").innerText()).toMatch(/expired|invalid/i);
    for (const path of ["/sign-in", "/sign-up", "/forgot", "/password", "/invite"]) {
      await page.goto(url + path);
      expect([path, await page.getByRole("button").count()]).toEqual([path, 1]);
    }
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

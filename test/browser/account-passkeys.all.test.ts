import type { Browser, BrowserContext, CDPSession, Page, Request } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { faultsAtEachSize } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { linkIn, type MailServer, startMailServer } from "../support/mail-server.ts";
import { startTestService, type TestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";

const installed = hasBrowser("the pages for passkeys");

let service: TestService;
let mails: MailServer;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let devices: CDPSession;
/** Passkeys belong to localhost. */
let base: string;
const faults: string[] = [];

beforeAll(async () => {
  if (!installed) return;
  mails = await startMailServer(undefined, () => {});
  const settings = { ...mails.settings, GRAPHQL_DOCUMENTS: "none" };
  [service, browser] = await Promise.all([startTestService(settings), sharedBrowser()]);
  base = service.url.replace("127.0.0.1", "localhost");
});
afterAll(async () => {
  await closePages();
  await service?.stop();
  await mails?.close();
});
/** A browser on a device that verifies its user. */
beforeEach(async () => {
  if (!installed) return;
  for (const table of ["passkeys", "backup_codes", "sessions", "attempts"])
    await service.database.owner.query(`delete from auth_private.${table}`);
  context = await browser.newContext();
  page = await context.newPage();
  page.on("console", (message) => {
    if (/Content.Security.Policy/i.test(message.text())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  devices = await context.newCDPSession(page);
  await devices.send("WebAuthn.enable");
  await addDevice();
});
afterEach(async () => {
  await context?.close();
  expect(faults.splice(0)).toEqual([]);
});

const addDevice = async () =>
  (
    await devices.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        ...{ protocol: "ctap2", transport: "internal", automaticPresenceSimulation: true },
        ...{ hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
      },
    })
  ).authenticatorId;
const title = () => page.innerText("h1");
const click = (name: string) => page.getByRole("button", { name, exact: true }).click();
/** Waits for the page that the form leads to. */
const press = (name: string) => Promise.all([page.waitForEvent("load"), click(name)]);
const fill = async (fields: Readonly<Record<string, string>>) => {
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value);
};
async function signIn(username = "ada", password = PASSWORD): Promise<void> {
  await page.goto(`${base}/auth/sign-in`);
  await fill({ "E-mail or username": username, Password: password });
  await press("Sign in");
}
/** Adds a passkey to the account that is signed in, and returns the backup codes that the page shows. */
async function addPasskey(name: string): Promise<string[]> {
  await page.goto(`${base}/auth/account/passkeys`);
  await fill({ "Name of the passkey": name });
  await press("Continue");
  await press("Create the passkey");
  await page.getByText("The passkey is added.").waitFor();
  return page.locator(".secrets code").allInnerTexts();
}
async function signOut(): Promise<void> {
  await page.goto(`${base}/auth/account`);
  await press("Sign out");
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
}
const accountTitle = () => page.getByRole("heading", { name: "Your account" }).waitFor();

describe.skipIf(!installed)("in Chromium with a virtual authenticator", () => {
  test("a user adds a passkey, signs in with it alone, renames it, and removes it", async () => {
    await signIn();
    expect(await addPasskey("My laptop")).toHaveLength(10);
    await signOut();

    await page.goto(`${base}/auth/sign-in?return_to=/auth/account/keys`);
    await press("Sign in with a passkey");
    await page.waitForURL(`${base}/auth/account/keys`);

    await page.goto(`${base}/auth/account`);
    await page.getByRole("link", { name: "Rename My laptop" }).click();
    await fill({ "Name of the passkey": "Work <laptop>" });
    await press("Rename it");
    await page.getByText("The passkey is renamed.").waitFor();
    await page.getByRole("link", { name: "Remove Work <laptop>" }).click();
    await page.getByLabel("A backup code").waitFor();
    await fill({ "Your password": PASSWORD });
    await press("Use a passkey instead of the code");
    await page.getByText("The passkey is removed.").waitFor();
    expect(await page.getByText("Work <laptop>").count()).toBe(0);
    await signOut();
    await signIn();
    await accountTitle();
  });

  test("the passkey is the second factor after the password, and a backup code replaces it", async () => {
    await signIn();
    const codes = await addPasskey("My laptop");
    await signOut();
    await signIn();
    expect(await title()).toBe("One more step");
    await fill({ "Backup code": "ABCDEFGH" });
    await press("Sign in");
    expect(await page.locator("#code-fault").innerText()).toBe("Wrong code.");
    await press("Use a passkey");
    await accountTitle();
    await signOut();
    await signIn();
    await fill({ "Backup code": codes[0]! });
    await press("Sign in");
    await accountTitle();
  });

  test("a change that needs the second factor is confirmed with the passkey", async () => {
    await signIn();
    await addPasskey("My laptop");
    await page.goto(`${base}/auth/account/backup-codes`);
    await fill({ "Your password": "wrong" });
    await press("Use a passkey instead of the code");
    expect(await page.getByRole("alert").first().innerText()).toMatch(/password/);
    await fill({ "Your password": PASSWORD });
    await press("Use a passkey instead of the code");
    await accountTitle();
    expect(await page.locator(".secrets code").count()).toBe(10);
  });

  test("the page of a reset link takes the passkey in place of the code, and sends its token to no page as Referer", async () => {
    const email = "fay@test.example";
    await fetch(`${base}/auth/register`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: "Fay", email, password: PASSWORD }),
    });
    await signIn(email);
    await addPasskey("My laptop");
    await signOut();
    await page.goto(`${base}/auth/forgot-password`);
    await fill({ "E-mail": email });
    await press("Send the e-mail");
    const { url } = linkIn(await mails.next(email, /^Reset/));

    const requests: Request[] = [];
    page.on("request", (request) => requests.push(request));
    await page.goto(url.replace("127.0.0.1", "localhost"));
    await page.getByLabel("A backup code").waitFor();
    // The new password comes first: the browser asks for it, and not for the passkey.
    await click("Use a passkey instead of the code");
    expect(await page.locator(":focus").getAttribute("name")).toBe("password");
    await fill({ "New password": "short" });
    await press("Use a passkey instead of the code");
    expect(await page.locator("#password-fault").innerText()).toMatch(/^New password must have/);
    await fill({ "New password": "Another-Horse-9?" });
    await press("Use a passkey instead of the code");
    expect(await title()).toBe("Your password is changed");
    const referers = await Promise.all(requests.map(async (request) => (await request.allHeaders()).referer));
    expect(referers).toEqual(requests.map(() => undefined));
    expect(requests.map((request) => new URL(request.url()).pathname)).toContain("/assets/passkeys.js");
    await signIn(email, "Another-Horse-9?");
    await press("Use a passkey");
    await accountTitle();
  });

  test("a passkey that was removed, or belongs to no account, is refused in words", async () => {
    await signIn();
    await addPasskey("My laptop");
    await service.database.owner.query("delete from auth_private.passkeys");
    await page.goto(`${base}/auth/sign-in`);
    await press("Sign in with a passkey");
    await page.getByText("The passkey was not accepted: try again, or sign in in another way.").waitFor();
  });

  test("a second passkey on the same device, and a device without one, are explained on the page", async () => {
    await signIn();
    await addPasskey("My laptop");
    await page.goto(`${base}/auth/account/passkeys`);
    await press("Continue");
    await click("Create the passkey");
    await page.getByText("This device has a passkey of your account already.").waitFor();
    await context.clearCookies();
    await devices.send("WebAuthn.disable");
    await devices.send("WebAuthn.enable");
    await addDevice();
    await page.goto(`${base}/auth/sign-in`);
    await click("Sign in with a passkey");
    await page.getByText("No passkey was used. Try again.").waitFor();
  });

  test("pages under another name than that of the passkeys, and without scripts, offer none", async () => {
    await page.goto(`${service.url}/auth/sign-in`);
    await page.getByLabel("Password").waitFor();
    expect(await page.getByRole("button", { name: "Sign in with a passkey" }).count()).toBe(0);
    const plain = await browser.newContext({ javaScriptEnabled: false });
    page = await plain.newPage();
    await signIn();
    await page.goto(`${base}/auth/account/passkeys`);
    await press("Continue");
    expect(await page.getByText("This browser creates no passkeys here").isVisible()).toBe(true);
    await plain.close();
  });

  test("every page of passkeys is accessible, light and dark, on a phone and on a desktop", async () => {
    const check = async (name: string) => expect([name, await faultsAtEachSize(page)]).toEqual([name, []]);
    await page.goto(`${base}/auth/sign-in`);
    await check("sign-in");
    await signIn();
    await page.goto(`${base}/auth/account/passkeys`);
    await check("new");
    await press("Continue");
    await page.getByRole("button", { name: "Create the passkey" }).waitFor();
    expect(await page.getByText("This browser creates no passkeys here").isVisible()).toBe(false);
    await check("create");
    await addPasskey("My laptop");
    await check("account");
    await page.getByRole("link", { name: "Rename My laptop" }).click();
    await check("rename");
    await page.goto(`${base}/auth/account`);
    await page.getByRole("link", { name: "Remove My laptop" }).click();
    await check("remove");
    await signOut();
    await signIn();
    await check("one more step");
  });
});

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { faultsAtEachSize } from "../support/axe.ts";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { linkIn, type MailServer, startMailServer } from "../support/mail-server.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { appCode } from "../support/totp.ts";

const PASSWORD = "Correct-Horse-7!";
const OTHER = "Another-Horse-9?";

const installed = hasBrowser("the pages for accounts");

let service: TestService;
let mails: MailServer;
let browser: Browser;
/** Pages run no script: everything works without. */
let context: BrowserContext;
let page: Page;
/** Browsers accept the cookie, which is Secure, from localhost without TLS. */
let base: string;

beforeAll(async () => {
  if (!installed) return;
  mails = await startMailServer(undefined, () => {});
  [service, browser] = await Promise.all([
    startTestService({ ...mails.settings, EMAIL_CONFIRM: "required", recentSignIn: 600, GRAPHQL_DOCUMENTS: "none" }),
    sharedBrowser(),
  ]);
  base = service.url.replace("127.0.0.1", "localhost");
});
afterAll(async () => {
  await closePages();
  await service?.stop();
  await mails?.close();
});
beforeEach(async () => {
  context = await browser?.newContext({ javaScriptEnabled: false });
  page = await context?.newPage();
});
afterEach(() => context?.close());

const title = () => page.innerText("h1");
/** Fills in the fields of the form by their labels, and sends it. */
async function send(fields: Readonly<Record<string, string>>, button: string): Promise<void> {
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value);
  await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: button, exact: true }).click()]);
}
/** Opens the link of the next e-mail: its URL begins with that of the service, which is not localhost here. */
async function openLink(address: string, subject: RegExp): Promise<string> {
  const url = linkIn(await mails.next(address, subject)).url.replace("127.0.0.1", "localhost");
  await page.goto(url);
  return url;
}
const signIn = async (username: string, password = PASSWORD) => {
  await page.goto(`${base}/auth/sign-in`);
  await send({ "E-mail or username": username, Password: password }, "Sign in");
};

let count = 0;
async function newUser(): Promise<string> {
  const email = `gina${++count}@test.example`;
  await page.goto(`${base}/auth/sign-up`);
  await send({ Name: "Gina", "E-mail": email, Password: PASSWORD }, "Create the account");
  expect(await title()).toBe("Check your e-mail");
  await openLink(email, /^Confirm/);
  await send({}, "Confirm");
  expect(await title()).toBe("Your e-mail is confirmed");
  return email;
}

const invite = (email: string) =>
  fetch(`${service.url}/auth/invitations`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${service.service.tokens.issueKey("service_role")}`,
    },
    body: JSON.stringify({ email }),
  });

describe.skipIf(!installed)("in a browser without scripts", () => {
  test("the link of a confirmation asks another browser for the password, or for a new one", async () => {
    const email = `gina${++count}@test.example`;
    await page.goto(`${base}/auth/sign-up`);
    await send({ Name: "Gina", "E-mail": email, Password: PASSWORD }, "Create the account");
    await context.clearCookies();
    await openLink(email, /^Confirm/);
    await send({}, "Confirm");
    expect(await page.locator("#password-fault").innerText()).toMatch(/is required/);
    await send({ "Password of the account": "wrong" }, "Confirm");
    expect(await page.locator("#password-fault").innerText()).toMatch(/not the one of the account/);
    await send({ "New password": "short" }, "Confirm");
    expect(await page.locator("#newPassword-fault").innerText()).toMatch(/at least 12 characters/);
    await send({ "Password of the account": PASSWORD }, "Confirm");
    expect(await title()).toBe("Your e-mail is confirmed");
    await signIn(email);
    expect(await title()).toBe("Your account");

    // Of another person.
    const other = `gina${++count}@test.example`;
    await context.clearCookies();
    await page.goto(`${base}/auth/sign-up`);
    await send({ Name: "Gina", "E-mail": other, Password: PASSWORD }, "Create the account");
    await context.clearCookies();
    await openLink(other, /^Confirm/);
    await send({ "New password": OTHER }, "Confirm");
    expect(await title()).toBe("Your e-mail is confirmed");
    await signIn(other);
    expect(await page.getByRole("alert").innerText()).toMatch(/password is wrong/);
    await signIn(other, OTHER);
    expect(await title()).toBe("Your account");
  });

  test("a user signs up, confirms the e-mail, signs in, and changes the e-mail and the password", async () => {
    const email = await newUser();
    await page.getByRole("link", { name: "Sign in" }).click();
    await send({ "E-mail or username": email, Password: "wrong" }, "Sign in");
    expect(await page.getByRole("alert").innerText()).toMatch(/^The username or the password is wrong/);
    // The name stays, and the password is what the user enters again.
    expect(await page.getByLabel("E-mail or username").inputValue()).toBe(email);
    expect(await page.locator(":focus").getAttribute("name")).toBe("password");
    await send({ Password: PASSWORD }, "Sign in");
    expect([new URL(page.url()).pathname, await title()]).toEqual(["/auth/account", "Your account"]);

    await page.goto(`${base}/auth/account/e-mail`);
    await send({ "New e-mail": "gina@test" }, "Change the e-mail");
    expect(await page.locator("#email-fault").innerText()).toBe("New e-mail must be a valid address.");
    await send({ "New e-mail": `new${email}` }, "Change the e-mail");
    const status = await page.getByRole("status").innerText();
    expect(status).toBe(`An e-mail is on its way to new${email}. Its link changes your e-mail.`);
    // Shown once.
    await page.reload();
    expect(await page.getByRole("status").count()).toBe(0);
    await openLink(`new${email}`, /^Confirm/);
    await send({}, "Confirm");
    expect(await title()).toBe("Your e-mail is confirmed");

    await page.goto(`${base}/auth/account/password`);
    await send({ "Current password": "wrong", "New password": OTHER }, "Change your password");
    expect(await page.getByRole("alert").innerText()).toBe("The old password is wrong.");
    await send({ "Current password": PASSWORD, "New password": "short" }, "Change your password");
    expect(await page.locator("#newPassword-fault").innerText()).toMatch(
      /^New password must have at least 12 characters/,
    );
    await send({ "Current password": PASSWORD, "New password": OTHER }, "Change your password");
    expect(await page.getByRole("status").innerText()).toMatch(/^The password is changed/);

    await openLink(email, /change|e-mail/i);
    await send({}, "Undo the change");
    expect(await title()).toBe("The change is undone");
    await page.goto(`${base}/auth/account`);
    expect(await page.getByRole("alert").innerText()).toBe("Your session has ended. Sign in again.");
  });

  test("a user who has forgotten the password gets an e-mail, whose link sets another one and ends all sign-ins", async () => {
    const email = await newUser();
    await signIn(email);
    const other = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
    await other.goto(`${base}/auth/forgot-password`);
    await other.getByLabel("E-mail").fill(email);
    await other.getByRole("button", { name: "Send the e-mail" }).click();
    expect(await other.innerText("h1")).toBe("Check your e-mail");
    await other.context().close();
    const url = await openLink(email, /^Reset/);
    await send({ "New password": "short" }, "Set the password");
    expect(await page.locator("#password-fault").innerText()).toMatch(/^New password must have/);
    await send({ "New password": OTHER }, "Set the password");
    expect(await title()).toBe("Your password is changed");
    await page.goto(url);
    expect(await title()).toBe("This link does not work");
    await page.getByRole("link", { name: "Go to the sign-in" }).click();
    await send({ "E-mail or username": email, Password: OTHER }, "Sign in");
    expect(await title()).toBe("Your account");
  });

  test("a user sets up a second factor, signs in with it, renews the backup codes, and removes it", async () => {
    const email = await newUser();
    await signIn(email);
    await page.goto(`${base}/auth/account/second-factor`);
    await send({}, "Continue");
    const secret = (await page.locator(".secret").innerText()).replace(/\s/g, "");
    await send({ "Code of the app": "000000" }, "Turn on the second factor");
    expect(await page.locator("#code-fault").innerText()).toBe("Wrong code.");
    expect((await page.locator(".secret").innerText()).replace(/\s/g, "")).toBe(secret);
    await send({ "Code of the app": appCode(secret, Date.now()) }, "Turn on the second factor");
    const codes = await page.locator(".secrets code").allInnerTexts();
    expect(codes).toHaveLength(10);

    await page.getByRole("button", { name: "Sign out", exact: true }).first().click();
    expect(await title()).toBe("You are signed out");
    await signIn(email);
    expect(await title()).toBe("One more step");
    await send({ Code: "ABCDEFGH" }, "Sign in");
    expect(await page.locator("#code-fault").innerText()).toBe("Wrong code.");
    await send({ Code: codes[0]! }, "Sign in");
    expect(await title()).toBe("Your account");

    await page.goto(`${base}/auth/account/backup-codes`);
    await send(
      { "Your password": PASSWORD, "Code of your authenticator app, or a backup code": codes[1]! },
      "Renew the codes",
    );
    const renewed = await page.locator(".secrets code").allInnerTexts();
    expect(renewed).not.toEqual(codes);
    await page.getByRole("link", { name: "Remove Authenticator app" }).click();
    const confirmation = { "Your password": PASSWORD, "Code of your authenticator app, or a backup code": renewed[0]! };
    await send(confirmation, "Remove it");
    expect(await page.getByRole("status").innerText()).toBe("“Authenticator app” is removed.");
    expect(await page.getByRole("link", { name: "Set up an app" }).isVisible()).toBe(true);
    await send({}, "Sign out");
    await signIn(email);
    expect(await title()).toBe("Your account");
  });

  test("a user has several apps with names, each of which signs in until it is removed", async () => {
    const email = await newUser();
    await signIn(email);
    /** Continues from the page that begins to add an app, and returns the secret of it. */
    const addApp = async (fields: Readonly<Record<string, string>>, button: string) => {
      await send(fields, "Continue");
      const secret = (await page.locator(".secret").innerText()).replace(/\s/g, "");
      await send({ "Code of the app": "000000" }, button);
      expect(await page.locator("#code-fault").innerText()).toBe("Wrong code.");
      await send({ "Code of the app": appCode(secret, Date.now()) }, button);
      return secret;
    };
    await page.goto(`${base}/auth/account/second-factor`);
    await addApp({}, "Turn on the second factor");
    const codes = await page.locator(".secrets code").allInnerTexts();
    await page.getByRole("link", { name: "Add another app" }).click();
    const tablet = await addApp({ "Name of the app": "My <tablet>" }, "Add the app");
    expect(await page.getByRole("status").innerText()).toBe("The app is added.");
    await page.getByRole("link", { name: "Add another app" }).click();
    await send({ "Name of the app": "My <tablet>" }, "Continue");
    expect(await page.getByRole("alert").innerText()).toMatch(/name/i);

    await page.goto(`${base}/auth/account`);
    await send({}, "Sign out");
    await signIn(email);
    await send({ Code: appCode(tablet, Date.now() + 30_000) }, "Sign in");
    expect(await title()).toBe("Your account");

    await page.getByRole("link", { name: "Remove My <tablet>" }).click();
    await send(
      { "Your password": PASSWORD, "Code of your authenticator app, or a backup code": codes[0]! },
      "Remove it",
    );
    expect(await page.getByRole("status").innerText()).toBe("“My <tablet>” is removed.");
    expect(await page.locator(".badge.good", { hasText: /^on$/ }).count()).toBe(1);
    await send({}, "Sign out");
    await signIn(email);
    await send({ Code: appCode(tablet, Date.now() + 30_000) }, "Sign in");
    expect(await page.locator("#code-fault").innerText()).toBe("Wrong code.");
    await send({ Code: codes[1]! }, "Sign in");
    expect(await title()).toBe("Your account");
  });

  test("a user creates and revokes an API key, and ends another sign-in", async () => {
    const email = await newUser();
    await signIn(email);
    await fetch(`${service.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "curl/8" },
      body: JSON.stringify({ username: email, password: PASSWORD }),
    });
    await page.goto(`${base}/auth/account/keys`);
    await send({ "What is it for?": "the build" }, "Create the key");
    const key = await page.locator(".secrets code").innerText();
    const reads = async () => (await fetch(`${service.url}/auth/me`, { headers: { "x-api-key": key } })).status;
    expect(await reads()).toBe(200);
    await send({}, "Revoke the build");
    expect([await page.getByRole("status").innerText(), await reads()]).toEqual(["The API key is revoked.", 401]);
    await send({}, "Sign out curl");
    expect(await page.getByRole("status").innerText()).toBe("That sign-in has ended.");
    expect(await page.locator(".items li").count()).toBe(1);
  });

  test("an invited user creates an account and is signed in, and signs in without a password later", async () => {
    const email = "invited@test.example";
    await invite(email);
    await openLink(email, /invit|account/i);
    await send({ Name: "Ivy", Password: PASSWORD }, "Create the account");
    expect(await title()).toBe("Your account");
    await send({}, "Sign out");
    await page.goto(`${base}/auth/sign-in/e-mail`);
    await send({ "E-mail": email }, "Send the e-mail");
    await openLink(email, /sign in/i);
    await send({}, "Sign in");
    expect(await title()).toBe("Your account");
  });

  test("the code of the e-mail signs the user in where the e-mail was requested, and five wrong ones end it", async () => {
    const email = await newUser();
    const request = async () => {
      await page.goto(`${base}/auth/sign-in/e-mail?return_to=/auth/account/password`);
      await send({ "E-mail": email }, "Send the e-mail");
      expect(await title()).toBe("Check your e-mail");
      return /^(\d{6})$/m.exec((await mails.next(email, /sign in/i)).text)![1]!;
    };
    const code = await request();
    await send({ "Code of the e-mail": "12345" }, "Sign in");
    expect(await page.locator("#code-fault").innerText()).toMatch(/6 digits of the e-mail/);
    const wrong = code === "000000" ? "000001" : "000000";
    await send({ "Code of the e-mail": wrong }, "Sign in");
    expect(await page.getByRole("alert").innerText()).toMatch(/^The code is wrong, expired or used/);
    await send({ "Code of the e-mail": `${code.slice(0, 3)} ${code.slice(3)}` }, "Sign in");
    expect(await title()).toBe("Change your password");
    await page.goto(`${base}/auth/account`);
    await send({}, "Sign out");

    const other = await request();
    const guess = other === "000000" ? "000001" : "000000";
    for (let i = 0; i < 5; i++) await send({ "Code of the e-mail": guess }, "Sign in");
    await send({ "Code of the e-mail": other }, "Sign in");
    expect(await page.getByRole("alert").innerText()).toMatch(/^The code is wrong|^Too many/i);
    await page.goto(`${base}/auth/sign-in/e-mail/code?to=cut`);
    expect(await title()).toBe("Sign in without a password");
  });

  test("a link from another site to the account opens it, although browsers do not send the cookie with it", async () => {
    await signIn("ada");
    await page.goto("about:blank");
    const other = await context.newPage();
    await other.route("http://other.test/", (route) =>
      route.fulfill({ contentType: "text/html", body: `<a href="${base}/auth/account">Account</a>` }),
    );
    await other.goto("http://other.test/");
    await other.getByRole("link").click();
    await other.getByRole("heading", { name: "Your account" }).waitFor();
  });
});

describe.skipIf(!installed)("what a page leads to", () => {
  /** Looks at pages with scripts on: `check` demands that the present page is accessible and fits, and no page may violate a policy. */
  async function lookAt(visit: (check: (name: string) => Promise<void>) => Promise<void>): Promise<void> {
    const scripted = await browser.newContext();
    page = await scripted.newPage();
    const faults: string[] = [];
    page.on("console", (message) => {
      if (/Content.Security.Policy|autocomplete|\[DOM\]/i.test(message.text())) faults.push(message.text());
    });
    page.on("pageerror", (error) => faults.push(error.message));
    await visit(async (name) => expect([name, await faultsAtEachSize(page)]).toEqual([name, []]));
    expect(faults).toEqual([]);
    await scripted.close();
  }

  test("is accessible, light and dark, fits on a phone and on a desktop, also after a mistake, and violates no policy", () =>
    lookAt(async (check) => {
      await signIn("bob");
      await page.goto(`${base}/auth/sign-in/e-mail`);
      await send({ "E-mail": "stranger@test.example" }, "Send the e-mail");
      await check("the code of an e-mail");
      await page.goto(`${base}/auth/account/password`);
      await send({ "Current password": "x", "New password": "short" }, "Change your password");
      await check("a mistake in a field");
      await page.goto(`${base}/auth/sign-in`);
      await send({ "E-mail or username": "nobody", Password: "wrong" }, "Sign in");
      await check("a mistake");
      await page.goto(`${base}/auth/account/second-factor`);
      await send({}, "Continue");
      await check("the secret");
    }));

  test("with the link of an e-mail is so too: to confirm, sign in, reset, undo a change and accept an invitation", () =>
    lookAt(async (check) => {
      const email = `gina${++count}@test.example`;
      await page.goto(`${base}/auth/sign-up`);
      await send({ Name: "Gina", "E-mail": email, Password: PASSWORD }, "Create the account");
      const link = await openLink(email, /^Confirm/);
      await check("confirm");
      const cookies = await context.cookies();
      await context.clearCookies();
      await page.goto(link);
      await check("confirm in another browser");
      await context.addCookies(cookies);
      await page.goto(link);
      await send({}, "Confirm");
      await page.goto(`${base}/auth/sign-in/e-mail`);
      await send({ "E-mail": email }, "Send the e-mail");
      await openLink(email, /sign in/i);
      await check("sign in");
      await page.goto(`${base}/auth/forgot-password`);
      await send({ "E-mail": email }, "Send the e-mail");
      await openLink(email, /^Reset/);
      await check("reset");
      await send({ "New password": "short" }, "Set the password");
      await check("reset, after a mistake");
      await invite(`to${email}`);
      await openLink(`to${email}`, /invit|account/i);
      await check("invitation");
      await signIn(email);
      await page.goto(`${base}/auth/account/e-mail`);
      await send({ "New e-mail": `new${email}` }, "Change the e-mail");
      await openLink(`new${email}`, /^Confirm/);
      await check("confirm another e-mail");
      await send({}, "Confirm");
      await openLink(email, /change|e-mail/i);
      await check("undo");
    }));
});

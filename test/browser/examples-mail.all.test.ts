import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { Examples } from "../support/examples.ts";
import { linkIn, type MailServer, startMailServer } from "../support/mail-server.ts";
import { startTestService, type TestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const OTHER = "Another-Horse-9?";

const installed = hasBrowser("the e-mails of the example pages");

let service: TestService;
let mails: MailServer;
let examples: Examples;
let browser: Browser;
beforeAll(async () => {
  if (!installed) return;
  mails = await startMailServer(undefined, () => {});
  [service, browser, examples] = await Promise.all([
    startTestService({ ...mails.settings, EMAIL_CONFIRM: "required" }),
    sharedBrowser(),
    Examples.build(),
  ]);
  await examples.serve(service.url);
  return async () => {
    await closePages();
    await examples.close();
    await service.stop();
    await mails.close();
  };
}, 120_000);

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

/** Opens the form, fills in the fields with these labels, and sends it. */
async function send(page: Page, label: string, values: Readonly<Record<string, string>>): Promise<void> {
  const form = page.getByRole("form", { name: label });
  if ((await form.count()) === 0 || !(await form.isVisible())) await button(page, label).click();
  for (const [field, value] of Object.entries(values)) await form.getByLabel(field).fill(value);
  await form.getByRole("button").first().click();
}

/** Opens the link of the next e-mail, fills in the form of the page, and sends it. */
async function useLink(email: string, values: Readonly<Record<string, string>>): Promise<string> {
  const page = await browser.newPage();
  await page.goto(linkIn(await mails.next(email)).url);
  for (const [field, value] of Object.entries(values)) await page.getByLabel(field).fill(value);
  await Promise.all([page.waitForEvent("load"), page.locator("main form button").click()]);
  const title = await page.innerText("h1");
  await page.close();
  return title;
}

/** Invites a user, who accepts. */
async function invite(email: string): Promise<void> {
  const authorization = `Bearer ${service.service.tokens.issueKey("service_role")}`;
  const headers = { "content-type": "application/json", authorization };
  await fetch(`${service.url}/auth/invitations`, { method: "POST", headers, body: JSON.stringify({ email }) });
  await useLink(email, { Name: "Ivy", Password: PASSWORD });
}

/** Signs in on the page and out again. */
async function signsIn(page: Page, email: string, password: string, name: string): Promise<void> {
  await send(page, "Sign in", { Username: email, Password: password });
  await expect.poll(() => page.locator("strong").first().innerText()).toBe(name);
  await button(page, "Sign out").click();
  await button(page, "Sign in").waitFor();
}

describe.skipIf(!installed).each(["plain", "apollo", "urql"])("the example page in demo/pages/%s", (folder) => {
  test("registers a user, who confirms the e-mail, signs in, and chooses a new password with the link of an e-mail", async () => {
    const page = await browser.newPage();
    page.setDefaultTimeout(120_000);
    onTestFinished(() => page.close());
    await page.goto(examples.urlOf(folder));
    const email = `hedy@${folder}.example`;
    await send(page, "Register", { Name: "Hedy", "E-mail": email, Password: PASSWORD });
    const said = page.getByRole("dialog", { name: "Register" }).getByRole("status");
    await expect.poll(() => said.innerText()).toMatch(/e-mail/i);
    expect(await page.evaluate("localStorage.getItem('session')")).toBeNull();
    await page.keyboard.press("Escape");
    expect(await useLink(email, { "Password of the registration": PASSWORD })).toBe("Your e-mail is confirmed");
    await signsIn(page, email, PASSWORD, "Hedy");

    await button(page, "Sign in").click();
    await button(page, "Forgot your password?").click();
    await send(page, "Reset your password", { "E-mail": email });
    await page.getByText("You will get an e-mail with a link").waitFor();
    await page.keyboard.press("Escape");
    expect(await useLink(email, { "New password": OTHER })).toBe("Your password is changed");
    await signsIn(page, email, OTHER, "Hedy");
  });

  test("signs in a user who has accepted an invitation", async () => {
    const email = `ivy@${folder}.example`;
    await invite(email);
    const page = await browser.newPage();
    page.setDefaultTimeout(120_000);
    onTestFinished(() => page.close());
    await page.goto(examples.urlOf(folder));
    await signsIn(page, email, PASSWORD, "Ivy");
  });
});

test.skipIf(!installed)(
  "the example page with the cookie leads to the pages of the service to register and to reset a password, and back",
  async () => {
    const page = await browser.newPage();
    page.setDefaultTimeout(120_000);
    onTestFinished(() => page.close());
    const url = examples.urlOf("cookie").replace("127.0.0.1", "localhost");
    await page.goto(url);
    const email = "hedy@cookie.example";
    await page.getByRole("link", { name: "Create an account" }).click();
    for (const [label, value] of Object.entries({ Name: "Hedy", "E-mail": email, Password: PASSWORD }))
      await page.getByLabel(label).fill(value);
    await button(page, "Create the account").click();
    await page.getByRole("heading", { name: "Check your e-mail" }).waitFor();
    expect(new URL(page.url()).origin).toBe(new URL(url).origin);
    expect(await useLink(email, { "Password of the registration": PASSWORD })).toBe("Your e-mail is confirmed");

    await page.goto(url);
    await page.getByRole("link", { name: "Forgot your password?" }).click();
    await page.getByLabel("E-mail").fill(email);
    await button(page, "Send the e-mail").click();
    await page.getByRole("heading", { name: "Check your e-mail" }).waitFor();
    expect(await useLink(email, { "New password": OTHER })).toBe("Your password is changed");
    await invite("ivy@cookie.example");

    for (const [address, password, name] of [
      [email, OTHER, "Hedy"],
      ["ivy@cookie.example", PASSWORD, "Ivy"],
    ] as const) {
      await page.goto(url);
      await signsIn(page, address, password, name);
    }
  },
);

import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import { hasBrowser } from "../support/browser.ts";
import { button, newPage, openPage, send, useExamples } from "../support/examples.ts";
import { linkIn, type MailServer, startMailServer } from "../support/mail-server.ts";
import { startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const PASSWORD = "Correct-Horse-7!";
const OTHER = "Another-Horse-9?";

const installed = hasBrowser("the e-mails of the example pages");
let mails: MailServer | undefined;
const used = useExamples(installed, async () => {
  mails = await startMailServer(undefined, () => {});
  return startTestService({ ...mails.settings, EMAIL_CONFIRM: "required" });
});
afterAll(() => mails?.close());

/** Opens the form, fills in the fields with these labels, and sends it. */
async function sendForm(page: Page, label: string, values: Readonly<Record<string, string>>): Promise<void> {
  const form = page.getByRole("form", { name: label });
  if (!(await form.isVisible())) await button(page, label).click();
  await send(form, values);
}

/** Opens the link of the next e-mail, fills in the form of the page, and sends it. */
async function useLink(email: string, values: Readonly<Record<string, string>>): Promise<string> {
  const page = await newPage(used);
  await page.goto(linkIn(await mails!.next(email)).url);
  for (const [field, value] of Object.entries(values)) await page.getByLabel(field).fill(value);
  await Promise.all([page.waitForEvent("load"), page.locator("main form button").first().click()]);
  return page.innerText("h1");
}

/** Invites a user, who accepts. */
async function invite(email: string): Promise<void> {
  const authorization = `Bearer ${used.service.service.tokens.issueKey("service_role")}`;
  const headers = { "content-type": "application/json", authorization };
  await fetch(`${used.service.url}/auth/invitations`, { method: "POST", headers, body: JSON.stringify({ email }) });
  await useLink(email, { Name: "Ivy", Password: PASSWORD });
}

/** Signs in on the page and out again. */
async function signsIn(page: Page, email: string, password: string, name: string): Promise<void> {
  await sendForm(page, "Sign in", { Username: email, Password: password });
  await expect.poll(() => page.locator("strong").first().innerText(), POLL).toBe(name);
  await button(page, "Sign out").click();
  await button(page, "Sign in").waitFor();
}

describe.skipIf(!installed).each(["plain", "apollo"])("the example page in demo/pages/%s", (folder) => {
  test("registers a user, who confirms the e-mail, signs in, and chooses a new password with the link of an e-mail", async () => {
    const page = await openPage(used, folder);
    const email = `hedy@${folder}.example`;
    await sendForm(page, "Register", { Name: "Hedy", "E-mail": email, Password: PASSWORD });
    const said = page.getByRole("dialog", { name: "Register" }).getByRole("status");
    await expect.poll(() => said.innerText(), POLL).toMatch(/e-mail/i);
    expect(await page.evaluate("localStorage.getItem('session')")).toBeNull();
    await page.keyboard.press("Escape");
    expect(await useLink(email, { "Password of the account": PASSWORD })).toBe("Your e-mail is confirmed");
    await signsIn(page, email, PASSWORD, "Hedy");

    await button(page, "Sign in").click();
    await button(page, "Forgot your password?").click();
    await sendForm(page, "Reset your password", { "E-mail": email });
    await page.getByText("You will get an e-mail with a link").waitFor();
    await page.keyboard.press("Escape");
    expect(await useLink(email, { "New password": OTHER })).toBe("Your password is changed");
    await signsIn(page, email, OTHER, "Hedy");
  });
});

test.skipIf(!installed)(
  "the example page with the cookie leads to the pages of the service to register and to reset a password, and back",
  async () => {
    const page = await newPage(used);
    const url = used.urlOf("cookie").replace("127.0.0.1", "localhost");
    await page.goto(url);
    const email = "hedy@cookie.example";
    await page.getByRole("link", { name: "Create an account" }).click();
    for (const [label, value] of Object.entries({ Name: "Hedy", "E-mail": email, Password: PASSWORD }))
      await page.getByLabel(label).fill(value);
    await button(page, "Create the account").click();
    await page.getByRole("heading", { name: "Check your e-mail" }).waitFor();
    expect(new URL(page.url()).origin).toBe(new URL(url).origin);
    expect(await useLink(email, { "Password of the account": PASSWORD })).toBe("Your e-mail is confirmed");

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

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { startTestService } from "../support/service.ts";

const LIBRARY = readFileSync("node_modules/@supabase/supabase-js/dist/umd/supabase.js");
const mails = await startMailServer();

/** The page of an application, with supabase-js as it is: it writes what it hears of the session. */
const pageOf = (url: string, key: string) => `<!doctype html><title>App</title><p role="status"></p>
<script src="/supabase.js"></script>
<script>
  const flowType = location.pathname.slice(1);
  const client = supabase.createClient(${JSON.stringify(url)}, ${JSON.stringify(key)}, { auth: { flowType } });
  client.auth.onAuthStateChange((event, session) => {
    document.querySelector("p").textContent += event + " " + (session ? session.user.email : "-") + "; ";
  });
</script>`;

test.runIf(hasBrowser("the links of e-mails")).each(["pkce", "implicit"])(
  "in Chromium, the link of an e-mail signs the page of an application in, with the flow %s",
  async (flow) => {
    let html = "";
    const front = createServer((request, response) => {
      const isLibrary = request.url === "/supabase.js";
      response.setHeader("content-type", isLibrary ? "text/javascript" : "text/html").end(isLibrary ? LIBRARY : html);
    }).listen(0, "127.0.0.1");
    await once(front, "listening");
    onTestFinished(() => void front.close());
    onTestFinished(() => front.closeAllConnections());
    const app = `http://localhost:${(front.address() as AddressInfo).port}`;
    const [service, browser] = await Promise.all([
      startTestService({ ...mails.settings, AUTH_RETURN_ORIGINS: app }),
      sharedBrowser(),
    ]);
    onTestFinished(() => service.stop());
    onTestFinished(closePages);
    html = pageOf(service.url, service.service.tokens.issueKey("anon"));

    const page = await browser.newPage();
    const email = `${flow}@browser.example`;
    const heard = (text: string) => page.getByText(text).waitFor();
    const ask = (request: string) => page.evaluate(`${request}.then(({ error }) => error && error.message)`);
    const follow = async (subject: RegExp, button: string) => {
      await page.goto(linkIn(await mails.next(email, subject)).url);
      await page.getByRole("button", { name: button, exact: true }).click();
    };
    await page.goto(`${app}/${flow}`);
    await heard("INITIAL_SESSION -");
    const to = `"${app}/${flow}"`;
    expect(
      await ask(`client.auth.signInWithOtp({ email: "${email}", options: { emailRedirectTo: ${to} } })`),
    ).toBeNull();
    await follow(/^Sign in/, "Sign in");
    await heard(`SIGNED_IN ${email}`);
    // Neither tokens nor a code stay in the URL, and a reload keeps the session.
    await expect.poll(() => page.url().replace(/#$/, "")).toBe(`${app}/${flow}`);
    await page.reload();
    await heard(`INITIAL_SESSION ${email}`);

    expect(await ask("client.auth.signOut()")).toBeNull();
    expect(await ask(`client.auth.resetPasswordForEmail("${email}", { redirectTo: ${to} })`)).toBeNull();
    await follow(/^Reset/, "Continue");
    await heard(`PASSWORD_RECOVERY ${email}`);
    expect(await ask(`client.auth.updateUser({ password: "Another-Horse-8!" })`)).toBeNull();
    expect(await ask(`client.auth.signInWithPassword({ email: "${email}", password: "Another-Horse-8!" })`)).toBeNull();
  },
);

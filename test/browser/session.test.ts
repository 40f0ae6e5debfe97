import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService } from "../support/service.ts";

/** Signs in, uses the session with and without the token, and signs out: the status and the body of each response, by its request. */
const FLOW = `(async () => {
  const seen = {};
  async function ask(request, body, headers = {}) {
    const [method, url] = request.split(" ");
    const sent = { ...headers, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(url, { method, headers: sent, ...(body && { body: JSON.stringify(body) }) });
    const text = await response.text();
    seen[request] = [...(seen[request] ?? []), response.status];
    return text === "" ? null : JSON.parse(text);
  }
  const { username } = await ask("POST /api/auth/login", { username: "ada", password: "Correct-Horse-7!" });
  const { userId } = await ask("GET /api/auth/me");
  await ask("PATCH /users/1", { age: 37 });
  const { csrfToken } = await ask("GET /csrf-token");
  const { age } = await ask("PATCH /users/1", { age: 37 }, { "x-csrf-token": csrfToken });
  const read = [username, userId, age, document.cookie];
  return { seen, read, signOut: () => ask("POST /api/auth/logout") };
})()`;

test.skipIf(!hasBrowser("a session"))(
  "in a browser, a page of the service signs in, writes with the token and signs out, with a cookie that no script reads and no page of another site sends",
  async () => {
    const [service, browser] = await Promise.all([startTestService({ GRAPHQL_DOCUMENTS: "none" }), sharedBrowser()]);
    onTestFinished(() => service.stop());
    onTestFinished(closePages);
    // Browsers accept `Secure` cookies from localhost without TLS.
    const base = service.url.replace("127.0.0.1", "localhost");
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${base}/live`);
    const flow = await page.evaluateHandle<any>(FLOW);
    expect(await flow.evaluate(({ seen, read }) => ({ seen, read }))).toEqual({
      seen: {
        "POST /api/auth/login": [200],
        "GET /api/auth/me": [200],
        "PATCH /users/1": [403, 200],
        "GET /csrf-token": [200],
      },
      read: ["ada", 1, 37, ""],
    });
    const [cookie] = await context.cookies(base);
    expect(cookie).toMatchObject({ name: "SESSION", path: "/", domain: "localhost", httpOnly: true, secure: true });
    expect(cookie!.sameSite).toBe("Strict");
    expect(cookie!.expires - Date.now() / 1000).toBeLessThanOrEqual(1801);

    const other = createServer((_request, response) => response.setHeader("content-type", "text/html").end("<p>"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void other.close());
    // 127.0.0.1 and localhost are different sites.
    const foreign = await context.newPage();
    await foreign.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    const sent = foreign.waitForRequest(`${base}/api/auth/me`);
    const read = `fetch("${base}/api/auth/me", { credentials: "include" }).then(() => "read", () => "blocked")`;
    expect(await foreign.evaluate(read)).toBe("blocked");
    expect((await (await sent).allHeaders()).cookie).toBeUndefined();

    await flow.evaluate(({ signOut }) => signOut());
    expect(await flow.evaluate(({ seen }) => seen["POST /api/auth/logout"])).toEqual([200]);
    expect(await context.cookies(base)).toEqual([]);
  },
);

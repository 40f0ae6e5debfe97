import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { stripTypeScriptTypes } from "node:module";
import type { AddressInfo } from "node:net";
import type { Browser, CDPSession, Page } from "playwright-core";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { startTestService, type TestService } from "../support/service.ts";

const installed = hasBrowser("passkeys");

const LOGIN = { username: "ada", password: "Correct-Horse-7!" };
const EXAMPLE = stripTypeScriptTypes(readFileSync("demo/pages/live/passkeys.ts", "utf8")).replaceAll("export ", "");
const SUPABASE = readFileSync("node_modules/@supabase/supabase-js/dist/umd/supabase.js", "utf8");
const LIBRARY = readFileSync("node_modules/@simplewebauthn/browser/dist/bundle/index.umd.min.js", "utf8");

let service: TestService;
let browser: Browser;
let page: Page;
let devices: CDPSession;
/** A page of another origin that CORS_ORIGINS names: the same domain, another port. */
let neighbour: string;

beforeAll(async () => {
  if (!installed) return;
  const other = createServer((_request, response) =>
    response.setHeader("content-type", "text/html").end("<!doctype html>"),
  );
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  neighbour = `http://localhost:${(other.address() as AddressInfo).port}`;
  [service, browser] = await Promise.all([startTestService({ CORS_ORIGINS: neighbour }), sharedBrowser()]);
  return async () => {
    await closePages();
    other.close();
    await service.stop();
  };
});

/** A new browser with a phone or a laptop that verifies its user, or with another authenticator. */
async function open(options: object = {}): Promise<void> {
  await page?.context().close();
  page = await (await browser.newContext()).newPage();
  await page.goto(`${service.url.replace("127.0.0.1", "localhost")}/live`);
  devices = await page.context().newCDPSession(page);
  await devices.send("WebAuthn.enable");
  const built = { hasResidentKey: true, hasUserVerification: true, isUserVerified: true };
  await devices.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", automaticPresenceSimulation: true, ...built, ...options },
  });
}

/** What the script of a page returns. It has the functions of passkeys.ts. */
const run = (script: string): Promise<any> => page.evaluate(`(async () => { ${EXAMPLE}\n${script} })()`);
const signIn = () => run(`return send("POST", "/api/auth/login", ${JSON.stringify(LOGIN)})`);
const signOut = () => run(`return (await fetch("/api/auth/logout", { method: "POST" })).status`);
const whoAmI = () => run(`return (await (await fetch("/api/auth/me")).json()).username`);

describe.skipIf(!installed)("in Chromium with a virtual authenticator", () => {
  beforeEach(async () => {
    const { owner } = service.database;
    await owner.query("delete from auth_private.passkeys");
    await owner.query("delete from auth_private.backup_codes");
    await open();
    await signIn();
  }, 60_000);

  test("passkeys.ts adds a passkey, signs in with it, and uses it as a second factor", async () => {
    const backupCodes = await run(`return addPasskey("My laptop")`);
    expect(backupCodes).toHaveLength(10);
    expect(await whoAmI()).toBe("ada");
    expect(await signOut()).toBe(200);
    expect(await run("return signInWithPasskey()")).toMatchObject({ username: "ada" });
    expect(await whoAmI()).toBe("ada");
    await signOut();
    expect(await run(`return signInWithPassword("ada", "${LOGIN.password}")`)).toMatchObject({ username: "ada" });
    expect(
      (await service.database.owner.query("select aal from auth_private.sessions where cookie_hash is not null")).rows,
    ).toEqual([{ aal: 2 }]);
    expect(await run(`return addPasskey("Again").catch((error) => error.name)`)).toBe("InvalidStateError");
  });

  test("@simplewebauthn/browser adds a passkey and signs in with it", async () => {
    await page.evaluate(LIBRARY);
    const { id } = await run(`
      const { csrfToken } = await (await fetch("/csrf-token")).json();
      const headers = { "X-CSRF-Token": csrfToken };
      const optionsJSON = await send("POST", "/auth/passkeys/options", {}, headers);
      const credential = await SimpleWebAuthnBrowser.startRegistration({ optionsJSON });
      return send("POST", "/auth/passkeys", { credential }, headers);`);
    expect(id).toEqual(expect.any(String));
    await signOut();
    const signedIn = await run(`
      const optionsJSON = await send("POST", "/auth/passkeys/challenge", {});
      const passkey = await SimpleWebAuthnBrowser.startAuthentication({ optionsJSON });
      return send("POST", "/auth/login", { passkey });`);
    expect(signedIn).toMatchObject({ accessToken: expect.any(String), user: { username: "ada" } });
  });

  test("an authenticator that has not verified its user adds no passkey", async () => {
    await open({ isUserVerified: false });
    await signIn();
    expect(await run(`return addPasskey("x").catch((error) => error.name)`)).toBe("NotAllowedError");
    expect((await service.database.owner.query("select from auth_private.passkeys")).rows).toEqual([]);
  });

  test("a page of another origin in CORS_ORIGINS signs in with a passkey for tokens", async () => {
    await run(`return addPasskey("My laptop")`);
    const { origin } = new URL(page.url());
    await page.goto(neighbour);
    const signedIn = await page.evaluate(`(async () => {
      const json = { "Content-Type": "application/json" };
      const post = async (path, body) => (await fetch("${origin}" + path, { method: "POST", headers: json, body: JSON.stringify(body) })).json();
      const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await post("/auth/passkeys/challenge", {}));
      return post("/auth/login", { passkey: await navigator.credentials.get({ publicKey }) });
    })()`);
    expect(signedIn).toMatchObject({ accessToken: expect.any(String), user: { username: "ada" } });
  });

  /** A client of the released supabase-js, as `client`. Returns what the script returns. */
  const runSupabase = (script: string): Promise<any> =>
    page.evaluate(`(async () => {
      const client = supabase.createClient(location.origin, ${JSON.stringify(service.service.tokens.issueKey("anon"))});
      const done = ({ data, error }) => { if (error) throw error; return data; };
      const claims = () => client.auth.getSession().then(({ data }) => JSON.parse(atob(data.session.access_token.split(".")[1])));
      ${script}
    })()`);
  const ADA = `{ email: "ada@example.com", password: ${JSON.stringify(LOGIN.password)} }`;

  test("supabase.auth.mfa.webauthn registers a passkey as a factor, and authenticates with it", async () => {
    // The client asks for a security key unless the page says otherwise.
    await open({ transport: "usb" });
    await page.evaluate(SUPABASE);
    const registered = await runSupabase(`
      done(await client.auth.signInWithPassword(${ADA}));
      done(await client.auth.mfa.webauthn.register({ friendlyName: "Laptop" }));
      const { aal, amr } = await claims();
      const taken = await client.auth.mfa.webauthn.register({ friendlyName: "Laptop" });
      return { aal, method: amr[0].method, taken: taken.error.code, factors: done(await client.auth.mfa.listFactors()) };`);
    const factor = { factor_type: "webauthn", friendly_name: "Laptop", status: "verified" };
    expect(registered).toMatchObject({ aal: "aal2", method: "mfa/webauthn", taken: "mfa_factor_name_conflict" });
    expect(registered.factors.webauthn).toMatchObject([factor]);

    const authenticated = await runSupabase(`
      await client.auth.signOut();
      done(await client.auth.signInWithPassword(${ADA}));
      const before = await claims();
      const [factor] = done(await client.auth.mfa.listFactors()).webauthn;
      done(await client.auth.mfa.webauthn.authenticate({ factorId: factor.id }));
      const after = await claims();
      return { before: [before.aal, before.role], after: [after.aal, after.role, after.amr[0].method], id: factor.id };`);
    expect(authenticated).toMatchObject({
      before: ["aal1", "anon"],
      after: ["aal2", "authenticated", "mfa/webauthn"],
    });
    const removed = await runSupabase(`
      done(await client.auth.mfa.unenroll({ factorId: "${authenticated.id}" }));
      return done(await client.auth.mfa.listFactors()).all;`);
    expect(removed).toEqual([]);
  });

  test("supabase.auth.registerPasskey adds a passkey, and signInWithPasskey signs in with aal2", async () => {
    await page.evaluate(SUPABASE);
    const added = await runSupabase(`
      done(await client.auth.signInWithPassword(${ADA}));
      const passkey = done(await client.auth.registerPasskey());
      done(await client.auth.passkey.update({ passkeyId: passkey.id, friendlyName: "Phone" }));
      await client.auth.signOut();
      const { user } = done(await client.auth.signInWithPasskey());
      const { aal, role, amr } = await claims();
      return { email: user.email, aal, role, method: amr[0].method, list: done(await client.auth.passkey.list()), id: passkey.id };`);
    expect(added).toMatchObject({ email: "ada@example.com", aal: "aal2", role: "authenticated", method: "passkey" });
    expect(added.list).toEqual([
      { id: added.id, friendly_name: "Phone", created_at: expect.any(String), last_used_at: expect.any(String) },
    ]);
    const left = await runSupabase(`
      await client.auth.signInWithPasskey();
      done(await client.auth.passkey.delete({ passkeyId: "${added.id}" }));
      const refused = await client.auth.signInWithPasskey();
      return { list: done(await client.auth.passkey.list()), refused: refused.error.code };`);
    expect(left).toEqual({ list: [], refused: "webauthn_verification_failed" });
  });
});

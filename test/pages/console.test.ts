import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleClient, consoleClient, FORM, signIn, textOf } from "../support/console-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let operator: ConsoleClient;
let admin: ConsoleClient;
let key: string;
beforeAll(async () => {
  service = await startTestService({ CONSOLE: "on", ADVISOR: "on" });
  key = service.service.tokens.issueKey("service_role");
  operator = await consoleClient(service, key);
  admin = await consoleClient(service, service.token("admin"));
});
afterAll(() => service.stop());

const sql = (text: string) => service.database.owner.query(text);
const open = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${service.url}${path}`, { headers, redirect: "manual" });

describe("/console", () => {
  test("leads to the sign-in, and after it to the page that was requested", async () => {
    expect((await open("/console")).headers.get("location")).toBe("/console/access");
    const refused = await open("/console/access");
    expect([refused.status, refused.headers.get("location")]).toEqual([
      303,
      "/console/sign-in?next=%2Fconsole%2Faccess",
    ]);
    const form = await open(refused.headers.get("location")!);
    expect([form.status, await form.text()]).toEqual([
      200,
      expect.stringContaining(' name="next" value="/console/access"'),
    ]);
  });

  test("is for the service key and for administrators", async () => {
    expect(textOf(await operator.page("/access"))).toContain("Signed in as the service key.");
    expect(textOf(await admin.page("/access"))).toContain("Signed in as Administrator.");
    const { tokens } = service.service;
    for (const credential of [service.token("ada"), tokens.issueKey("anon"), tokens.issueRefresh("3"), `${key}x`, ""]) {
      const refused = await signIn(service.url, credential);
      expect([refused.status, refused.headers.get("set-cookie")]).toEqual([401, null]);
      expect(textOf(await refused.text())).toContain("neither a service key nor the access token of an administrator");
    }
  });

  test("keeps the credential in a cookie for the console alone, in which nothing else can read it", async () => {
    const cookie = (await signIn(service.url, key)).headers.get("set-cookie")!;
    expect(cookie).toMatch(/^console=[\w-]+; Path=\/console; HttpOnly; SameSite=Strict$/);
    expect(cookie).not.toContain(key.split(".")[2]);
    const [pair] = cookie.split(";");
    const changed = pair!.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
    expect((await open("/console/access", { cookie: pair! })).status).toBe(200);
    for (const wrong of [changed, "console=x", `console=${key}`])
      expect((await open("/console/access", { cookie: wrong })).status).toBe(303);
  });

  test("ends the sign-in with the credential", async () => {
    await sql("update auth_private.accounts set role = 'admin' where user_id = 2");
    const { rows } = await sql("select epoch from auth_private.accounts where user_id = 2");
    const bob = { id: "2", name: "Bob Kahn", role: "admin", permissions: [], epoch: Number(rows[0].epoch) };
    const { accessToken } = service.service.tokens.issuePair(bob);
    const cookie = (await signIn(service.url, accessToken)).headers.get("set-cookie")!.split(";")[0]!;
    const status = async () => (await open("/console/access", { cookie })).status;
    expect(await status()).toBe(200);
    await sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
    await expect.poll(status).toBe(303);
  });

  test("accepts forms only from its own pages", async () => {
    const cookie = (await signIn(service.url, key)).headers.get("set-cookie")!.split(";")[0]!;
    const signOut = (headers: Readonly<Record<string, string>>, body: string) =>
      fetch(`${service.url}/console/sign-out`, {
        method: "POST",
        headers: { ...FORM, cookie, ...headers },
        body,
        redirect: "manual",
      });
    expect((await signIn(service.url, key, { origin: "https://elsewhere.example" })).status).toBe(403);
    expect((await signOut({ "sec-fetch-site": "cross-site" }, "")).status).toBe(403);
    expect((await signOut({}, "csrf=wrong")).status).toBe(403);
    const csrf = / name="csrf" value="([^"]+)"/.exec(await (await open("/console/access", { cookie })).text())![1];
    const out = await signOut({}, `csrf=${csrf}`);
    expect([out.status, out.headers.get("set-cookie")]).toEqual([
      303,
      expect.stringMatching(/^console=; .*Max-Age=0$/),
    ]);
    expect((await signOut({ "content-type": "application/json" }, "{}")).status).toBe(415);
    expect((await signOut({}, `csrf=${"x".repeat(262_144)}`)).status).toBe(413);
  });

  test("is not stored by browsers, runs no inline script and loads nothing from elsewhere", async () => {
    const { headers } = await open("/console/sign-in");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("same-origin");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  });
});

describe("/console/access", () => {
  test("shows what a role may use: tables, columns, functions and policies", async () => {
    await sql(`
      create table public.notes (id bigint primary key, owner bigint, body text, internal text);
      alter table public.notes enable row level security;
      grant select (id, body), insert (body), delete on public.notes to anon;
      create policy "notes are <public>" on public.notes for select to anon using (body <> 'secret');
      create policy "only short ones" on public.notes as restrictive for insert to anon with check (length(body) < 9);`);
    await expect.poll(() => admin.page("/access?role=anon")).toContain("public.notes");
    const page = await admin.page("/access?role=anon&q=notes");
    expect(textOf(page)).toContain("public.notes by 2 policies id, body body – yes");
    expect(textOf(page)).toContain("public.notes notes are <public> select (body <> 'secret'::text)");
    expect(textOf(page)).toContain("public.notes only short ones restrictive insert (length(body) < 9)");
    expect(page).not.toContain("notes are <public>");
    expect(page).not.toContain("public.articles<");
    expect(textOf(await admin.page("/access?role=authenticated"))).toContain("public.publish_article(id bigint)");
    expect(textOf(await admin.page("/access?role=service_role"))).toContain(
      "Row-level security does not apply to service_role",
    );
    expect(textOf(await admin.page("/access?role=nothing&q=%3Cb%3E"))).toContain("No table.");
  });

  test("shows the findings of the advisor, each with its cure", async () => {
    await sql("create table public.rates (id bigint primary key); grant select on public.rates to anon");
    await expect
      .poll(() => admin.page("/access").then(textOf))
      .toContain("alter table public.rates enable row level security");
    expect(textOf(await admin.page("/access"))).toContain("table public.rates");
  });
});

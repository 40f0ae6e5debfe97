import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Role, Schema } from "../../../db/catalog/catalog.ts";
import { callerRoles } from "../../../db/catalog/exposure.ts";
import { parseMetrics } from "../../../parts/console/metrics-text.ts";
import { type ConsoleClient, consoleClient, FORM, signIn, textOf } from "../../support/console-client.ts";
import { createTestDatabase } from "../../support/database.ts";
import { DEMO } from "../../support/demo.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const SCHEMA = `
  create table public.members (team text, user_id bigint, primary key (team, user_id));
  create table public.plans (id bigint primary key, team text, body text, is_open boolean);
  insert into public.members values ('red', 1);
  insert into public.plans values (1, 'red', 'one', true), (2, 'blue', 'two', null), (3, 'red', 'three', false);
  alter table public.members enable row level security;
  alter table public.plans enable row level security;
  grant select on public.members to authenticated;
  grant select on public.members, public.plans to service_role;
  grant select, insert (id, body), update (body), delete on public.plans to authenticated;
  create policy "members see themselves" on public.members for select to authenticated using (user_id = (select auth.uid()));
  create policy "teams see their plans" on public.plans for select to authenticated
    using (exists (select from public.members as m where m.team = plans.team and m.user_id = (select auth.uid())));
  create policy "open plans change" on public.plans as restrictive for update to authenticated using (is_open);
  create policy "teams change their plans" on public.plans for update to authenticated using (team = 'red') with check (body <> 'one');
  create policy "teams delete their closed plans" on public.plans for delete to authenticated using (not is_open);
  create function public.waits() returns text language sql volatile set search_path = '' as
    $$ select pg_advisory_xact_lock(4711)::text || '<b>' $$;
  grant execute on function public.waits() to anon;
  create function public.claims() returns jsonb language sql stable set search_path = '' as $$ select auth.claims() $$;
  grant execute on function public.claims() to authenticated;`;

let service: TestService;
let operator: ConsoleClient;
let admin: ConsoleClient;
let key: string;
const logged: { readonly msg: string }[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(SCHEMA);
  const log = pino({ level: "info" }, { write: (line) => logged.push(JSON.parse(line)) });
  const links = [
    { name: "Reports <now>", url: "/reports?a=1&b=2" },
    { name: "Grafana", url: "https://grafana.example.com/" },
  ];
  const definition = { ...DEMO, config: { ...DEMO.config, console: { links } } };
  service = await startTestService({ PARTS: "+console", ADVISOR: "on" }, database, log, undefined, { definition });
  key = service.service.tokens.issueKey("service_role");
  operator = await consoleClient(service, key);
  admin = await consoleClient(service, service.token("admin"));
  // The schema is built with the first request, which would take its time from a trial.
  await service.gql("{ __typename }");
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

  test("shows operators the links of the application after its pages, and no one else", async () => {
    const text = await operator.page("/access");
    expect(text).toContain(
      '<nav aria-label="Application"><ul><li><a href="/reports?a=1&#38;b=2" rel="noopener">Reports &#60;now&#62;</a></li>' +
        '<li><a href="https://grafana.example.com/" rel="noopener">Grafana</a></li></ul></nav>',
    );
    expect(text.indexOf('aria-label="Console"')).toBeLessThan(text.indexOf('aria-label="Application"'));
    expect(await (await open("/console/sign-in")).text()).not.toContain("grafana.example.com");
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
    const changed = pair!.replace(/(?<=^console=.{20})./, (middle) => (middle === "A" ? "B" : "A"));
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
    await sql("update auth_private.accounts set role = 'authenticated', disabled_at = null where user_id = 2");
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
    await expect.poll(() => admin.page("/access?role=anon&q=notes").then(textOf)).toContain("by 2 policies");
    const page = await admin.page("/access?role=anon&q=notes");
    expect(textOf(page)).toContain("public.notes by 2 policies id, body body – yes");
    expect(textOf(page)).toContain("public.notes notes are <public> select (body <> 'secret'::text)");
    expect(textOf(page)).toContain("public.notes only short ones restrictive insert – (length(body) < 9)");
    expect(page).not.toContain("notes are <public>");
    expect(page).not.toContain("public.articles<");
    expect(textOf(await admin.page("/access?role=authenticated"))).toContain("public.publish_article(id bigint)");
    expect(textOf(await admin.page("/access?role=service_role"))).toContain(
      "Row-level security does not apply to service_role",
    );
    expect(textOf(await admin.page("/access?role=nothing&q=%3Cb%3E"))).toContain("No table.");
  });

  test("offers the roles that the logins of the service may become", () => {
    const roles = new Map(
      ["anon", "authenticator", "batch", "pg_monitor", "postgres"].map((name) => {
        const mayBecome = new Set([name, ...(name === "authenticator" ? ["anon"] : [])]);
        const role: Role = {
          name,
          mayBecome,
          inherits: new Set(),
          isSuperuser: name === "postgres",
          bypassesRowSecurity: false,
          settings: [],
        };
        return [name, role];
      }),
    );
    const schemas = new Map([["public", { tables: new Map([["batches", { owner: "batch" }]]) } as unknown as Schema]]);
    const names = (login: string) => callerRoles({ roles, schemas }, [login]).map(({ name }) => name);
    expect(names("authenticator")).toEqual(["anon"]);
    expect(names("postgres")).toEqual(["anon", "authenticator"]);
  });

  test("shows the findings of the advisor, each with its fix", async () => {
    await sql("create table public.rates (id bigint primary key); grant select on public.rates to anon");
    await expect
      .poll(() => admin.page("/access").then(textOf))
      .toContain("alter table public.rates enable row level security");
    expect(textOf(await admin.page("/access"))).toContain("table public.rates");
  });
});

describe("/console/try", () => {
  const ask = (fields: Readonly<Record<string, string>>, as = operator) => as.send("/try", fields).then(textOf);
  const rest = (path: string, more: Readonly<Record<string, string>> = {}) =>
    ask({ kind: "rest", method: "GET", path, ...more });
  const graphql = (operation: string, more: Readonly<Record<string, string>> = {}) =>
    ask({ kind: "graphql", operation, ...more });
  const countOf = async (title: string) =>
    (await sql(`select count(*)::integer as count from public.articles where title = '${title}'`)).rows[0].count;

  test("sends a request to a table, and shows rows, headers, SQL, plan and times", async () => {
    const page = await rest("/rest/v1/users?select=id,name&id=eq.1");
    expect(page).toContain("Response: 200 To the role anon");
    expect(page).toContain("1 row. id name 1 Ada Lovelace");
    expect(page).toContain("content-range: 0-0/*");
    expect(page).toMatch(/Part Begins after \(ms\) Takes \(ms\) jwt .* parse .* plan .* wait .* response/);
    expect(page).toMatch(/Transaction 1: [\d.]+ ms .*from "public"\."users".*\$1 = "1"/);
    expect(page).toMatch(/Plan, measured .*users_pkey on users .*actual time=.* Execution Time:/);
  });

  test("sends it as a user, by username, e-mail or id, or as a role with claims", async () => {
    const me = "/rest/v1/rpc/me?select=name";
    for (const user of ["ada", "ada@example.com", "1"])
      expect(await rest(me, { as: "user", user })).toContain("To user 1, Ada Lovelace, in the role authenticated");
    const claims = '{"permissions": ["publish"]}';
    expect(await rest("/rest/v1/rpc/claims", { as: "role", role: "authenticated", claims })).toContain(
      '"permissions": [ "publish" ]',
    );
    expect(await rest(me)).toContain("Response: 401");
    const operation = "query Me($yes: Boolean!) { me { name @include(if: $yes) } }";
    const page = await graphql(operation, { variables: '{"yes": true}', as: "user", user: "ada" });
    expect(page).toContain('"name": "Ada Lovelace"');
    expect(page).toMatch(/Transaction 1: [\d.]+ ms .*Plan, measured/);
    expect(await rest("/users/1?fields=name", { as: "user", user: "ada" })).toContain("Response: 200");
  });

  test("rolls changes back, unless they are kept", async () => {
    const body = JSON.stringify({ title: "tried at /rest/v1", content: "…" });
    const headers = "Prefer: return=representation";
    const insert = { method: "POST", body, headers, as: "user", user: "ada" };
    const page = await rest("/rest/v1/articles", insert);
    expect(page).toContain("Response: 201 To user 1");
    expect(page).toContain("The changes are rolled back.");
    expect(page).toMatch(/Plan, estimated .*Insert on articles/);
    const operation = `mutation { createArticle(input: { title: "tried at /graphql", content: "…" }) { success article { title } } }`;
    expect(await graphql(operation, { as: "user", user: "ada" })).toContain(
      '"success": true, "article": { "title": "tried at /graphql" }',
    );
    expect(await rest("/articles", { ...insert, body: body.replace("/rest/v1", "/articles") })).toContain(
      "Response: 201",
    );
    for (const title of ["tried at /rest/v1", "tried at /graphql", "tried at /articles"])
      expect(await countOf(title)).toBe(0);
    expect(await rest("/rest/v1/articles", { ...insert, keep: "on" })).toContain("The changes are kept.");
    expect(await countOf("tried at /rest/v1")).toBe(1);
    expect(logged.findLast(({ msg }) => msg === "the console has tried a request")).toMatchObject({
      operator: "the service key",
      caller: "user 1, Ada Lovelace, in the role authenticated",
      method: "POST",
      path: "/rest/v1/articles",
      keepsChanges: true,
    });
  });

  test("shows the error of the caller, with the statement", async () => {
    const page = await rest("/rest/v1/articles", { method: "POST", body: '{"title": "refused", "content": "…"}' });
    expect(page).toContain("Response: 401");
    expect(page).toMatch(/Transaction 1: failed .*insert into "public"\."articles"/);
    expect(await rest("/auth/login", { method: "POST", body: "{}", as: "user", user: "ada" })).toContain(
      "Response: 404",
    );
  });

  test("shows data as text, and no more than a page of it", async () => {
    await sql("insert into public.notes (id, body) select i, '<b>' || i || '</b>' from generate_series(1, 150) as i");
    const page = await operator.send("/try", {
      kind: "rest",
      method: "GET",
      path: "/rest/v1/notes?select=id,body&limit=150",
    });
    expect(page).not.toContain("<b>1</b>");
    expect(textOf(page)).toContain("150 rows, of which 100 are shown. id body 1 <b>1</b>");
  });

  test.each<[string, Record<string, string>]>([
    ["No user signs in as “zoe”", { as: "user", user: "zoe" }],
    ["The account of carol is disabled", { as: "user", user: "carol" }],
    ["Choose one of the roles", { as: "role", role: "postgres" }],
    ["The claims must be a JSON object", { as: "role", role: "anon", claims: "[1]" }],
    ["The claims must not have more than 8192 characters", { as: "role", role: "anon", claims: "9".repeat(8193) }],
    ["The path must begin with /", { path: "rest/v1" }],
    ["The path must begin with /", { path: `/${"x".repeat(8192)}` }],
    ["The method must be one of GET", { method: "TRACE" }],
    ["“no colon” is not a header", { headers: "no colon" }],
    ["At most 32 headers", { headers: "A: 1\n".repeat(33) }],
    ["The header Authorization is set by the caller", { headers: "Authorization: Bearer x" }],
    ["A task runs later", { method: "POST", headers: "Prefer: respond-async" }],
    ["A stream does not end", { headers: "Accept: text/event-stream" }],
    ["Only a sign-in sets the claim “auth_time”", { as: "role", role: "anon", claims: '{"auth_time": 1}' }],
    ["To act as a user, choose “a user”", { as: "role", role: "anon", claims: '{"sub": "1"}' }],
    ["The variables must be a JSON object", { kind: "graphql", operation: "{ me { id } }", variables: "{" }],
  ])("says what to correct: %s", async (message, fields) => {
    expect(await rest("/rest/v1/users", fields)).toContain(message);
  });

  test("lets an administrator use no role that policies do not restrict", async () => {
    const asService = { kind: "rest", method: "GET", path: "/rest/v1/notes", as: "role", role: "service_role" };
    expect(await ask(asService)).toContain("Response: 403");
    expect(await ask(asService, admin)).toContain(
      "Only the service key may use one that row-level security does not restrict.",
    );
    expect(await ask({ ...asService, as: "user", user: "ada" }, admin)).toContain("Response: 403");
  });
});

describe("/console/why", () => {
  const ask = (fields: Readonly<Record<string, string>>, as = operator) => as.send("/why", fields).then(textOf);
  test("names the policies that are false or null for the row, evaluated as the caller", async () => {
    const one = await ask({ table: "public.plans", key: "1", as: "user", user: "ada" });
    expect(one).toContain("What user 1, Ada Lovelace, in the role authenticated may do with this row");
    expect(one).toContain("read yes the grants and policies allow it");
    expect(one).toContain(
      "update no the policy “teams change their plans” is false for this row: (body <> 'one'::text)",
    );
    expect(one).toContain(
      "delete no the policy “teams delete their closed plans” is false for this row: (NOT is_open)",
    );
    expect(one).toContain(
      "insert no row-level security is on, and no policy lets authenticated write such a row by insert",
    );
    const two = await ask({ table: "public.plans", key: "2", as: "user", user: "ada" });
    expect(two).toContain("read no the policy “teams see their plans” is false for this row: (EXISTS");
    expect(two).toContain("the restrictive policy “open plans change” is null for this row: is_open");
    expect(await ask({ table: "public.plans", key: "1", as: "user", user: "bob" })).toContain(
      "read no the policy “teams see",
    );
  });

  test("agrees with what the caller can do", async () => {
    const bodies = { 1: "one", 2: "two", 3: "three" };
    for (const user of ["ada", "bob"]) {
      const as = { as: "user", user };
      for (const [key, body] of Object.entries(bodies)) {
        const path = `/rest/v1/plans?id=eq.${key}`;
        const request = { ...as, kind: "rest", path, headers: "Prefer: count=exact", body: JSON.stringify({ body }) };
        const count = async (method: string) =>
          /content-range: \S+\/1 /.test(await operator.send("/try", { ...request, method }).then(textOf))
            ? "yes"
            : "no";
        const done = [await count("GET"), await count("PATCH"), await count("DELETE")];
        const page = await ask({ table: "plans", key, ...as });
        const said = ["read", "update", "delete"].map((name) => new RegExp(` ${name} (yes|no) `).exec(page)?.[1]);
        expect([user, key, said]).toEqual([user, key, done]);
      }
    }
    const service = await ask({ table: "plans", key: "2", as: "role", role: "service_role" });
    expect(service).toContain("Row-level security does not apply here: the grants alone decide.");
  });

  test("names the grants that are missing", async () => {
    const page = await ask({ table: "public.plans", key: "1" });
    expect(page).toContain("anon has no SELECT on public.plans. If it should: grant select on public.plans to anon;");
    expect(page).toContain(
      "anon may not read the key (id), so it cannot name the row. If it should: grant select (id) on public.plans to anon;",
    );
    await sql("revoke select on public.members from authenticated");
    await expect
      .poll(() => ask({ table: "public.plans", key: "1", as: "user", user: "ada" }))
      .toContain("“teams see their plans” is not decided (error: permission denied for table members) for this row");
    await sql("grant select on public.members to authenticated");
  });

  test("says that a row does not exist only to those who may see every row", async () => {
    expect(await ask({ table: "plans", key: "9" })).toContain("There is no row with this key in public.plans.");
    await expect
      .poll(() => ask({ table: "members", key: "red, 2" }, admin))
      .toContain("there is none, or policies hide it from you too");
    expect(await ask({ table: "notes", key: "1" }, admin)).toContain(
      "admin may not read it (permission denied for table notes): grant select on public.notes to admin;, or sign in with",
    );
  });

  test.each<[string, Record<string, string>]>([
    ["“nothing” is not a table of the served schemas", { table: "nothing", key: "1" }],
    ["This is not a key of public.plans: invalid input syntax for type bigint", { table: "plans", key: "x" }],
    ["The key has 2 values: team, user_id.", { table: "members", key: "red" }],
    ["The key must not have more than 1000 characters", { table: "plans", key: "1".repeat(1001) }],
    ["No user signs in as “zoe”", { table: "plans", key: "1", as: "user", user: "zoe" }],
  ])("says what to correct: %s", async (message, fields) => {
    expect(await ask(fields)).toContain(message);
  });
});

describe("/console/live", () => {
  const live = () => operator.page("/live").then(textOf);

  test("shows requests by route, errors by code, pools, changes and tasks", async () => {
    await fetch(`${service.url}/rest/v1/nothing`, { headers: { apikey: key } });
    await expect.poll(live).toMatch(/GET \/rest\/v1\/\{table\} [\d.…]+ [1-9]/);
    const page = await live();
    expect(page).toMatch(/PGRST205 [\d.]+ [1-9]/);
    expect(page).toMatch(/Database connections .* data 10 \d+ 0 0 0 [\d.]+ admin 4 .* service 4 .* auth 4 /);
    for (const name of ["Requests per second", "Lag of changes", "Tasks that run"])
      expect(page).toMatch(new RegExp(`${name} [\\d.]+`));
    // Its kind has no job, so that it keeps waiting.
    await sql(
      "insert into tasks.tasks (owner, role, claims, kind, estimate) values ('1', 'authenticated', '{}', 'x', 1)",
    );
    await expect.poll(live).toContain("Tasks that wait, in all processes 1 ");
  });

  test("shows the statements that run; the page Activity shows those that were slow", async () => {
    const holder = service.database.owner;
    await holder.query("select pg_advisory_lock(4711)");
    const headers = { apikey: service.service.tokens.issueKey("anon") };
    const call = () =>
      fetch(`${service.url}/rest/v1/rpc/waits`, { method: "POST", headers }).then(({ status }) => status);
    const waiting = call();
    await expect.poll(live).toMatch(/Lock: advisory .*"waits"/);
    await expect.poll(async () => Number(/([\d.]+) Lock: advisory/.exec(await live())?.[1])).toBeGreaterThan(0.2);
    await holder.query("select pg_advisory_unlock(4711)");
    expect(await waiting).toBe(200);
    await expect
      .poll(() => operator.page("/activity").then(textOf))
      .toMatch(/took longer than 100 ms, since the start of this process\. SQL Last \(UTC\) Times .*"waits"/);
  });
});

describe("/console/activity", () => {
  test("shows findings, the newest security events, tasks and e-mails", async () => {
    await sql("create table public.fees (id bigint primary key); grant select on public.fees to anon");
    const page = () => operator.page("/activity").then(textOf);
    await expect.poll(page).toContain("public.fees");
    await fetch(`${service.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "<i>zoe", password: "Wrong-Horse-7!" }),
    });
    await expect.poll(page).toMatch(/Security events Event Time \(UTC\) User .* login_failed /);
    const text = await page();
    expect(text).toMatch(/Findings [1-9]\d* errors? .* – the page Access has all/);
    expect(text).toMatch(/Tasks 0 run, \d+ wait\./);
    expect(await operator.page("/activity")).not.toContain("<i>zoe");
    expect(textOf(await admin.page("/activity"))).toContain("login_failed");
  });
});

test("the page Activity shows the tasks and jobs that have failed, with their errors, and without secrets", async () => {
  const page = () => admin.page("/activity").then(textOf);
  await expect.poll(page).toContain("No task has failed.");
  const headers = { apikey: key, "content-type": "application/json", prefer: "respond-async" };
  const body = JSON.stringify({ id: 999 });
  const sent = await fetch(`${service.url}/rest/v1/rpc/publish_article`, { method: "POST", headers, body });
  expect(sent.status).toBe(202);
  // As a worker ends it.
  const error = JSON.stringify({
    status: 404,
    code: "P0002",
    message: "article not found",
    details: "Key (email)=(x)",
  });
  await sql(
    `update tasks.tasks set status = 'failed', finished_at = now(), request = null, attempts = 1, error = '${error}'`,
  );
  expect(await page()).toMatch(/Failed Task .* function [\d :-]+ service_role 1 – 404 P0002 article not found/);
  expect(await page()).not.toContain("Key (email)");
  // A job that this process has no handler for is not tried.
  await sql(`
    select tasks.run('digest');
    update graphile_worker._private_jobs as j
    set attempts = 3, last_error = e'https://bob:secret@a.example refused Bearer abcdefghijklmnopqrstuvwxyz.abc\n at <b>'
    from graphile_worker._private_tasks as t
    where t.id = j.task_id and t.identifier = 'app:digest'`);
  expect(await page()).toMatch(/ digest [\d :-]+ – 3 [\d :-]+ https:\/\/…@a\.example refused Bearer …/);
});

test("errors are pages that say what to do, also while the database does not respond", async () => {
  const method = await fetch(`${service.url}/console/sign-out`);
  expect([method.status, method.headers.get("allow"), method.headers.get("content-type")]).toEqual([
    405,
    "POST, OPTIONS",
    "text/html; charset=utf-8",
  ]);
  expect(textOf(await method.text())).toContain("GET is not allowed here: use POST, OPTIONS Back to the console");
  const { name } = service.database;
  await sql(`alter database ${name} connection limit 0`);
  await sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and usename like '%_data'`,
  );
  for (const path of ["/live", "/schema"])
    expect(textOf(await operator.page(path))).toContain("the database is not available");
  await sql(`alter database ${name} connection limit -1`);
  await expect.poll(() => operator.page("/live").then(textOf)).toContain("Requests per second");
});

test.each<[string, ReturnType<typeof parseMetrics>]>([
  [
    'a{b="c \\"d\\" \\\\ \\n",e="{}"} 7\na 1.5',
    new Map([
      [
        "a",
        [
          { labels: { b: 'c "d" \\ \n', e: "{}" }, value: 7 },
          { labels: {}, value: 1.5 },
        ],
      ],
    ]),
  ],
  ["# HELP a b\n# TYPE a gauge\n\n", new Map()],
])("the numbers are read from the text of /metrics: %j", (text, metrics) => {
  expect(parseMetrics(text)).toEqual(metrics);
});

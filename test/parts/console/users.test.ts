import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ConsoleClient, consoleClient, signIn, textOf } from "../../support/console-client.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { startTestService, type TestService } from "../../support/service.ts";

let service: TestService;
let admin: ConsoleClient;
let operator: ConsoleClient;
beforeAll(async () => {
  service = await startTestService({ PARTS: "+console", GRAPHQL_DOCUMENTS: "none", SIGNUP: "off" });
  admin = await consoleClient(service, service.token("admin"));
  operator = await consoleClient(service, service.service.tokens.issueKey("service_role"));
});
afterAll(() => service.stop());

const sql = async (text: string, ...values: unknown[]) => (await service.database.owner.query(text, values)).rows;
const PASSWORD = "Correct-Horse-7!";

/** The status of a sign-in. */
const login = async (username: string) =>
  (
    await fetch(`${service.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username, password: PASSWORD }),
    })
  ).status;
const eventsOf = async (id: string) =>
  (
    await sql("select event, operator from security_events where user_id = $1 and event <> 'login' order by id", id)
  ).map(({ event, operator: by }) => `${event} by ${by}`);

/** Creates a user in the form of the console, and returns the id. */
async function create(name: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const fields = {
    action: "create",
    name,
    email: `${name}@console.example`,
    password: PASSWORD,
    role: "authenticated",
  };
  const page = await admin.send("/users", { ...fields, ...more });
  expect(textOf(page)).toContain("The user is created.");
  return /<dt>Id<\/dt><dd><code>(\d+)</.exec(page)![1]!;
}
const act = async (id: string, action: string, fields: Readonly<Record<string, string>> = {}) =>
  textOf(await admin.send(`/users?id=${id}`, { action, ...fields }));

beforeEach(async () => {
  for (const table of ["articles", "comments"])
    await sql(`delete from ${table} where author_id in (select id from users where email like '%@console.example')`);
  await sql("delete from users where email like '%@console.example'");
});

describe("/console/users", () => {
  test("creates a user, also with SIGNUP=off, and keeps what was entered after a mistake", async () => {
    const id = await create("dora", { username: "dora", role: "admin", emailConfirmed: "on" });
    expect(await login("dora")).toBe(200);
    const page = textOf(await admin.page(`/users?id=${id}`));
    expect(page).toContain("E-mail dora@console.example Username dora State enabled");
    expect(page).not.toContain("not confirmed");
    expect(await eventsOf(id)).toEqual(["role_changed by user 3", "registered by user 3"]);
    const refused = await admin.send("/users", { action: "create", name: 'D"ora', email: "ada@example.com" });
    expect(textOf(refused)).toContain("Email already registered.");
    expect(refused).toContain('name="name" value="D&#34;ora"');
    const weak = await admin.send("/users", {
      action: "create",
      name: "x",
      email: "x@console.example",
      password: "short",
    });
    expect(textOf(weak)).toContain("Password must have");
    expect(weak).not.toContain('value="short"');
  });

  test("sends an invitation, and says why it cannot", async () => {
    const mails = await startMailServer(undefined, () => {});
    const inviting = await startTestService({ PARTS: "+console", GRAPHQL_DOCUMENTS: "none", ...mails.settings });
    try {
      const client = await consoleClient(inviting, inviting.token("admin"));
      const email = "ivy@console.example";
      expect(textOf(await client.send("/users", { action: "invite", invited: email }))).toContain(
        "An e-mail is on its way, with a link to create an account.",
      );
      expect(linkIn(await mails.next(email)).url).toContain("/auth/link?token=");
      const { rows } = await inviting.database.owner.query(
        "select operator from security_events where event = 'invited'",
      );
      expect(rows).toEqual([{ operator: "user 3" }]);
      const refused = await client.send("/users", { action: "invite", invited: "ivy" });
      expect(refused).toContain('name="invited" type="email" required maxlength="254" value="ivy"');
      expect(textOf(refused)).toMatch(/must be a valid address/i);
    } finally {
      await inviting.stop();
      await mails.close();
    }
    expect(textOf(await admin.send("/users", { action: "invite", invited: "ivy@console.example" }))).toContain(
      "Sign-up is closed",
    );
  });

  test("finds users by a part of the name or e-mail, page by page", async () => {
    for (let i = 1; i <= 21; i++)
      await service.database.owner.query("select auth_api.create_user($1, null, null, '{}', null)", [
        JSON.stringify({ name: `Emil ${i}`, email: `emil${i}@console.example` }),
      ]);
    const first = textOf(await admin.page("/users?q=EMIL"));
    expect(first).toContain("21 users found.");
    expect(first).toContain("Page 1 of 2 Next");
    expect(textOf(await admin.page("/users?q=emil&page=2"))).toContain("Previous Page 2 of 2");
    expect(textOf(await admin.page("/users?q=emil7%40"))).toContain("1 user found.");
    expect(textOf(await admin.page("/users?q=%3Cb%3E"))).toContain("0 users found.");
    expect(textOf(await admin.page("/users?page=x"))).toContain("Page must be an integer");
    expect(textOf(await admin.page("/users?id=999999"))).toContain("No user with this id has an account.");
  });

  test("changes the e-mail and the role, disables and enables, signs out, and removes factors", async () => {
    const id = await create("dora");
    expect(await act(id, "change", { email: "dora2@console.example", role: "admin", emailConfirmed: "on" })).toContain(
      "The changes are saved.",
    );
    expect(await act(id, "change", { email: "ada@example.com", role: "admin" })).toContain("Email already registered.");
    expect(await login("dora2@console.example")).toBe(200);
    expect(await act(id, "sign-out")).toContain("The user is signed out everywhere.");
    expect(textOf(await admin.page(`/users?id=${id}`))).toContain("Last sign-in not signed in now");
    await sql("insert into auth_private.factors (user_id, secret, enabled_at) values ($1, 'x', now())", id);
    expect(textOf(await admin.page(`/users?id=${id}`))).toContain("Remove the second factors");
    expect(await act(id, "reset-factors")).not.toContain("Remove the second factors");
    expect(await act(id, "disable")).toContain("Enable the account");
    expect(await login("dora2@console.example")).toBe(403);
    expect(await act(id, "enable")).toContain("Disable the account");
    const events = await eventsOf(id);
    for (const event of [
      ...["login_email_changed", "role_changed", "logout", "mfa_disabled"],
      ...["account_disabled", "account_enabled"],
    ])
      expect(events).toContain(`${event} by user 3`);
    expect(await act(id, "toString")).toContain("Choose one of the buttons.");
  });

  test("deletes a user with the data, or hands the data over, only after a confirmation", async () => {
    const [one, other] = [await create("dora"), await create("emil")];
    await sql("insert into articles (author_id, title, content) values ($1, 'An article', 'x')", one);
    expect(await act(one, "delete", { data: "delete" })).toContain("Confirm that the user is to be deleted");
    expect(await act(one, "delete", { data: "handOver", sure: "on" })).toContain("Enter the id of the user");
    expect(await act(one, "delete", { data: "handOver", handOverTo: "999999", sure: "on" })).toContain(
      "HandOverTo must be the id of another user",
    );
    expect(await act(one, "delete", { data: "handOver", handOverTo: other, sure: "on" })).toContain(
      "The user is deleted.",
    );
    expect(await sql("select title from articles where author_id = $1", other)).toEqual([{ title: "An article" }]);
    expect(await act(other, "delete", { data: "delete", handOverTo: "1", sure: "on" })).toContain(
      "The user is deleted.",
    );
    expect(await sql("select from articles where author_id = $1", other)).toEqual([]);
    expect(await eventsOf(one)).toContain("account_deleted by user 3");
  });

  test("refuses what the routes refuse: the own account, and changes after a sign-in that is not recent", async () => {
    expect(await act("3", "disable")).toMatch(/own account/i);
    const old = await consoleClient(service, service.token("admin", { signedInAt: Date.now() - 3_600_000 }));
    const page = await old.send("/users?id=2", { action: "disable" });
    expect(textOf(page)).toContain("The sign-in is older than 600 seconds: sign in again. Sign in again");
    expect(page).toContain('href="/console/sign-in?next=%2Fconsole%2Fusers"');
    expect(await login("bob")).toBe(200);
  });

  test("works for the service key, and for an administrator with a session of the service", async () => {
    expect(textOf(await operator.send("/users?id=2", { action: "sign-out" }))).toContain("signed out everywhere");
    const json = { "content-type": "application/json" };
    const body = JSON.stringify({ username: "admin", password: PASSWORD });
    const signedIn = await fetch(`${service.url}/api/auth/login`, { method: "POST", headers: json, body });
    const session = signedIn.headers.get("set-cookie")!.split(";")[0]!;
    const withSession = await fetch(`${service.url}/console/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", cookie: session },
      body: "session=on",
      redirect: "manual",
    });
    const cookie = withSession.headers.get("set-cookie")!.split(";")[0]!;
    const url = `${service.url}/console/users?id=2`;
    const csrf = / name="csrf" value="([^"]+)"/.exec(await (await fetch(url, { headers: { cookie } })).text())![1]!;
    const form = new URLSearchParams({ csrf, action: "sign-out" });
    const done = await fetch(url, { method: "POST", headers: { cookie }, body: form });
    expect(textOf(await done.text())).toContain("signed out everywhere");
    expect((await eventsOf("2")).slice(-2)).toEqual(["logout by role service_role", "logout by user 3"]);
  });

  test("changes nothing without the token of the form, and shows nothing to others", async () => {
    const cookie = (await signIn(service.url, service.token("admin"))).headers.get("set-cookie")!.split(";")[0]!;
    const forged = await fetch(`${service.url}/console/users?id=2`, {
      method: "POST",
      headers: { cookie },
      body: new URLSearchParams({ action: "disable" }),
    });
    expect(forged.status).toBe(403);
    expect(await login("bob")).toBe(200);
    for (const path of ["/console/users", "/console/events?export=csv"])
      expect((await fetch(service.url + path, { redirect: "manual" })).status).toBe(303);
  });
});

describe("/console/events", () => {
  test("shows events with a filter, names the operator and the IP address, and escapes what clients have sent", async () => {
    const id = await create("dora");
    await act(id, "disable");
    const page = textOf(await admin.page(`/events?user=${id}`));
    expect(page).toMatch(/account_disabled \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+ user 3 127\.0\.0\.1/);
    expect(page).toContain("registered");
    expect(textOf(await admin.page(`/events?user=${id}&event=registered`))).not.toContain("account_disabled");
    expect(textOf(await admin.page(`/events?user=${id}&to=2026-01-01`))).toContain("No event.");
    expect(textOf(await admin.page(`/events?user=${id}&from=2026-01-01`))).toContain("account_disabled");
    expect(textOf(await admin.page("/events?from=yesterday"))).toContain("From must be a time");
    await sql("insert into auth_private.security_events (event, detail) values ('odd', '{\"a\": \"<script>\"}')");
    expect(await admin.page("/events?event=odd")).not.toContain("<script>");
  });

  test("leads to older events, and exports all that match as CSV and NDJSON", async () => {
    await sql("insert into auth_private.security_events (event) select 'many' from generate_series(1, 130)");
    const first = await admin.page("/events?event=many");
    const older = /<a href="([^"]+)">Older events</.exec(first)![1]!.replaceAll("&#38;", "&").replace("/console", "");
    const count = (page: string) => page.match(/<tr><th scope="row">/g)!.length;
    expect([count(first), count(await admin.page(older))]).toEqual([100, 30]);
    const cookie = (await signIn(service.url, service.token("admin"))).headers.get("set-cookie")!.split(";")[0]!;
    for (const [format, type, lines] of [
      ["csv", "text/csv; charset=utf-8", 131],
      ["ndjson", "application/x-ndjson", 130],
    ] as const) {
      const url = `${service.url}/console/events?event=many&export=${format}`;
      const sent = await fetch(url, { headers: { cookie } });
      expect(sent.headers.get("content-type")).toMatch(type);
      expect(sent.headers.get("content-disposition")).toBe(`attachment; filename="security-events.${format}"`);
      expect((await sent.text()).trimEnd().split("\n")).toHaveLength(lines);
    }
  });
});

test("without accounts of the service there are no pages of users and events", async () => {
  const off = await startTestService({ PARTS: "+console", MIGRATE: "off", GRAPHQL_DOCUMENTS: "none" });
  const key = off.service.tokens.issueKey("service_role");
  const page = await (await consoleClient(off, key)).page("/access");
  expect(page).toContain('href="/console/live"');
  expect(page).not.toContain('href="/console/users"');
  await off.stop();
});

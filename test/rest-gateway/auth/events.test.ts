import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { useRest } from "../../support/rest-client.ts";
import { startTestService } from "../../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const client = useRest({ GRAPHQL_DOCUMENTS: "any" });

const post = async (path: string, body: object, headers = {}) => {
  const type = { "content-type": "application/json", ...headers };
  const response = await fetch(client.service().url + path, {
    method: "POST",
    headers: type,
    body: JSON.stringify(body),
  });
  return (await response.json()) as any;
};
const read = (query: string) => client.rows(`security_events?${query}`, { as: "service" });

test("security events are readable with the service key only, and not writable", async () => {
  const statuses = [];
  for (const as of [undefined, "ada", "admin"] as const) {
    const { status, text } = await client.rest("security_events", as ? { as } : {});
    expect(text).not.toContain("login");
    statuses.push(status);
  }
  expect(statuses).toEqual([401, 403, 403]);
  const body = { event: "login" };
  expect((await client.failure("security_events", { as: "service", body }))[0]).toBe(403);
  expect((await client.failure("security_events?id=gt.0", { as: "service", method: "DELETE" }))[0]).toBe(403);
});

test("security events are hidden from GraphQL, from the resources and from the OpenAPI documents of other callers", async () => {
  const { url, gql } = client.service();
  const types = await gql("{ __schema { types { name fields { name } } } }");
  expect(JSON.stringify(types.data)).not.toMatch(/security_?event/i);
  for (const as of [undefined, "ada", "admin"] as const) {
    const { status, text } = await client.rest("", as ? { as } : {});
    expect(status).toBe(200);
    expect(text).not.toContain("security_events");
    expect(await client.rest("types.ts", as ? { as } : {})).toMatchObject({
      ...{ status: 200, text: expect.not.stringContaining("security_events") },
    });
  }
  expect((await client.rest("types.ts", { as: "service" })).text).toContain("security_events");
  expect((await client.rest("", { as: "service" })).text).toContain("security_events");
  expect(await (await fetch(`${url}/openapi.json`)).text()).not.toContain("security_events");
  expect((await fetch(`${url}/security_events`)).status).toBe(404);
});

test("events of an account are recorded with the user and the IP address", async () => {
  const { accessToken } = await post("/auth/login", { username: "ada", password: PASSWORD });
  await post("/auth/login", { username: "ada", password: "wrong" });
  await post("/auth/login", { username: "unknown", password: "wrong" });
  await post("/auth/login", { username: "carol", password: PASSWORD });
  await post("/auth/logout", {}, { authorization: `Bearer ${accessToken}` });
  const events = await read("select=event,user_id,address,detail&order=id");
  const address = "127.0.0.1";
  expect(events).toEqual([
    { event: "login", user_id: 1, address, detail: { by: "token" } },
    { event: "login_failed", user_id: 1, address, detail: {} },
    { event: "login_failed", user_id: null, address, detail: {} },
    { event: "login_refused", user_id: 4, address, detail: { reason: "disabled" } },
    { event: "logout", user_id: 1, address, detail: { by: "token", scope: "global" } },
  ]);
});

test("changes that are made by SQL are recorded without an IP address", async () => {
  for (const change of [
    "disabled_at = now()",
    "disabled_at = null",
    "role = 'admin'",
    "role = 'authenticated', permissions = '{\"reports\"}'",
    "password_hash = password_hash || 'x'",
    "password_hash = left(password_hash, -1)",
    "epoch = epoch + 1",
    "role = role",
  ])
    await client.sql(`update auth_private.accounts set ${change} where user_id = 2`);
  const events = await read("select=event,address,detail&user_id=eq.2&order=id");
  const recorded = (event: string, detail = {}) => ({ event, address: null, detail });
  expect(events).toEqual([
    recorded("account_disabled"),
    recorded("account_enabled"),
    recorded("role_changed", { from: "authenticated", to: "admin" }),
    recorded("permissions_changed"),
    recorded("role_changed", { from: "admin", to: "authenticated" }),
    recorded("password_changed"),
    recorded("password_changed"),
  ]);
});

test("events are kept when their user is deleted", async () => {
  const email = "gone@test.example";
  const { user } = await post("/auth/register", { name: "Gone", email, password: PASSWORD });
  await client.sql("delete from users where id = $1", user.id);
  const events = await read(`select=event&user_id=eq.${user.id}&order=id`);
  expect(events).toEqual([{ event: "registered" }, { event: "account_deleted" }]);
});

test("events older than AUDIT_RETENTION are deleted, and so are expired attempts, sessions, keys and values that may be used once", async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    insert into security_events (event, at) values ('old', now() - interval '91 days'), ('new', now() - interval '89 days');
    insert into auth_private.attempts (key, at) values (sha256('old'), now() - interval '61 minutes'), (sha256('new'), now());
    insert into auth_private.api_keys (kind, name, prefix, key_hash, expires_at)
    values ('anon', 'old', 'a', sha256('a'), now() - interval '31 days'), ('anon', 'new', 'b', sha256('b'), now() - interval '29 days'),
      ('anon', 'ever', 'c', sha256('c'), null);
    insert into auth_private.one_time_values (kind, key, expires_at)
    values ('code', sha256('old'), now() - interval '1 minute'), ('code', sha256('new'), now() + interval '1 day');
    select auth_api.start_session(1, 0, null, sha256('token'), null, null, now(), now(), 100);
    select auth_api.start_session(2, 0, sha256('cookie'), null, null, null, now(), now(), 100)`);
  let now = Date.now();
  const counts = async () => {
    const { rows } = await database.owner.query(`
      select array(select event from security_events order by 1) as events,
        (select count(*)::int from auth_private.attempts) as attempts,
        array(select name from auth_private.api_keys order by 1) as keys,
        (select count(*)::int from auth_private.one_time_values) as values,
        (select count(*)::int from auth_private.sessions) as sessions`);
    return rows[0];
  };
  const first = await startTestService({}, database, undefined, () => now);
  await expect.poll(counts).toEqual({ events: ["new"], attempts: 1, keys: ["ever", "new"], values: 1, sessions: 2 });
  await first.service.stop();
  now += 3 * 24 * 3600 * 1000;
  const second = await startTestService({ AUDIT_RETENTION: "8640000" }, database, undefined, () => now);
  await expect.poll(counts).toEqual({ events: ["new"], attempts: 0, keys: ["ever"], values: 0, sessions: 0 });
  await second.service.stop();
  const third = await startTestService({ AUDIT_RETENTION: "3600" }, database, undefined, () => now);
  await expect.poll(counts).toMatchObject({ events: [] });
  await third.stop();
});

test("the check in docs/deployment.md shows the address of the last failed sign-in", async () => {
  const guide = readFileSync("docs/deployment.md", "utf8");
  const [, check] = /"https:\/\/api\.example\.com(\/auth\/admin\/events[^"]*)" -H "apikey: \$SERVICE_KEY"/.exec(guide)!;
  await post("/auth/login", { username: "nothing", password: "wrong" });
  const { url, service } = client.service();
  const response = await fetch(url + check, { headers: { apikey: service.tokens.issueKey("service_role") } });
  expect(await response.json()).toMatchObject({ data: [{ event: "login_failed", address: "127.0.0.1" }] });
});

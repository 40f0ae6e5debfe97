import pg from "pg";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { useService } from "../../support/http-client.ts";

let now = Date.now();
const client = useService({ GRAPHQL_DOCUMENTS: "none", SIGNUP: "off", LOGIN_ATTEMPTS: "1000" }, () => now);
const { sql } = client;
const USERS = "/auth/admin/users";

let admin: Record<string, string>;
let service: Record<string, string>;
beforeAll(() => {
  service = { authorization: `Bearer ${client.service().service.tokens.issueKey("service_role")}` };
});
beforeEach(async () => {
  now = Date.now();
  admin = { authorization: `Bearer ${client.token("admin")}` };
  for (const table of ["articles", "comments"])
    await sql(`delete from ${table} where author_id in (select id from users where email like '%@admin.example')`);
  await sql("delete from users where email like '%@admin.example'");
});

/** `api("PATCH /auth/admin/users/2", { role: "admin" })`, as an administrator unless other headers are given. */
async function api(request: string, body?: object, headers: Readonly<Record<string, string>> = admin) {
  const [method, path] = request.split(" ") as [string, string];
  const {
    status,
    text,
    headers: received,
  } = await client.send(path, {
    method,
    headers: { ...headers, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const isJson = received.get("content-type")?.includes("json");
  return { status, text, headers: received, json: isJson && !text.includes("\n") ? JSON.parse(text) : null };
}

const create = async (name: string, more: object = {}) =>
  (await api(`POST ${USERS}`, { name, email: `${name}@admin.example`, password: "Correct-Horse-7!", ...more })).json;
const login = (username: string) => api("POST /auth/login", { username, password: "Correct-Horse-7!" }, {});
const eventsOf = async (id: unknown) =>
  (
    await sql("select event, operator from security_events where user_id = $1 and event <> 'login' order by id", id)
  ).map(({ event, operator }) => `${event} by ${operator}`);

test("an id with more digits than a number of JavaScript is that of one account", async () => {
  const [id, next] = ["9007199254740993", "9007199254740992"];
  for (const each of [id, next]) {
    const email = `${each}@admin.example`;
    await sql("insert into users (id, name, email) overriding system value values ($1, 'Long', $2)", each, email);
    await sql("select auth.add_account($1, 'Long', $2)", each, email);
  }
  const { status, text } = await api(`PATCH ${USERS}/${id}`, { disabled: true });
  expect([status, text]).toEqual([200, expect.stringContaining(`"id":${id}`)]);
  const disabled =
    "select user_id::text as id from auth_private.accounts where disabled_at is not null and user_id > 1000000";
  expect(await sql(disabled)).toEqual([{ id }]);
});

describe("an administrator", () => {
  test("creates users, also with SIGNUP=off, who sign in", async () => {
    const made = await api(`POST ${USERS}`, {
      name: "Dora",
      email: "dora@admin.example",
      username: "dora",
      password: "Correct-Horse-7!",
      role: "admin",
      emailConfirmed: true,
    });
    const { id } = made.json;
    expect([made.status, made.headers.get("location")]).toEqual([201, `${USERS}/${id}`]);
    expect(made.json).toEqual({
      id: expect.any(Number),
      name: "Dora",
      username: "dora",
      email: "dora@admin.example",
      emailConfirmed: true,
      role: "admin",
      permissions: [],
      disabled: false,
      mfaEnabled: false,
      hasPassword: true,
      createdAt: expect.any(String),
      lastSignInAt: null,
    });
    expect((await login("dora")).status).toBe(200);
    expect((await api(`GET ${USERS}/${id}`)).json.lastSignInAt).toEqual(expect.any(String));
    expect(await eventsOf(id)).toEqual(["role_changed by user 3", "registered by user 3"]);
  });

  test("finds accounts by a part of the name, the e-mail or the username, and by the id, page by page", async () => {
    for (const name of ["dora1", "dora2", "dora3"]) await create(name);
    const { json } = await api(`GET ${USERS}?q=DORA&limit=2`);
    expect(json.data.map(({ name }: { name: string }) => name)).toEqual(["dora3", "dora2"]);
    expect(json.pagination).toEqual({ page: 1, limit: 2, total: 3, totalPages: 2 });
    expect((await api(`GET ${USERS}?q=dora&limit=2&page=2`)).json.data).toMatchObject([{ name: "dora1" }]);
    expect((await api(`GET ${USERS}?q=2`)).json.data).toContainEqual(expect.objectContaining({ username: "bob" }));
    expect((await api(`GET ${USERS}?q=%25`)).json.data).toEqual([]);
    expect((await api(`GET ${USERS}`)).json.pagination).toMatchObject({ page: 1, limit: 20 });
  });

  test("disables and enables an account, and changes its role and its e-mail", async () => {
    const { id } = await create("dora");
    const token = (await login("dora@admin.example")).json.accessToken;
    expect((await api(`PATCH ${USERS}/${id}`, { disabled: true })).json).toMatchObject({ disabled: true });
    expect((await api("GET /auth/me", undefined, { authorization: `Bearer ${token}` })).status).toBe(401);
    expect((await login("dora@admin.example")).status).toBe(403);
    const changes = { disabled: false, role: "admin", email: "dora2@admin.example", emailConfirmed: true };
    const { status, json } = await api(`PATCH ${USERS}/${id}`, changes);
    expect([status, json]).toEqual([200, expect.objectContaining(changes)]);
    expect((await login("dora2@admin.example")).json.user.role).toBe("admin");
    const events = await eventsOf(id);
    for (const event of ["account_disabled", "account_enabled", "role_changed", "login_email_changed"])
      expect(events).toContain(`${event} by user 3`);
  });

  test("resets factors and signs a user out everywhere", async () => {
    const { id } = await create("dora");
    const insert = "insert into auth_private.factors (user_id, secret, enabled_at) values ($1, 'x', now())";
    await sql(insert, id);
    expect((await api(`GET ${USERS}/${id}`)).json.mfaEnabled).toBe(true);
    expect((await api(`DELETE ${USERS}/${id}/factors`)).status).toBe(204);
    expect((await api(`GET ${USERS}/${id}`)).json.mfaEnabled).toBe(false);

    const { accessToken } = (await login("dora@admin.example")).json;
    expect((await api(`DELETE ${USERS}/${id}/sessions`)).status).toBe(204);
    expect((await api("GET /auth/me", undefined, { authorization: `Bearer ${accessToken}` })).status).toBe(401);
    expect((await api(`GET ${USERS}/${id}`)).json.lastSignInAt).toBeNull();
    const events = await eventsOf(id);
    expect(events).toContain("mfa_disabled by user 3");
    expect(events).toContain("logout by user 3");
  });

  test("deletes a user with all that refers to the user", async () => {
    const { id } = await create("dora");
    await sql("insert into articles (author_id, title, content) values ($1, 'An article', 'x')", id);
    expect((await api(`DELETE ${USERS}/${id}`)).status).toBe(204);
    expect(await sql("select from users where id = $1", id)).toEqual([]);
    expect(await sql("select from articles where author_id = $1", id)).toEqual([]);
    expect((await api(`GET ${USERS}/${id}`)).status).toBe(404);
    expect(await eventsOf(id)).toContain("account_deleted by user 3");
  });

  test("deletes a user and gives the data to another user", async () => {
    const [one, other] = [await create("dora"), await create("emil")];
    await sql("insert into articles (author_id, title, content) values ($1, 'An article', 'x')", one.id);
    await sql("insert into comments (article_id, author_id, content) values (1, $1, 'x')", one.id);
    for (const wrong of [one.id, 999999, "x"])
      expect((await api(`DELETE ${USERS}/${one.id}?handOverTo=${wrong}`)).status).toBe(400);
    expect((await api(`DELETE ${USERS}/${one.id}?handOverTo=${other.id}`)).status).toBe(204);
    expect(await sql("select from users where id = $1", one.id)).toEqual([]);
    const text = `select (select count(*)::int from articles where author_id = $1) as articles,
      (select count(*)::int from comments where author_id = $1) as comments`;
    expect(await sql(text, other.id)).toEqual([{ articles: 1, comments: 1 }]);
    const [event] = await sql(
      "select detail from security_events where user_id = $1 and event = 'account_deleted'",
      one.id,
    );
    expect(event!.detail).toEqual({ email: "dora@admin.example", handedOverTo: String(other.id) });
  });

  test("hears which table the service may not hand over", async () => {
    const [one, other] = [await create("dora"), await create("emil")];
    await sql("create table public.secrets_of_users (id int, owner_id bigint not null references users)");
    onTestFinished(async () => void (await sql("drop table public.secrets_of_users")));
    for (const [query, message] of [
      [`?handOverTo=${other.id}`, "service_role may not update owner_id of secrets_of_users"],
      ["", "service_role may not delete rows of secrets_of_users"],
    ] as const) {
      const { status, json } = await api(`DELETE ${USERS}/${one.id}${query}`);
      expect([status, json.error.message.replace("public.", "")]).toEqual([403, message]);
    }
  });

  test("cannot disable, demote or delete their own account", async () => {
    for (const [request, body] of [
      [`PATCH ${USERS}/3`, { disabled: true }],
      [`PATCH ${USERS}/3`, { role: "authenticated" }],
      [`DELETE ${USERS}/3`, undefined],
    ] as const)
      expect((await api(request, body)).status).toBe(409);
  });

  test("needs a recent sign-in for changes, and not to read", async () => {
    const { id } = await create("dora");
    const old = { authorization: `Bearer ${client.service().token("admin", { signedInAt: Date.now() - 660_000 })}` };
    for (const [request, body] of [
      [`POST ${USERS}`, { name: "Emil", email: "emil@admin.example" }],
      [`PATCH ${USERS}/${id}`, { disabled: true }],
      [`DELETE ${USERS}/${id}`, undefined],
      [`DELETE ${USERS}/${id}/factors`, undefined],
      [`DELETE ${USERS}/${id}/sessions`, undefined],
    ] as const) {
      const { status, json } = await api(request, body, old);
      expect([request, status, json.error.code]).toEqual([request, 401, "PASSWORD_REQUIRED"]);
    }
    for (const path of [USERS, `${USERS}/${id}`, "/auth/admin/events"])
      expect((await api(`GET ${path}`, undefined, old)).status).toBe(200);
  });
});

test.each<[verb: string, request: (id: unknown) => [string, object]]>([
  ["demote", (id) => [`PATCH ${USERS}/${id}`, { role: "authenticated" }]],
  ["disable", (id) => [`PATCH ${USERS}/${id}`, { disabled: true }]],
])("of two administrators who %s each other at the same time, the first one does", async (_what, request) => {
  const [one, other] = [await create("dora", { role: "admin" }), await create("emil", { role: "admin" })];
  const headers = [];
  for (const { email } of [one, other])
    headers.push({ authorization: `Bearer ${(await login(email)).json.accessToken}` });
  const lock = new pg.Client(client.service().database.url);
  await lock.connect();
  await lock.query("begin");
  await lock.query("select from auth_private.accounts where user_id = any($1) for update", [[one.id, other.id]]);
  const answers = [api(...request(other.id), headers[0]), api(...request(one.id), headers[1])];
  const waiting = `select count(*)::int from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%auth_api%'`;
  await expect.poll(async () => (await sql(waiting))[0]!.count).toBe(2);
  await lock.query("commit");
  await lock.end();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  const admins = await sql(
    "select from auth_private.accounts where user_id = any($1) and role = 'admin' and disabled_at is null",
    [one.id, other.id],
  );
  expect([statuses.filter((status) => status === 200).length, admins.length]).toEqual([1, 1]);
  expect(statuses).toContain(403);
});

test("the service key does the same, and is named as the operator", async () => {
  const { status, json } = await api(`POST ${USERS}`, { name: "Dora", email: "dora@admin.example" }, service);
  expect([status, json.hasPassword]).toEqual([201, false]);
  expect((await api(`PATCH ${USERS}/${json.id}`, { role: "admin" }, service)).status).toBe(200);
  expect((await api(`DELETE ${USERS}/${json.id}`, undefined, service)).status).toBe(204);
  expect(await eventsOf(json.id)).toEqual([
    "registered by role service_role",
    "role_changed by role service_role",
    "account_deleted by role service_role",
  ]);
});

test("other callers are refused", async () => {
  const bob = { authorization: `Bearer ${client.token("bob")}` };
  for (const request of [`GET ${USERS}`, `GET ${USERS}/1`, `DELETE ${USERS}/1`, "GET /auth/admin/events"]) {
    expect([request, (await api(request, undefined, bob)).status]).toEqual([request, 403]);
    expect([request, (await api(request, undefined, {})).status]).toEqual([request, 401]);
  }
});

test.each<[request: string, body: object | undefined, status: number, message: RegExp]>([
  [`POST ${USERS}`, { name: "Dora" }, 400, /email is required/],
  [`POST ${USERS}`, { name: " ", email: "dora@admin.example" }, 400, /name must have/],
  [`POST ${USERS}`, { name: "Dora", email: "dora" }, 400, /email must be a valid address/],
  [`POST ${USERS}`, { name: "Dora", email: "ADA@example.com" }, 409, /email already registered/],
  [`POST ${USERS}`, { name: "Dora", email: "dora@admin.example", password: "short" }, 400, /password must have/],
  [
    `POST ${USERS}`,
    { name: "Dora", email: "dora@admin.example", admin: true },
    400,
    /there is no field admin: use name, email/,
  ],
  [`PATCH ${USERS}/2`, {}, 400, /send at least one of/],
  [`PATCH ${USERS}/2`, { role: "root" }, 400, /role must be authenticated or admin/],
  [`PATCH ${USERS}/2`, { email: "ADA@example.com" }, 409, /email already registered/],
  [`PATCH ${USERS}/999999`, { disabled: true }, 404, /no user with this id has an account/],
  [`GET ${USERS}/x`, undefined, 404, /no user with this id has an account/],
  [`GET ${USERS}/99999999999999999999`, undefined, 404, /no user with this id has an account/],
  [`GET ${USERS}?limit=x`, undefined, 400, /limit must be an integer/],
  [`GET ${USERS}?search=x`, undefined, 400, /unknown parameter "search"/],
  ["GET /auth/admin/events?limit=10001", undefined, 400, /limit must be an integer from 1 to 10000/],
  ["GET /auth/admin/events?from=yesterday", undefined, 400, /from must be a time/],
  ["GET /auth/admin/events?before=x", undefined, 400, /before must be the id of an event/],
])("%s with %j is %d", async (request, body, status, message) => {
  const reply = await api(request, body);
  expect(reply.status).toBe(status);
  expect(reply.json.error.message).toMatch(message);
});

describe("security events", () => {
  test("are filtered by event, user, operator and time, and paged", async () => {
    const from = new Date().toISOString();
    const { id } = await create("dora");
    for (const disabled of [true, false, true])
      await api(`PATCH ${USERS}/${id}`, { disabled }, disabled ? admin : service);
    const list = async (query: string) => (await api(`GET /auth/admin/events?${query}`)).json;
    const all = await list(`user=${id}`);
    expect(all.data.map(({ event, operator }: any) => [event, operator])).toEqual([
      ["account_disabled", "user 3"],
      ["account_enabled", "role service_role"],
      ["account_disabled", "user 3"],
      ["registered", "user 3"],
    ]);
    expect(all.next).toBeNull();
    expect(all.data[0]).toMatchObject({ userId: id, address: "127.0.0.1", detail: {} });
    expect((await list(`user=${id}&event=account_disabled`)).data).toHaveLength(2);
    expect((await list(`user=${id}&operator=role+service_role`)).data).toHaveLength(1);
    expect((await list(`user=${id}&from=${from}`)).data).toHaveLength(4);
    expect((await list(`user=${id}&to=${from}`)).data).toEqual([]);
    const first = await list(`user=${id}&limit=3`);
    expect((await list(`user=${id}&limit=3&before=${first.next}`)).data).toMatchObject([{ event: "registered" }]);
    expect((await list("user=x")).data).toEqual([]);
  });

  test("are exported as CSV and NDJSON", async () => {
    const { id } = await create("dora");
    const as = (accept: string) => api(`GET /auth/admin/events?user=${id}`, undefined, { ...admin, accept });
    const csv = await as("text/csv");
    expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(csv.text).toMatch(
      RegExp(
        `^id,at,event,userId,operator,address,detail\n\\d+,[^,]+,registered,${id},user 3,127.0.0.1,"\\{""by"":""operator""\\}"\n$`,
      ),
    );
    const ndjson = await as("application/x-ndjson");
    expect(ndjson.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
    expect(JSON.parse(ndjson.text)).toMatchObject({ event: "registered", userId: id });
  });
});

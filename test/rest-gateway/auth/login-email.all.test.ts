import pg from "pg";
import { describe, expect, test } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { useService } from "../../support/http-client.ts";
import { startTestService } from "../../support/service.ts";

const PASSWORD = "Correct-Horse-8!";
const SETTINGS = { USERS_WRITE: "open", registrationsPerAddress: 1000, LOGIN_ATTEMPTS: "1000" };
/** Milliseconds, longer than recentSignIn and shorter than the life of an access token. */
const HALF_AN_HOUR = 1_800_000;

let late = 0;
const client = useService(SETTINGS, () => Date.now() - late);

type Headers = Readonly<Record<string, string>>;
type User = { readonly id: number; readonly email: string; readonly headers: Headers };

const ask = (method: string, path: string, body?: unknown, headers: Headers = {}) =>
  client.send(path, {
    method,
    headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

let count = 0;
const newEmail = () => `dora${++count}@test.example`;

/** A new user, who has signed in `ago` milliseconds ago. */
async function register(ago = 0): Promise<User> {
  const email = newEmail();
  late = ago;
  const { status, json } = await ask("POST", "/auth/register", { name: "Dora", email, password: PASSWORD });
  late = 0;
  expect(status).toBe(201);
  return { id: json.user.id, email, headers: { authorization: `Bearer ${json.accessToken}` } };
}

const confirm = ({ id }: User) =>
  client.sql("update auth_private.accounts set email_confirmed_at = now() where user_id = $1", id);
const registers = async (email: string) =>
  (await ask("POST", "/auth/register", { name: "Eve", email, password: PASSWORD })).status;
const signsIn = async (username: string, password = PASSWORD) =>
  (await ask("POST", "/auth/login", { username, password })).status === 200;

type Change = (user: User, email: string, headers: Headers) => Promise<number>;

const anonKey = () => ({ apikey: client.service().service.tokens.issueKey("anon") });

/** The ways to change users.email; each resolves to the status. */
const INTERFACES: Readonly<Record<string, Change>> = {
  "PATCH /users": async ({ id }, email, headers) => (await ask("PATCH", `/users/${id}`, { email }, headers)).status,
  "PUT /api/v2/users": async ({ id }, email, headers) =>
    (await ask("PUT", `/api/v2/users/${id}`, { name: "Dora", email }, headers)).status,
  "PATCH /rest/v1/users": async ({ id }, email, headers) =>
    (await ask("PATCH", `/rest/v1/users?id=eq.${id}`, { email }, { ...anonKey(), ...headers })).status,
  "GraphQL updateUser": async ({ id }, email, headers) => {
    const query = `mutation { updateUser(id: ${id}, input: {email: "${email}"}) { email } }`;
    const { status, json } = await ask("POST", "/graphql", { query }, headers);
    return json.errors === undefined ? status : 400;
  },
};

const changed = ({ id }: User) =>
  client.sql("select event, detail from security_events where user_id = $1 and event like '%email%' order by id", id);

describe.each(Object.keys(INTERFACES))("a change of the e-mail by %s", (name) => {
  const change = INTERFACES[name]!;

  test("by the user with a recent sign-in also changes the login e-mail", async () => {
    const user = await register();
    await confirm(user);
    const email = newEmail();
    expect(await change(user, email, user.headers)).toBeLessThan(300);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([true, false]);
    expect((await changed(user)).map(({ event }) => event)).toEqual(["email_changed", "login_email_changed"]);
    expect(await registers(user.email)).toBe(409);
    // Also for a user without an account.
    expect((await ask("POST", "/users", { name: "Eve", email: user.email })).status).toBe(409);
  });

  test("by the user with an old sign-in leaves the login e-mail", async () => {
    const user = await register(HALF_AN_HOUR);
    const email = newEmail();
    expect(await change(user, email, user.headers)).toBeLessThan(300);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([false, true]);
    expect((await changed(user)).map(({ event }) => event)).toEqual(["email_changed"]);
  });

  test("by an API key of the user leaves the login e-mail, which no other account can register", async () => {
    const user = await register();
    const { json } = await ask("POST", "/auth/keys", { name: "a program" }, user.headers);
    const key = { "x-api-key": json.key };
    const email = newEmail();
    expect(await change(user, email, key)).toBeLessThan(300);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([false, true]);
    expect([await registers(user.email), await registers(email)]).toEqual([409, 409]);
    const by = { role: "authenticated", user: user.id };
    expect(await changed(user)).toEqual([{ event: "email_changed", detail: { from: user.email, to: email, ...by } }]);
  });

  test("by an admin leaves the login e-mail", async () => {
    const user = await register();
    const login = { username: "admin", password: "Correct-Horse-7!" };
    const { json } = await ask("POST", "/auth/login", login);
    const email = newEmail();
    expect(await change(user, email, { authorization: `Bearer ${json.accessToken}` })).toBeLessThan(300);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([false, true]);
    expect((await changed(user))[0]!.detail).toMatchObject({ role: "admin", user: 3 });
  });
});

test("a stranger who changes the admin's e-mail in the open mode gains nothing", async () => {
  const admin = { id: 3, email: "admin@example.com", headers: {} };
  expect((await ask("PATCH", "/users/3", { email: "eve@test.example" })).status).toBe(200);
  expect(await signsIn(admin.email, "Correct-Horse-7!")).toBe(true);
  expect(await signsIn("eve@test.example", "Correct-Horse-7!")).toBe(false);
  expect(await registers(admin.email)).toBe(409);
  const user = { name: "Eve", email: "ADMIN@example.com" };
  const { status, json } = await ask("POST", "/users", user);
  expect([status, json.error.message, json.error.details[0].field]).toEqual([409, "email already registered", "email"]);
  expect((await ask("POST", "/rest/v1/users", user, anonKey())).status).toBe(409);
  const [error] = await client.errors(
    `mutation { createUser(input: {name: "Eve", email: "admin@example.com"}) { id } }`,
  );
  expect(error).toBe("RESOURCE_CONFLICT: email already registered");
  expect((await ask("PATCH", "/users/2", { email: admin.email })).status).toBe(409);
  expect((await changed(admin))[0]!.detail).toEqual({
    ...{ from: admin.email, to: "eve@test.example", role: "users_editor" },
  });
  expect((await ask("PATCH", "/users/3", { email: admin.email })).status).toBe(200);
});

test("Basic authentication sends the password, so a change also changes the login e-mail", async () => {
  const user = await register();
  const email = newEmail();
  const basic = { authorization: `Basic ${Buffer.from(`${user.email}:${PASSWORD}`).toString("base64")}` };
  expect((await ask("PATCH", `/users/${user.id}`, { email }, basic)).status).toBe(200);
  expect(await signsIn(email)).toBe(true);
});

test("the service key leaves the login e-mail, and an update that keeps the e-mail records nothing", async () => {
  const user = await register();
  const email = newEmail();
  const apikey = client.service().service.tokens.issueKey("service_role");
  const update = (fields: object) => ask("PATCH", `/rest/v1/users?id=eq.${user.id}`, fields, { apikey });
  expect((await update({ email: user.email, name: "Theodora" })).status).toBe(204);
  expect(await changed(user)).toEqual([]);
  expect((await update({ email })).status).toBe(204);
  expect([await signsIn(email), await signsIn(user.email)]).toEqual([false, true]);
  expect(await changed(user)).toEqual([
    { event: "email_changed", detail: { from: user.email, to: email, role: "service_role" } },
  ]);
});

test("an e-mail with other characters than ASCII becomes the login e-mail at POST /auth/email only", async () => {
  const user = await register();
  const email = `\u00e4${newEmail()}`;
  expect((await ask("PATCH", `/users/${user.id}`, { email }, user.headers)).status).toBe(200);
  expect([await signsIn(email), await signsIn(user.email)]).toEqual([false, true]);
});

test("an e-mail is confirmed until the account signs in with another one", async () => {
  const user = await register(HALF_AN_HOUR);
  const me = async () => {
    const { email, emailConfirmed } = (await ask("GET", "/auth/me", undefined, user.headers)).json;
    return [email, emailConfirmed];
  };
  await confirm(user);
  await expect.poll(me).toEqual([user.email, true]);
  const [first, second] = [newEmail(), newEmail()];
  expect((await ask("PATCH", `/users/${user.id}`, { email: first }, user.headers)).status).toBe(200);
  expect(await me()).toEqual([user.email, true]);
  const change = { email: second, password: PASSWORD };
  expect((await ask("POST", "/auth/email", change, user.headers)).status).toBe(200);
  expect(await me()).toEqual([second, false]);
});

test("an account may have 20 reserved e-mails that were confirmed: a further change is 409, going back is not, and all are free when the user is deleted", async () => {
  const user = await register();
  const change = async (email: string) => {
    await confirm(user);
    const { status, json } = await ask("POST", "/auth/email", { email }, user.headers);
    return [status, json.error?.details[0].field];
  };
  const emails = Array.from({ length: 20 }, newEmail);
  for (const email of emails) expect(await change(email)).toEqual([200, undefined]);
  expect(await change(newEmail())).toEqual([409, "email"]);
  expect(await change(user.email.toUpperCase())).toEqual([200, undefined]);
  expect([await registers(user.email), await registers(emails[19]!)]).toEqual([409, 409]);
  // Without credentials, as everybody may with USERS_WRITE=open.
  expect((await ask("DELETE", `/users/${user.id}`)).status).toBe(204);
  expect([await registers(user.email), await registers(emails[19]!)]).toEqual([201, 201]);
});

describe("POST /auth/email", () => {
  const change = (body: unknown, headers?: Headers) => ask("POST", "/auth/email", body, headers);

  test("changes both e-mails with a recent sign-in, and records the IP address", async () => {
    const user = await register();
    const email = newEmail();
    const { status, json, headers } = await change({ email }, user.headers);
    expect([status, json.email, headers.get("cache-control")]).toEqual([200, email, "no-store"]);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([true, false]);
    expect((await ask("GET", `/users/${user.id}`)).json.email).toBe(email);
    const text =
      "select event, host(address) as address, detail from security_events where user_id = $1 and event ~ 'email'";
    expect(await client.sql(`${text} order by id`, user.id)).toEqual([
      {
        ...{ event: "email_changed", address: "127.0.0.1" },
        detail: { from: user.email, to: email, role: "authenticated", user: user.id },
      },
      { event: "login_email_changed", address: "127.0.0.1", detail: { from: user.email, to: email, by: "owner" } },
    ]);
    expect((await change({ email: user.email }, user.headers)).status).toBe(200);
    expect(await signsIn(user.email)).toBe(true);
  });

  test("requires the password with an old sign-in", async () => {
    const user = await register(HALF_AN_HOUR);
    const email = newEmail();
    const without = await change({ email }, user.headers);
    expect([without.status, without.json.error.code]).toEqual([401, "PASSWORD_REQUIRED"]);
    expect((await change({ email, password: "wrong" }, user.headers)).status).toBe(403);
    expect(await signsIn(user.email)).toBe(true);
    expect((await change({ email, password: PASSWORD }, user.headers)).status).toBe(200);
    expect([await signsIn(email), await signsIn(user.email)]).toEqual([true, false]);
  });

  test("takes over an e-mail that a key has set at /users", async () => {
    const user = await register();
    const email = newEmail();
    await client.sql("update users set email = $2 where id = $1", user.id, email);
    expect((await change({ email }, user.headers)).status).toBe(200);
    expect(await signsIn(email)).toBe(true);
  });

  test("accepts an e-mail in another script, and refuses that of another account in capitals", async () => {
    const [ann, user] = [await register(), await register()];
    const other = "\u043e\u0440\u0430@test.example";
    expect((await change({ email: other }, user.headers)).status).toBe(200);
    expect(await signsIn(other)).toBe(true);
    const { status, json } = await change({ email: "\u041e\u0420\u0410@test.example" }, ann.headers);
    expect([status, json.error.details[0]]).toEqual([
      409,
      { field: "email", code: "RESOURCE_CONFLICT", message: "email already registered" },
    ]);
    expect((await change({ email: "\u043epa@test.example" }, ann.headers)).status).toBe(400);
  });

  test.each<[string, unknown, number, string]>([
    ["the e-mail of another user", { email: "BOB@example.com" }, 409, "RESOURCE_CONFLICT"],
    ["a malformed e-mail", { email: "dora" }, 400, "VALIDATION_ERROR"],
    ["an e-mail that is not a text", { email: 7 }, 400, "VALIDATION_ERROR"],
    ["no e-mail", {}, 400, "MISSING_FIELD"],
  ])("refuses %s and changes nothing", async (_what, body, status, code) => {
    const user = await register();
    const reply = await change(body, user.headers);
    expect([reply.status, reply.json.error.code, reply.json.error.details[0].field]).toEqual([status, code, "email"]);
    expect(await signsIn(user.email)).toBe(true);
    expect(await changed(user)).toEqual([]);
  });

  test("is refused with the message of a trigger that the DBA has added", async () => {
    const user = await register();
    await client.sql(`
      create function refuse_email() returns trigger language plpgsql as
        $$ begin raise exception 'only e-mails of the company' ; end $$;
      create trigger refuse_email before update on users for each row when (new.email like '%@other.example')
        execute function refuse_email()`);
    const { status, json } = await change({ email: "dora@other.example" }, user.headers);
    expect([status, json.error.code, json.error.message]).toEqual([
      ...[400, "VALIDATION_ERROR", "only e-mails of the company"],
    ]);
    await client.sql("drop function refuse_email cascade");
  });

  test("needs the code too with an old sign-in if a second factor is enabled", async () => {
    const user = await register(HALF_AN_HOUR);
    await client.sql(
      "insert into auth_private.factors (user_id, secret, enabled_at) values ($1, sha256('x'), now())",
      user.id,
    );
    const { status, json } = await change({ email: newEmail(), password: PASSWORD }, user.headers);
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    expect(await changed(user)).toEqual([]);
  });

  test("is refused to callers without credentials and to API keys", async () => {
    const user = await register();
    const { json } = await ask("POST", "/auth/keys", { name: "a program" }, user.headers);
    expect((await change({ email: newEmail() })).status).toBe(401);
    expect((await change({ email: newEmail() }, { "x-api-key": json.key })).status).toBe(403);
  });
});

test("housekeeping ends reservations after emailReservation", async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    insert into auth_private.login_emails (user_id, email, released_at)
    values (1, 'old@test.example', now() - interval '2 hours'), (1, 'new@test.example', now() - interval '30 minutes')`);
  const service = await startTestService({ emailReservation: 3600, GRAPHQL_DOCUMENTS: "none" }, database);
  const reserved = async () =>
    (await database.owner.query("select email from auth_private.login_emails where released_at is not null")).rows;
  await expect.poll(reserved).toEqual([{ email: "new@test.example" }]);
  await service.stop();
});

test("a registration that waits for a change of the e-mail finds the previous one reserved", async () => {
  const user = await register();
  await confirm(user);
  const { owner, url } = client.service().database;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  try {
    await other.query("begin");
    await other.query("select auth_api.change_email($1, $2, null, null)", [user.id, newEmail()]);
    const waiting = registers(user.email);
    const blocked = `select count(*)::int as blocked from pg_locks join pg_stat_activity using (pid)
      where not granted and locktype = 'transactionid' and datname = current_database() and backend_type = 'client backend'`;
    await expect.poll(async () => (await owner.query(blocked)).rows[0].blocked).toBe(1);
    await other.query("commit");
    expect(await waiting).toBe(409);
  } finally {
    await other.end();
  }
});

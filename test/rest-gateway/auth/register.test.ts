import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const PASSWORD = "Correct-Horse-8!";
const client = useService();
const few = useService({ registrationsPerAddress: 2, GRAPHQL_DOCUMENTS: "none" });
const register = (body: unknown) => sendJson(client, "/auth/register", body);
const dora = { name: "Dora", email: "dora@test.example", password: PASSWORD, age: 20, username: "dora" };

describe("POST /auth/register", () => {
  test("creates a user and returns tokens, and the user can sign in", async () => {
    const { status, json, headers } = await register(dora);
    expect([status, headers.get("cache-control")]).toEqual([201, "no-store"]);
    const { user, accessToken, refreshToken, ...rest } = json;
    expect(rest).toEqual({ expiresIn: 3600, tokenType: "Bearer" });
    const time = expect.any(String);
    const { id } = user;
    expect(user).toEqual({ id, name: "Dora", email: "dora@test.example", age: 20, created_at: time, updated_at: time });
    expect(headers.get("location")).toBe(`/users/${id}`);
    const authorization = `Bearer ${accessToken}`;
    expect(await client.data("{ me { name } }", { headers: { authorization } })).toEqual({ me: { name: "Dora" } });
    expect((await sendJson(client, "/auth/refresh", { refreshToken })).status).toBe(200);
    for (const username of ["dora", "DORA@test.example"])
      expect((await sendJson(client, "/auth/login", { username, password: PASSWORD })).status).toBe(200);
    const events = await client.sql(
      "select host(address) as address from security_events where event = 'registered' and user_id = $1",
      id,
    );
    expect(events).toEqual([{ address: "127.0.0.1" }]);
    expect(JSON.stringify(await client.sql("select password_hash from auth_private.accounts"))).not.toContain(PASSWORD);
  });

  test.each(["/auth/register", "/users"])("%s: no further field gives a new user rights, or an id", async (path) => {
    const claimed = { role: "admin", permissions: ["*"], id: 1, userId: 1, isAdmin: true, disabled: false };
    const proofs = { emailConfirmed: true, email_confirmed_at: "2020-01-01", emailVerified: true, password_hash: "x" };
    const email = `eve${path.length}@test.example`;
    const { status, json } = await sendJson(client, path, {
      ...{ name: "Eve", email, password: PASSWORD, ...claimed, ...proofs, data: { role: "admin" }, unknown: 1 },
    });
    expect([status, (json.user ?? json).id === 1]).toEqual([201, false]);
    const [account] = await client.sql(
      `select a.role, a.permissions, a.email_confirmed_at, a.app_metadata, a.user_metadata
       from auth_private.accounts as a join auth_private.login_emails as e using (user_id) where e.email = $1`,
      email,
    );
    expect(account).toEqual({
      ...{ role: "authenticated", permissions: [], email_confirmed_at: null, app_metadata: {}, user_metadata: {} },
    });
  });

  test("names all invalid fields at once", async () => {
    const { status, json } = await register({ email: 7, password: "short", username: "two words" });
    expect([status, json.error.code]).toEqual([400, "MISSING_FIELD"]);
    const fields = json.error.details.map(({ field }: { field: string }) => field);
    expect([...new Set(fields)]).toEqual(["name", "email", "password", "username"]);
  });

  test.each<[string, object, status: number, code: string]>([
    ["no password", { password: undefined }, 400, "MISSING_FIELD"],
    ["a password of digits alone", { password: "123456789012" }, 400, "VALIDATION_ERROR"],
    ["a malformed e-mail", { email: "dora" }, 400, "VALIDATION_ERROR"],
    ["an e-mail that is taken, in another case", { email: "ADA@example.com" }, 409, "RESOURCE_CONFLICT"],
    ["a username that is taken", { username: "ADA" }, 409, "RESOURCE_CONFLICT"],
    ["the e-mail of another user as username", { username: "bob@example.com" }, 400, "VALIDATION_ERROR"],
  ])("rejects %s, and creates no user", async (_what, given, status, code) => {
    const before = await client.sql("select count(*) from users");
    const reply = await register({ ...dora, email: "eve@test.example", username: "eve", ...given });
    expect([reply.status, reply.json.error.code]).toEqual([status, code]);
    expect(await client.sql("select count(*) from users")).toEqual(before);
  });

  test.each(["", "do ra", "do:ra", "do\u0007ra", "x@test.example", "x".repeat(101)])(
    "rejects the username %j",
    async (username) => {
      const { status, json } = await register({ ...dora, email: "eve@test.example", username });
      expect([status, json.error.details.map(({ field }: { field: string }) => field)]).toEqual([400, ["username"]]);
    },
  );

  test("accepts a username of a hundred letters", async () => {
    const username = "ü".repeat(100);
    expect((await register({ ...dora, email: "max@test.example", username })).status).toBe(201);
    expect((await sendJson(client, "/auth/login", { username, password: PASSWORD })).status).toBe(200);
  });

  test("reports a malformed username with the message of its constraint", async () => {
    const [{ message }] = (await client.sql(`
      select obj_description(oid) as message from pg_constraint where conname = 'accounts_username_format'`)) as [any];
    const eve = { ...dora, email: "eve@test.example", username: "a b" };
    expect((await register(eve)).json.error.details).toEqual([
      { field: "username", code: "VALIDATION_ERROR", message },
    ]);
  });

  test("reports all faults at once: of the account, of the user, and an e-mail that is registered", async () => {
    const body = { name: " ", email: "ada@example.com", age: 700, password: "short", username: "a b" };
    const { status, json } = await register(body);
    expect([status, json.error.code]).toEqual([400, "VALIDATION_ERROR"]);
    expect(json.error.fields).toMatchObject({
      name: "name must have 1 to 200 characters",
      email: "email already registered",
      age: "age must be from 0 to 150",
      password: expect.stringMatching(/^password must have at least 12 characters/),
      username: expect.stringMatching(/^username /),
    });
  });

  test("ignores an unknown field, and with Prefer: handling=strict rejects it", async () => {
    const lou = { ...dora, email: "lou@test.example", username: "lou", shoeSize: 42 };
    const { status, json } = await sendJson(client, "/auth/register", lou, { prefer: "handling=strict" });
    expect([status, json.error.message]).toEqual([400, expect.stringContaining("unknown field shoeSize")]);
    expect((await register(lou)).status).toBe(201);
  });

  test("compares passwords in every Unicode form", async () => {
    const password = "Zurück-zu-7ä!";
    const noa = { ...dora, email: "noa@test.example", username: "noa", password: password.normalize("NFD") };
    expect((await register(noa)).status).toBe(201);
    const login = { username: "noa", password: password.normalize("NFC") };
    expect((await sendJson(client, "/auth/login", login)).status).toBe(200);
  });

  test("without a username, the e-mail is the login, whatever others change that of the user to", async () => {
    const email = "pia@test.example";
    const { json } = await register({ ...dora, email, username: undefined });
    await client.sql("update users set email = 'moved@test.example' where id = $1", json.user.id);
    const statusOf = async (username: string) =>
      (await sendJson(client, "/auth/login", { username, password: PASSWORD })).status;
    expect([await statusOf(email), await statusOf("moved@test.example")]).toEqual([200, 401]);
  });
});

test("registrations over the limit of an IP address are 429 with Retry-After, at POST /users too", async () => {
  const make = (path: string, name: string) =>
    sendJson(few, path, { ...dora, email: `${name}@test.example`, username: name });
  expect((await make("/auth/register", "hal")).status).toBe(201);
  expect((await make("/users", "ida")).status).toBe(201);
  for (const path of ["/auth/register", "/users"]) {
    const { status, json, headers } = await make(path, "jon");
    expect([status, json.error.code]).toEqual([429, "RATE_LIMITED"]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(800);
  }
  expect((await sendJson(few, "/users", { name: "Kay", email: "kay@test.example" })).status).toBe(429);
});

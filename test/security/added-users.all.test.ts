import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const LIMIT = 3;

let service: TestService;
let anonKey: string;
let serviceKey: string;
beforeAll(async () => {
  const limits = { registrationsPerAddress: LIMIT, TRUST_PROXY: "127.0.0.1" };
  service = await startTestService({ USERS_WRITE: "owner", ...limits });
  anonKey = service.service.tokens.issueKey("anon");
  serviceKey = service.service.tokens.issueKey("service_role");
  return () => service.stop();
});

type Headers = Readonly<Record<string, string>>;

/** Each test has addresses of its own, so that no test uses up the limit of another. */
let addresses = 0;
const newAddress = () => `203.0.113.${++addresses}`;
const from = (address: string): Headers => ({ "x-forwarded-for": address });

const newEmail = () => `new-${randomUUID()}@example.com`;
const newUser = (email = newEmail()) => ({ name: "New", email });

const post = (path: string, body: unknown, headers: Headers, at = service) =>
  fetch(`${at.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", apikey: anonKey, ...headers },
    body: JSON.stringify(body),
  });

/** The error of a GraphQL response; "" if there is none. */
const codeOf = async (response: Response): Promise<string> => {
  const { errors, error, code } = (await response.json()) as Record<string, any>;
  return errors?.[0].extensions.code ?? error?.code ?? code;
};

const CREATE = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id } }";

/** One new user by each interface. */
const INTERFACES: Record<string, (user: object, headers: Headers) => Promise<Response>> = {
  "POST /users": (user, headers) => post("/users", user, headers),
  "POST /rest/v1/users": (user, headers) => post("/rest/v1/users", user, headers),
  "createUser of GraphQL": (input, headers) => post("/graphql", { query: CREATE, variables: { input } }, headers),
  "POST /rest/v1/rpc/create_user": (input, headers) => post("/rest/v1/rpc/create_user", { input }, headers),
  "POST /users with a password": (user, headers) => post("/users", { ...user, password: PASSWORD }, headers),
  "POST /auth/register": (user, headers) => post("/auth/register", { ...user, password: PASSWORD }, headers),
};
const ALL = Object.entries(INTERFACES);

const countOf = async (pattern: string, { database } = service) =>
  Number(
    (await database.owner.query("select count(*) from public.users where email like $1", [pattern])).rows[0].count,
  );
const userOf = async (email: string) =>
  (await service.database.owner.query("select * from public.users where email = $1", [email])).rows[0];
const byId = async (id: string) =>
  (await service.database.owner.query("select * from public.users where id = $1", [id])).rows[0];

describe("users that callers add count like registrations", () => {
  test.each(ALL)("%s", async (_, add) => {
    const headers = from(newAddress());
    for (let i = 0; i < LIMIT; i++) expect([200, 201]).toContain((await add(newUser(), headers)).status);
    const email = newEmail();
    const refused = await add(newUser(email), headers);
    expect(await codeOf(refused)).toMatch(/^(RATE_LIMITED|PT429)$/);
    expect(await userOf(email)).toBeUndefined();
    expect([200, 201]).toContain((await add(newUser(), from(newAddress()))).status);
  });

  test("of all interfaces together", async () => {
    const headers = from(newAddress());
    for (const [, add] of ALL.slice(0, LIMIT)) await add(newUser(), headers);
    for (const [, add] of ALL) expect(await codeOf(await add(newUser(), headers))).toMatch(/^(RATE_LIMITED|PT429)$/);
  });

  test("of all addresses of an IPv6 network", async () => {
    const add = (i: number) => post("/rest/v1/users", newUser(), from(`2001:db8:7:1::${i}`));
    for (let i = 1; i <= LIMIT; i++) expect((await add(i)).status).toBe(201);
    expect((await add(9)).status).toBe(429);
  });

  test("also if they arrive at once", async () => {
    const headers = from(newAddress());
    const added = await Promise.all(Array.from({ length: 12 }, () => post("/rest/v1/users", newUser(), headers)));
    expect(added.map(({ status }) => status).filter((status) => status === 201)).toHaveLength(LIMIT);
  });

  test("with a header that says when to try again", async () => {
    const headers = from(newAddress());
    for (let i = 0; i < LIMIT; i++) await post("/users", newUser(), headers);
    for (const path of ["/users", "/rest/v1/users"])
      expect(Number((await post(path, newUser(), headers)).headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("of tasks, which together count as one network", async () => {
    const limited = await startTestService({
      USERS_WRITE: "owner",
      registrationsPerAddress: 1,
      TASK_CONCURRENCY: "1",
      taskAnonymousRetention: 3600,
    });
    const headers = { prefer: "respond-async", apikey: limited.service.tokens.issueKey("anon") };
    for (let i = 0; i < 3; i++) {
      const input = newUser(`task-${i}@example.com`);
      expect((await post("/rest/v1/rpc/create_user", { input }, headers, limited)).status).toBe(202);
    }
    const ended = async () =>
      Number(
        (await limited.database.owner.query("select count(*) from tasks.tasks where finished_at is not null")).rows[0]
          .count,
      );
    await expect.poll(ended).toBe(3);
    expect(await countOf("task-%", limited)).toBe(1);
    await limited.stop();
  });
});

describe("several users at once", () => {
  const users = (count: number, name: string) =>
    Array.from({ length: count }, (_, i) => newUser(`${name}-${i}@example.com`));

  test.each([
    ["/users", (list: object[]) => list],
    ["/rest/v1/users", (list: object[]) => list],
  ])("are refused to anonymous callers at %s", async (path, body) => {
    const name = `bulk${randomUUID()}`;
    const refused = await post(path, body(users(2, name)), from(newAddress()));
    expect(refused.status).toBe(401);
    expect(await countOf(`${name}%`)).toBe(0);
  });

  test("are refused in GraphQL beyond the limit, where each row is a statement", async () => {
    const name = `bulk${randomUUID()}`;
    const query = "mutation ($input: [CreateUserInput!]!) { createUsers(input: $input) { success } }";
    const refused = await post("/graphql", { query, variables: { input: users(LIMIT + 1, name) } }, from(newAddress()));
    expect(await codeOf(refused)).toBe("RATE_LIMITED");
    expect(await countOf(`${name}%`)).toBe(0);
  });

  test("count one by one for signed-in users", async () => {
    const headers = { authorization: `Bearer ${service.token("ada")}`, ...from(newAddress()) };
    const name = `own${randomUUID()}`;
    expect((await post("/rest/v1/users", users(LIMIT + 1, name), headers)).status).toBe(429);
    expect((await post("/rest/v1/users", users(LIMIT, name), headers)).status).toBe(201);
    expect((await post("/rest/v1/users", newUser(), headers)).status).toBe(429);
    expect(await countOf(`${name}%`)).toBe(LIMIT);
  });

  test("are not limited for administrators, the service key and SQL", async () => {
    const name = `operator${randomUUID()}`;
    const operators: Headers[] = [{ authorization: `Bearer ${service.token("admin")}` }, { apikey: serviceKey }];
    for (const [i, headers] of operators.entries())
      expect((await post("/rest/v1/users", users(LIMIT + 2, `${name}-${i}`), headers)).status).toBe(201);
    const text =
      "insert into public.users (name, email) select 'x', $1 || i || '@example.com' from generate_series(1, 10) as i";
    await service.database.owner.query(text, [`${name}-sql`]);
    expect(await countOf(`${name}%`)).toBe(2 * (LIMIT + 2) + 10);
  });

  test("are not limited if every caller may change every user (USERS_WRITE=open)", async () => {
    const open = await startTestService({ USERS_WRITE: "open", registrationsPerAddress: 1 });
    const headers = { apikey: open.service.tokens.issueKey("anon") };
    expect((await post("/users", users(3, "open"), headers, open)).status).toBe(201);
    expect((await post("/users", newUser(), headers, open)).status).toBe(201);
    await open.stop();
  });
});

describe("an e-mail that a caller has added without an account", () => {
  const register = (email: string, more: object = {}) =>
    post("/auth/register", { name: "Victim", email, password: PASSWORD, ...more }, from(newAddress()));

  test("is given to the person who registers, and nothing else of the row", async () => {
    const email = newEmail();
    await post("/rest/v1/users", { name: "Squatter", email, age: 99 }, from(newAddress()));
    const before = await userOf(email);
    const response = await register(email.toUpperCase());
    expect(response.status).toBe(201);
    const { user } = (await response.json()) as { user: { id: number } };
    expect(String(user.id)).not.toBe(before.id);
    expect(await byId(String(user.id))).toMatchObject({ name: "Victim", age: null, avatar_url: null });
    const after = await byId(before.id);
    expect(after).toMatchObject({ name: "Squatter", age: 99 });
    expect(after.email).toMatch(/^released-[-\da-f]{36}@users\.invalid$/);
    const { rows } = await service.database.owner.query(
      "select event, detail from public.security_events where user_id = $1",
      [before.id],
    );
    expect(rows).toMatchObject([{ event: "email_changed", detail: { from: email } }]);
  });

  test("is given to a user who changes the login e-mail", async () => {
    const email = newEmail();
    await post("/users", newUser(email), from(newAddress()));
    const headers = { authorization: `Bearer ${service.token("ada")}`, ...from(newAddress()) };
    expect((await post("/auth/email", { email }, headers)).status).toBe(200);
    expect((await userOf(email)).id).toBe("1");
  });

  test("stays if the registration fails", async () => {
    const email = newEmail();
    await post("/users", newUser(email), from(newAddress()));
    expect((await register(email, { username: "bob" })).status).toBe(409);
    expect(await userOf(email)).toMatchObject({ name: "New" });
  });

  test("is not given to a caller who adds another row", async () => {
    const email = newEmail();
    await post("/users", newUser(email), from(newAddress()));
    expect((await post("/users", newUser(email), from(newAddress()))).status).toBe(409);
  });

  test("stays with a user who has an account", async () => {
    const email = newEmail();
    expect((await register(email)).status).toBe(201);
    expect((await register(email)).status).toBe(409);
  });

  test.each([
    ["an administrator", () => ({ authorization: `Bearer ${service.token("admin")}` })],
    ["the service key", () => ({ apikey: serviceKey })],
  ])("stays with a user whom %s has added", async (_, headers) => {
    const email = newEmail();
    expect((await post("/rest/v1/users", newUser(email), { ...from(newAddress()), ...headers() })).status).toBe(201);
    expect((await register(email)).status).toBe(409);
    expect(await userOf(email)).toMatchObject({ name: "New" });
  });
});

import { expect, test } from "vitest";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { startTestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const client = useService({ USERS_EMAIL: "private", USERS_WRITE: "owner", GRAPHQL_UNINDEXED_FILTERS: "on" });
const apikey = () => client.service().service.tokens.issueKey("anon");
const as = (name: "ada" | "bob" | "admin") => ({ authorization: `Bearer ${client.token(name)}` });
const table = async (path: string, headers = {}) =>
  (await client.send(`/rest/v1/${path}`, { headers: { apikey: apikey(), ...headers } })).json;
const hidden = (id: number | string) => `hidden-${id}@users.invalid`;
const real = async (id: number | string) =>
  (await client.sql("select email from internal.private_emails where user_id = $1", id))[0]!.email;

/** Every answer of an interface about users, to every caller who is not an administrator. */
const QUESTIONS = [
  "/users",
  "/users/1",
  "/users?sort=email",
  "/users?keyword=ada@example",
  "/users?email=ada@example.com",
  "/api/v2/users?fields=email",
  "/users/1/articles",
  "/articles?fields=author.email",
  "/rest/v1/users",
  "/rest/v1/users?select=email",
  "/rest/v1/users?select=id&email=eq.ada@example.com",
  "/rest/v1/users?select=id&email=ilike.*example.com",
  "/rest/v1/users?select=id&or=(email.like.a*,email.like.b*)",
  "/rest/v1/users?select=id&order=email.desc",
  "/rest/v1/users?select=email.max(),email.min()",
  "/rest/v1/users?select=email,id.count()",
  "/rest/v1/articles?select=title,author:users!inner(email)&author.email=like.*example.com",
  "/rest/v1/articles?select=title,author:users(*)",
  "/rest/v1/rpc/search?keyword=ada@example.com",
];

test.each(QUESTIONS)("%s tells no e-mail to anyone but administrators", async (path) => {
  for (const headers of [{}, as("bob")]) {
    const { status, text } = await client.send(path, { headers: { apikey: apikey(), ...headers } });
    expect(status).toBeLessThan(500);
    expect(text).not.toContain("@example.com");
  }
});

test("filters and orders by e-mail depend on no e-mail", async () => {
  for (const pattern of ["ada@example.com", "*example*", "a*"])
    expect(await table(`users?select=id&email=ilike.${pattern}`)).toEqual([]);
  const byEmail = (await table("users?select=id&order=email")).map(({ id }: { id: number }) => hidden(id));
  expect(byEmail).toEqual([...byEmail].sort());
  expect((await client.send("/users?keyword=ada@example")).json).toEqual([]);
  const filter = "query ($e: String!) { usersConnection(filter: {email: {includes: $e}}) { totalCount } }";
  expect(await client.data(filter, { variables: { e: "example.com" } })).toEqual({
    usersConnection: { totalCount: 0 },
  });
  const { usersConnection } = await client.data(
    "{ usersConnection(orderBy: [EMAIL_DESC]) { edges { node { email } } } }",
  );
  expect(usersConnection.edges.map(({ node }: any) => node.email)).toEqual([...byEmail].reverse());
});

test("GraphQL shows placeholders, keeps the types of the contract, and shows each user their own e-mail", async () => {
  const query = "{ users(limit: 2) { id email privateEmail } }";
  const seen = (own: (string | null)[]) => ({
    users: [1, 2].map((id, i) => ({ id: String(id), email: hidden(id), privateEmail: own[i] })),
  });
  expect(await client.data(query)).toEqual(seen([null, null]));
  expect(await client.data(query, { as: "ada" })).toEqual(seen(["ada@example.com", null]));
  expect(await client.data(query, { as: "admin" })).toEqual(seen(["ada@example.com", "bob@example.com"]));
  expect(await client.data("{ me { email privateEmail } }", { as: "ada" })).toEqual({
    me: { email: "ada@example.com", privateEmail: "ada@example.com" },
  });
  const { articles } = await client.data(
    "{ articles(first: 1) { edges { node { author { id email privateEmail } } } } }",
  );
  const { author } = articles.edges[0].node;
  expect(author).toEqual({ id: author.id, email: hidden(author.id), privateEmail: null });
});

test("the table interface shows each user their own e-mail, and administrators all", async () => {
  const path = "users?select=id,email,users_private_email&id=in.(1,2)&order=id";
  const seen = (own: (string | null)[]) =>
    [1, 2].map((id, i) => ({ id, email: hidden(id), users_private_email: own[i] }));
  expect(await table(path)).toEqual(seen([null, null]));
  expect(await table(path, as("bob"))).toEqual(seen([null, "bob@example.com"]));
  expect(await table(path, as("admin"))).toEqual(seen(["ada@example.com", "bob@example.com"]));
  expect(await table("rpc/me", as("ada"))).toMatchObject({ id: 1, email: "ada@example.com" });
  expect((await client.send("/auth/me", { headers: as("ada") })).json.email).toBe("ada@example.com");
  const rpc = await sendJson(
    client,
    "/rest/v1/rpc/users_private_email",
    { person: { id: 2 } },
    { apikey: apikey(), ...as("ada") },
  );
  expect(rpc.json).toBeNull();
});

test("users sign up and sign in as before, and a taken e-mail is refused at every door", async () => {
  const email = "dora@example.com";
  const registered = await sendJson(client, "/auth/register", { name: "Dora", email, password: PASSWORD });
  expect(registered.status).toBe(201);
  const { id } = registered.json.user;
  expect(registered.json.user.email).toBe(hidden(id));
  const login = await sendJson(client, "/auth/login", { username: email, password: PASSWORD });
  expect([login.status, login.json.user.email]).toEqual([200, email]);
  const added = await sendJson(client, "/users", { name: "Emil", email: "emil@example.com" });
  expect([added.status, added.json.email]).toEqual([201, hidden(added.json.id)]);
  expect(await real(added.json.id)).toBe("emil@example.com");
  const create = 'mutation ($e: String!) { createUser(input: {name: "Fay", email: $e}) { id email } }';
  const { createUser } = await client.data(create, { variables: { e: "fay@example.com" } });
  expect(createUser.email).toBe(hidden(createUser.id));

  for (const taken of [email, "EMIL@example.com", "ada@example.com"]) {
    const refused = await sendJson(client, "/users", { name: "Eve", email: taken });
    expect([refused.status, refused.json.error.message]).toEqual([409, "email already registered"]);
    expect(await client.errors(create, { variables: { e: taken } })).toEqual([
      "RESOURCE_CONFLICT: email already registered",
    ]);
    const inserted = await sendJson(client, "/rest/v1/users", { name: "Eve", email: taken }, { apikey: apikey() });
    expect([inserted.status, inserted.json.code]).toEqual([409, "23505"]);
  }
  for (const malformed of ["nobody", hidden(1)]) {
    const refused = await sendJson(client, "/users", { name: "Eve", email: malformed });
    expect([refused.status, refused.json.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  }
  // A user whom a caller has added without an account loses the e-mail to a person who signs up.
  expect(
    (await sendJson(client, "/auth/register", { name: "Emil", email: "emil@example.com", password: PASSWORD })).status,
  ).toBe(201);
  expect(await real(added.json.id)).toMatch(/^released-/);
});

test("a user who sends back what they have read changes nothing, and a new e-mail is also the login e-mail", async () => {
  const put = (body: object) =>
    client.send("/users/2", {
      method: "PUT",
      headers: { "content-type": "application/json", ...as("bob") },
      body: JSON.stringify(body),
    });
  const { json } = await client.send("/users/2", { headers: as("bob") });
  expect((await put({ name: json.name, email: json.email, age: 50 })).json).toMatchObject({
    age: 50,
    email: hidden(2),
  });
  expect(await real(2)).toBe("bob@example.com");
  expect((await put({ name: json.name, email: "robert@example.com", age: 50 })).json.email).toBe(hidden(2));
  expect(await real(2)).toBe("robert@example.com");
  expect((await client.send("/auth/me", { headers: as("bob") })).json.email).toBe("robert@example.com");
  const changed = await sendJson(client, "/auth/email", { email: "bob@example.com" }, as("bob"));
  expect([changed.status, await real(2)]).toEqual([200, "bob@example.com"]);
});

test("streams and channels of the table have placeholders", async () => {
  const { url } = client.service();
  const stream = new EventStreamClient(`${url}/rest/v1/users?id=eq.2`, { headers: { apikey: apikey() } });
  await stream.take(1);
  await client.sql("update users set email = 'bobby@example.com', age = 51 where id = 2");
  await expect.poll(() => stream.text).toContain('"age":51');
  expect(stream.text).toContain(hidden(2));
  expect(stream.text).not.toContain("@example.com");
  await client.sql("update users set email = 'bob@example.com' where id = 2");
});

test("a subscription shows no e-mail of the author", async () => {
  const socket = connect(client.service());
  const events = await socket.subscribe("subscription { onArticleCreated { author { email privateEmail } } }");
  await client.article({ author: 1 });
  await events.expect({ onArticleCreated: { author: { email: hidden(1), privateEmail: null } } });
});

test("a restrictive policy that could hide users from the start refuses USERS_EMAIL=private, unless it is for callers only", async () => {
  const first = await startTestService({ USERS_EMAIL: "public" });
  const { owner } = first.database;
  await first.service.stop();
  const start = async () => {
    const database = { ...first.database, drop: async () => {} };
    const started = await startTestService({ USERS_EMAIL: "private" }, database as never);
    await started.service.stop();
  };
  const shown = async () =>
    (await owner.query("select count(*)::integer from users where email not like 'hidden-%'")).rows[0].count;
  const before = await shown();
  for (const roles of ["auth_owner", "public"]) {
    await owner.query(`create policy "only some" on users as restrictive to ${roles} using (id <> 2)`);
    await expect(start()).rejects.toThrow(
      'USERS_EMAIL=private cannot hide all e-mails: the restrictive policy "only some" on public.users applies to auth_owner',
    );
    expect(await shown()).toBe(before);
    await owner.query('drop policy "only some" on users');
  }
  await owner.query('create policy "only some" on users as restrictive to anon, authenticated using (id <> 2)');
  await start();
  expect(await shown()).toBe(0);
  await first.database.drop();
});

test("another USERS_EMAIL at the next start shows the e-mails or hides them again, and changes nothing else", async () => {
  const first = await startTestService({ USERS_EMAIL: "public" });
  const { owner, url } = first.database;
  const rows = async () => (await owner.query("select id, email, updated_at::text from users order by id")).rows;
  const before = await rows();
  const again = async (setting: string) => {
    const started = await startTestService({ USERS_EMAIL: setting }, {
      ...first.database,
      drop: async () => {},
    } as never);
    await started.service.stop();
    return rows();
  };
  expect(url).toBeDefined();
  await first.service.stop();
  expect(await again("private")).toEqual(before.map((row) => ({ ...row, email: hidden(row.id) })));
  expect(await again("public")).toEqual(before);
  const events = await owner.query("select from auth_private.security_events");
  expect(events.rows).toEqual([]);
  await first.database.drop();
});

import { createClient } from "@supabase/supabase-js";
import jwt from "jsonwebtoken";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { visit } from "../../support/visit.ts";
import { WebClient } from "../../support/web-client.ts";
import { oidcEntry, useFederated } from "../federated/support.ts";

const PASSWORD = "Correct-Horse-7!";
const server = await startMailServer();
const REQUIRED = { ...server.settings, EMAIL_CONFIRM: "required", registrationsPerAddress: 1000 };
const client = useService(REQUIRED);
/** Without a worker, so that all statements are those of the request. */
const unsent = useService({ ...REQUIRED, TASK_CONCURRENCY: "0" });

const closedToAll = useService({ ...server.settings, SIGNUP: "off" });

const user = (email: string) => ({ name: "Ida", email, password: PASSWORD });
const register = (email: string, more: object = {}, on = client) =>
  sendJson(on, "/auth/register", { ...user(email), ...more });
const login = async (username: string, password = PASSWORD) => {
  const { status, json } = await sendJson(client, "/auth/login", { username, password });
  return [status, json.error?.message ?? null];
};
const UNCONFIRMED = [401, expect.stringContaining("wrong username or password, or the e-mail is not confirmed")];

describe("with EMAIL_CONFIRM=required", () => {
  test("a new user signs in after the e-mail is confirmed, and not before", async () => {
    const email = "ida1@test.example";
    const { status, json } = await register(email);
    expect([status, json]).toEqual([
      202,
      { message: "an e-mail to confirm the address is on its way: sign in after that" },
    ]);
    expect(await login(email)).toEqual(UNCONFIRMED);
    expect(await login(email, "wrong")).toEqual(UNCONFIRMED);
    const basic = `Basic ${Buffer.from(`${email}:${PASSWORD}`).toString("base64")}`;
    expect((await client.send("/users/1", { headers: { authorization: basic } })).status).toBe(401);
    const { token } = linkIn(await server.next(email, /^Confirm/));
    expect((await sendJson(client, "/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
    expect(await login(email)).toEqual([200, null]);
  });

  test("a link to sign in confirms the e-mail too", async () => {
    const email = "ida2@test.example";
    await register(email);
    await sendJson(client, "/auth/login/mail", { email });
    const { token } = linkIn(await server.next(email, /^Sign in/));
    expect((await sendJson(client, "/auth/login/link", { token })).status).toBe(200);
  });

  test("an e-mail that is taken gets the same response with the same work, and its owner hears of it", async () => {
    const hash = vi.spyOn(argon2, "hash");
    const { service, database } = unsent.service();
    const answers = [];
    for (const email of ["ida3@test.example", "ada@example.com", "ADA@example.com"]) {
      const before = [service.databaseWaits(), hash.mock.calls.length];
      const { status, text, headers } = await register(email, {}, unsent);
      const work = [service.databaseWaits() - before[0]!, hash.mock.calls.length - before[1]!];
      answers.push(JSON.stringify([status, text, headers.get("location"), work]));
    }
    vi.restoreAllMocks();
    expect(new Set(answers).size).toBe(1);
    const { rows } = await database.owner.query("select kind, email from auth_private.mails order by created_at");
    expect(rows).toEqual([
      { kind: "confirm", email: "ida3@test.example" },
      { kind: "account-exists", email: "ada@example.com" },
      { kind: "account-exists", email: "ADA@example.com" },
    ]);
    const { rows: users } = await database.owner.query("select from users where email like '%-%-%-%@example.com'");
    expect(users).toEqual([]);
  });

  test("a client that registers an address does not learn from logins with the password whether it had an account", async () => {
    const answers = [];
    for (const email of ["ida9@test.example", "bob@example.com"]) {
      const password = "Guessed-Horse-7!";
      expect((await register(email, { password }, unsent)).status).toBe(202);
      const logins = [];
      for (let i = 0; i < 7; i++) {
        const { status, json } = await sendJson(unsent, "/auth/login", { username: email, password });
        logins.push([status, json.error.code, json.error.message.replace(/\d+ s/, "")]);
      }
      answers.push(logins);
    }
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]!.map(([status]) => status)).toEqual([401, 401, 401, 401, 401, 429, 429]);
  });

  test("supabase.auth.signUp gets a user without a session for every e-mail, and no session before the confirmation", async () => {
    const { url, service } = client.service();
    const options = { auth: { persistSession: false } };
    const { auth } = createClient(url, service.tokens.issueKey("anon"), options);
    const shapes = [];
    for (const email of ["ida8@test.example", "ada@example.com"]) {
      const { data, error } = await auth.signUp({ email, password: PASSWORD });
      expect([error, data.session, data.user?.email, data.user?.identities?.length]).toEqual([null, null, email, 1]);
      shapes.push(JSON.stringify(data.user, (name, value) => (/id$|_at$|^sub$|email$/.test(name) ? "…" : value)));
    }
    expect(shapes[0]).toBe(shapes[1]);
    const login = () => auth.signInWithPassword({ email: "ida8@test.example", password: PASSWORD });
    expect((await login()).error?.code).toBe("invalid_credentials");
    const { token } = linkIn(await server.next("ida8@test.example", /^Confirm/));
    await sendJson(client, "/auth/confirm", { token, password: PASSWORD });
    expect((await login()).data.session).not.toBeNull();
  });

  test("the id in the answer of supabase.auth.signUp does not tell whether the e-mail is taken, whatever ids users have", async () => {
    const { url, service, database } = unsent.service();
    // As if the ids of users were made by uuidv7().
    await database.owner.query(`
      create function public.age_id() returns trigger language plpgsql as $$
      begin
        new.public_id := overlay(new.public_id::text placing '7' from 15);
        return new;
      end $$;
      create trigger age_id before insert on auth_private.accounts for each row execute function public.age_id()`);
    onTestFinished(async () => {
      await database.owner.query("drop function public.age_id cascade");
    });
    const { auth } = createClient(url, service.tokens.issueKey("anon"), { auth: { persistSession: false } });
    for (const email of ["ida10@test.example", "ada@example.com"])
      expect((await auth.signUp({ email, password: PASSWORD })).data.user?.id[14]).toBe("4");
  });

  test("an error of the database does not tell whether the e-mail is taken", async () => {
    await client.sql("create unique index users_age_key on users (age) where age = 111");
    expect((await register("ida4@test.example", { age: 111 })).status).toBe(202);
    const answers = [];
    for (const email of ["ida5@test.example", "ada@example.com"]) {
      const { status, json } = await register(email, { age: 111 });
      answers.push(JSON.stringify([status, json.error.code, json.error.message]));
    }
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain("409");
    const weak = await Promise.all(
      ["ida5@test.example", "ada@example.com"].map((email) => register(email, { password: "short" })),
    );
    expect(weak[0]!.json.error.message).toBe(weak[1]!.json.error.message);
    expect(weak[0]!.status).toBe(400);
  });

  test("one mailbox gets at most 5 e-mails in an hour", async () => {
    const email = "ida6@test.example";
    for (let i = 0; i < 7; i++) expect((await register(email, {}, unsent)).status).toBe(202);
    const { rows } = await unsent
      .service()
      .database.owner.query("select from auth_private.mails where email = $1", [email]);
    expect(rows.length).toBe(5);
  });

  test("users from before, and those whom an administrator adds, sign in at once", async () => {
    expect(await login("ada@example.com")).toEqual([200, null]);
    const headers = { authorization: `Bearer ${client.token("admin")}` };
    expect((await sendJson(client, "/users", user("ida7@test.example"), headers)).status).toBe(201);
    expect(await login("ida7@test.example")).toEqual([200, null]);
  });

  const bob = () => ({ authorization: `Bearer ${client.token("bob")}` });
  const change = (email: string) => sendJson(client, "/auth/email", { email }, bob());

  test("another e-mail replaces the previous one after the link that it has received was used, and the previous one undoes it", async () => {
    const answers = [await change("robert@test.example"), await change("ADA@example.com"), await change("x@y")];
    expect(answers.map(({ status, text }) => [status, status === 202 ? text : "…"])).toEqual([
      [202, answers[0]!.text],
      [202, answers[0]!.text],
      [400, "…"],
    ]);
    // The owner of an address that is taken hears of it.
    expect((await server.next("ada@example.com")).subject).toBe("You have an account already");
    const { url, token } = linkIn(await server.next("robert@test.example", /^Confirm/));
    expect([await login("bob@example.com"), (await login("robert@test.example"))[0]]).toEqual([[200, null], 401]);
    await visit(client, url.slice(client.service().url.length));
    expect(await login("bob@example.com")).toEqual([200, null]);
    const statuses = (
      await Promise.all([1, 2].map(() => sendJson(client, "/auth/confirm", { token, password: PASSWORD })))
    ).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 401]);
    expect([(await login("bob@example.com"))[0], await login("robert@test.example")]).toEqual([401, [200, null]]);
    const me = await client.send("/auth/me", { headers: bob() });
    expect(me.json).toMatchObject({ email: "robert@test.example", emailConfirmed: true });
    expect((await client.sql("select email from users where id = 2"))[0]!.email).toBe("robert@test.example");
    const undo = linkIn(await server.next("bob@example.com", /has changed$/)).token;
    expect((await sendJson(client, "/auth/email/undo", { token: undo })).status).toBe(200);
    await client.sql(
      "update auth_private.accounts set password_hash = (select password_hash from auth_private.accounts where user_id = 3) where user_id = 2",
    );
    expect(await login("bob@example.com")).toEqual([200, null]);
  });

  test("a link of a change is not valid after another change, or after the address was taken", async () => {
    const newUser = async (name: string) => {
      const email = `${name}@test.example`;
      const headers = { authorization: `Bearer ${client.token("admin")}` };
      const { json } = await sendJson(client, "/users", user(email), headers);
      const pair = await sendJson(client, "/auth/login", { username: email, password: PASSWORD });
      return { id: json.id, headers: { authorization: `Bearer ${pair.json.accessToken}` } };
    };
    const [jon, kim] = [await newUser("jon"), await newUser("kim")];
    const tokenFor = async ({ headers }: typeof jon, email: string) => {
      expect((await sendJson(client, "/auth/email", { email }, headers)).status).toBe(202);
      return linkIn(await server.next(email, /^Confirm/)).token;
    };
    const [first, second] = [await tokenFor(jon, "jon2@test.example"), await tokenFor(jon, "jon3@test.example")];
    const same = await tokenFor(kim, "jon2@test.example");
    expect((await sendJson(client, "/auth/confirm", { token: first, password: PASSWORD })).status).toBe(200);
    expect((await sendJson(client, "/auth/confirm", { token: second })).status).toBe(401);
    expect((await sendJson(client, "/auth/confirm", { token: same, password: PASSWORD })).status).toBe(401);
  });

  test("a user requests at most 5 changes in an hour", async () => {
    const headers = { authorization: `Bearer ${client.token("admin")}` };
    const statuses = [];
    for (let i = 0; i < 6; i++)
      statuses.push((await sendJson(client, "/auth/email", { email: `victim${i}@test.example` }, headers)).status);
    expect(statuses).toEqual([202, 202, 202, 202, 202, 429]);
  });

  test("a changed e-mail of the user replaces the login e-mail in the same way", async () => {
    const { json: pair } = await sendJson(client, "/auth/login", { username: "bob@example.com", password: PASSWORD });
    const { status } = await client.send("/users/2", {
      method: "PATCH",
      headers: { "content-type": "application/json", authorization: `Bearer ${pair.accessToken}` },
      body: '{"email": "rob@test.example"}',
    });
    expect([status, (await login("rob@test.example"))[0], await login("bob@example.com")]).toEqual([
      200,
      401,
      [200, null],
    ]);
    const { token } = linkIn(await server.next("rob@test.example", /^Confirm/));
    expect((await sendJson(client, "/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
    expect(await login("rob@test.example")).toEqual([200, null]);
  });

  test("supabase.auth.updateUser returns the address that waits", async () => {
    const { url, service } = client.service();
    const { auth } = createClient(url, service.tokens.issueKey("anon"), { auth: { persistSession: false } });
    await auth.signInWithPassword({ email: "ada@example.com", password: PASSWORD });
    const { data, error } = await auth.updateUser({ email: "lovelace@test.example" });
    expect([error, data.user?.email, data.user?.new_email]).toEqual([null, "ada@example.com", "lovelace@test.example"]);
    const { token } = linkIn(await server.next("lovelace@test.example", /^Confirm/));
    expect((await sendJson(client, "/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
    expect((await auth.getUser()).data.user?.email).toBe("lovelace@test.example");
  });
});

describe("with EMAIL_CONFIRM=claim", () => {
  const claiming = useService({ ...server.settings, EMAIL_CONFIRM: "claim" });
  const claimOf = (token: string) => (jwt.decode(token) as jwt.JwtPayload).email_confirmed;

  test("users sign in before, and tokens and policies have the claim email_confirmed", async () => {
    await claiming.sql(`
      create function public.is_confirmed() returns text language sql stable return auth.claims() ->> 'email_confirmed';
      grant execute on function public.is_confirmed() to authenticated;`);
    const email = "lea@test.example";
    const { status, json } = await register(email, {}, claiming);
    expect([status, claimOf(json.accessToken), json.user.email]).toEqual([201, false, email]);
    const asked = async (headers: Record<string, string>) =>
      (
        await claiming.send("/rest/v1/rpc/is_confirmed", {
          headers: { apikey: claiming.service().service.tokens.issueKey("anon"), ...headers },
        })
      ).json;
    const basic = { authorization: `Basic ${btoa(`${email}:${PASSWORD}`)}` };
    const key = await sendJson(
      claiming,
      "/auth/keys",
      { name: "mine" },
      { authorization: `Bearer ${json.accessToken}` },
    );
    const keyed = { "x-api-key": key.json.key };
    await expect.poll(() => asked(basic)).toBe("false");
    expect([await asked({ authorization: `Bearer ${json.accessToken}` }), await asked(keyed)]).toEqual([
      "false",
      "false",
    ]);
    expect((await register(email, {}, claiming)).status).toBe(409);
    const { token } = linkIn(await server.next(email, /^Confirm/));
    expect((await sendJson(claiming, "/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
    await expect.poll(() => asked(keyed)).toBe("true");
    expect(await asked(basic)).toBe("true");
    const next = await sendJson(claiming, "/auth/refresh", { refreshToken: json.refreshToken });
    expect(claimOf(next.json.accessToken)).toBe(true);
  });

  test("another e-mail waits for its link", async () => {
    const headers = { authorization: `Bearer ${claiming.token("ada")}` };
    expect((await sendJson(claiming, "/auth/email", { email: "ada3@test.example" }, headers)).status).toBe(202);
    expect((await claiming.send("/auth/me", { headers })).json.email).toBe("ada@example.com");
  });
});

describe("with SIGNUP=off", () => {
  const closed = useService({ SIGNUP: "off", GRAPHQL_DOCUMENTS: "any", USERS_WRITE: "open" });
  const as = (name: "ada" | "admin") => ({ authorization: `Bearer ${closed.token(name)}` });
  const CLOSED = "sign-up is closed: ask the operator of this service for an account";
  const CREATE = 'mutation ($email: String!) { createUser(input: { name: "Eve", email: $email }) { id } }';
  let count = 0;
  const eve = (more: object = {}) => ({ name: "Eve", email: `eve${++count}@test.example`, ...more });

  test("no door is open to callers, signed in or not", async () => {
    const { service } = closed.service();
    const table = { apikey: service.tokens.issueKey("anon") };
    const answers = [];
    for (const headers of [{}, as("ada")]) {
      answers.push(await sendJson(closed, "/users", eve(), headers));
      answers.push(await sendJson(closed, "/users", eve({ password: PASSWORD }), headers));
      answers.push(await sendJson(closed, "/rest/v1/users", eve(), { ...table, ...headers }));
    }
    answers.push(await sendJson(closed, "/auth/register", eve({ password: PASSWORD })));
    const seen = answers.map(({ status, json }) => [status, json.error?.message ?? json.message]);
    expect(seen).toEqual(answers.map(() => [403, expect.stringMatching(/^sign-up is closed/)]));
    expect(seen).toContainEqual([403, CLOSED]);
    const { auth } = createClient(closed.service().url, table.apikey, { auth: { persistSession: false } });
    const { error } = await auth.signUp({ email: "eve@test.example", password: PASSWORD });
    expect([error?.code, error?.message]).toEqual(["signup_disabled", "Signups not allowed for this instance"]);
    const variables = { email: "eve@test.example" };
    expect(await closed.errors(CREATE, { variables })).toEqual([expect.stringContaining("sign-up is closed")]);
    expect(await closed.errors(CREATE, { variables, as: "ada" })).toEqual([
      expect.stringMatching(/^PERMISSION_DENIED: sign-up is closed/),
    ]);
    expect(await closed.sql("select from users where name = 'Eve'")).toEqual([]);
  });

  test("administrators and the service key add users", async () => {
    const { service } = closed.service();
    const key = service.tokens.issueKey("service_role");
    const created = [
      await sendJson(closed, "/users", eve(), as("admin")),
      await sendJson(closed, "/users", eve({ password: PASSWORD }), as("admin")),
      await sendJson(closed, "/rest/v1/users", eve(), { apikey: key }),
    ];
    expect(created.map(({ status }) => status)).toEqual([201, 201, 201]);
    const { email } = JSON.parse(JSON.stringify(created[1]!.json));
    expect((await sendJson(closed, "/auth/login", { username: email, password: PASSWORD })).status).toBe(200);
  });

  test("another application adds users with a login of its own, whatever role it has become", async () => {
    const { owner, url } = closed.service().database;
    const clerk = `clerk_${process.pid}`;
    await owner.query(`create role ${clerk} login password 'secret' in role users_editor;
      grant insert on users to users_editor;
      create policy clerks on users for insert to users_editor with check (true)`);
    const target = new URL(url);
    target.username = clerk;
    target.password = "secret";
    const other = new pg.Client(target.href);
    try {
      await other.connect();
      await other.query("set role users_editor");
      const { rowCount } = await other.query("insert into users (name, email) values ('Eve', 'clerk@test.example')");
      expect(rowCount).toBe(1);
    } finally {
      await other.end();
      await owner.query(`drop role ${clerk}`);
    }
  });

  test("changes of users are as before", async () => {
    const { status } = await closed.send("/users/1", {
      method: "PATCH",
      headers: { "content-type": "application/json", ...as("ada") },
      body: '{"age": 40}',
    });
    expect(status).toBe(200);
  });
});

describe("with SIGNUP=invite", () => {
  const invited = useService({ ...server.settings, SIGNUP: "invite" });
  const as = (name: "ada" | "admin") => ({ authorization: `Bearer ${invited.token(name)}` });
  const invite = (email: string, headers: Record<string, string> = as("admin"), more: object = {}) =>
    sendJson(invited, "/auth/invitations", { email, ...more }, headers);
  const accept = (token: string, more: object = {}) =>
    sendJson(invited, "/auth/invitations/accept", { token, name: "Jane", password: PASSWORD, ...more });
  const tokenFor = async (email: string, more: object = {}) => {
    expect((await invite(email, as("admin"), more)).status).toBe(202);
    return linkIn(await server.next(email, /^You are invited/)).token;
  };

  test("administrators and the service key invite, and others do not", async () => {
    const key = { authorization: `Bearer ${invited.service().service.tokens.issueKey("service_role")}` };
    expect((await invite("jane1@test.example", key)).status).toBe(202);
    expect([
      (await invite("jane1@test.example", as("ada"))).status,
      (await invite("jane1@test.example", {})).status,
    ]).toEqual([403, 401]);
    expect((await sendJson(invited, "/auth/register", user("jane1@test.example"))).status).toBe(403);
  });

  test("the link makes one account, whose e-mail is confirmed", async () => {
    const token = await tokenFor("jane2@test.example");
    expect((await accept(token, { password: "short" })).status).toBe(400);
    const answers = await Promise.all([accept(token), accept(token)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401]);
    const { json } = answers.find(({ status }) => status === 200)!;
    expect(json.user).toMatchObject({ name: "Jane", email: "jane2@test.example", emailConfirmed: true });
    expect(
      (await sendJson(invited, "/auth/login", { username: "jane2@test.example", password: PASSWORD })).status,
    ).toBe(200);
    expect((await accept(token)).status).toBe(401);
  });

  test("the page of the link makes it too, and signs the browser in", async () => {
    const token = await tokenFor("jane3@test.example", { returnTo: "/welcome" });
    const page = await visit(invited, `/auth/link?token=${token}`);
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('name="name"')]);
    const send = (fields: Record<string, string>) => visit(invited, "/auth/link", { token, ...fields });
    const missing = await send({ password: PASSWORD });
    expect([missing.status, missing.text]).toEqual([400, expect.stringContaining("Name is required.")]);
    const { status, location, cookie } = await send({ name: "Jane", password: PASSWORD });
    expect([status, location, cookie]).toEqual([303, "/welcome", expect.stringMatching(/^SESSION=./)]);
  });

  test("an address that has an account hears of that, and an expired invitation makes none", async () => {
    expect((await invite("ada@example.com")).status).toBe(202);
    expect((await server.next("ada@example.com")).subject).toBe("You have an account already");
    const token = await tokenFor("jane4@test.example");
    const [row] = await invited.sql(
      "update auth_private.one_time_tokens set expires_at = now() where email = $1 returning kind, user_id",
      "jane4@test.example",
    );
    expect(row).toEqual({ kind: "invitation", user_id: null });
    expect((await accept(token)).status).toBe(401);
  });

  test("nothing is invited with SIGNUP=off", async () => {
    const { status } = await sendJson(
      closedToAll,
      "/auth/invitations",
      { email: "jane5@test.example" },
      { authorization: `Bearer ${closedToAll.token("admin")}` },
    );
    expect(status).toBe(403);
  });
});

describe("with SIGNUP=off, a first sign-in at a provider", () => {
  const federated = useFederated({ entries: (idp) => [oidcEntry(idp)], settings: { SIGNUP: "off" } });

  test("makes no account", async () => {
    const page = await federated.signIn(new WebClient(), "/auth/oidc/acme");
    expect(page.status).toBe(403);
    expect(await federated.sql("select from auth_private.identities")).toEqual([]);
  });
});

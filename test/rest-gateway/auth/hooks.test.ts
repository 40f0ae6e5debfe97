import { readFileSync } from "node:fs";
import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { appCode } from "../../support/totp.ts";
import { POLL } from "../../support/until.ts";

// The examples of docs/applications.md.

const PASSWORD = "Correct-Horse-7!";
/** Of `U*U`. */
const HASH = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const GUIDE = readFileSync("docs/applications.md", "utf8");
const exampleOf = (heading: string): string =>
  /```sql\n([\s\S]*?)```/.exec(GUIDE.slice(GUIDE.indexOf(`${heading}\n`)))![1]!;

const server = await startMailServer();
const client = useService({ ...server.settings, mailsPerAddress: 1000, LOGIN_ATTEMPTS: "3" });
const post = (path: string, body: object, headers = {}) => sendJson(client, path, body, headers);
const credentials = { username: "ada", password: PASSWORD };
const basic = { authorization: `Basic ${btoa(`bob:${PASSWORD}`)}` };

beforeAll(async () => {
  for (const heading of ["## Hooks", "## After a sign-in", "## Send an e-mail yourself"])
    await client.sql(exampleOf(heading));
  // Otherwise a sign-in by e-mail removes the password.
  await client.sql("update auth_private.accounts set email_confirmed_at = now()");
});

test("before_sign_up of docs/applications.md refuses a user with its message", async () => {
  const user = (email: string) => post("/auth/register", { name: "Dora", email, password: PASSWORD });
  const { status, json } = await user("dora@test.example");
  expect([status, json.error.message]).toEqual([403, "only employees may sign up"]);
  expect((await user("dora@example.com")).status).toBe(201);
});

test("before_sign_up changes the fields of a new user, and after_sign_up gets them with the id, in the same transaction", async () => {
  await client.sql(`
    create table internal.welcomes (id bigint, fields jsonb); grant insert on internal.welcomes to auth_owner;
    create function internal.rename(fields jsonb) returns jsonb language sql return fields || '{"name": "Vera", "age": 30}';
    create function internal.welcome(id bigint, fields jsonb) returns void language plpgsql as $$ begin
      insert into internal.welcomes values (id, fields);
      if fields ->> 'email' ~ 'undone' then raise insufficient_privilege using message = 'not today'; end if;
    end $$;
    grant execute on function internal.rename(jsonb), internal.welcome(bigint, jsonb) to auth_owner;
    select auth.use_hook('before_sign_up', 'internal.rename(jsonb)');
    select auth.use_hook('after_sign_up', 'internal.welcome(bigint, jsonb)')`);
  const register = (email: string) => post("/auth/register", { name: "Eve", email, password: PASSWORD });
  const refused = await register("undone@example.com");
  expect([refused.status, refused.json.error.message]).toEqual([403, "not today"]);
  const { user } = (await register("vera@example.com")).json;
  expect(user).toMatchObject({ name: "Vera", age: 30 });
  const fields = { name: "Vera", email: "vera@example.com", age: 30 };
  expect(await client.sql("select * from internal.welcomes")).toEqual([{ id: String(user.id), fields }]);
  for (const point of ["before_sign_up", "after_sign_up"]) await client.sql(`select auth.use_hook('${point}', null)`);
});

test("new_email of docs/applications.md refuses another e-mail with its message", async () => {
  const [example] = /create function internal\.check_new_email[^`]*/.exec(GUIDE)!;
  await client.sql(example);
  await post("/auth/register", { name: "Fay", email: "fay@example.com", password: PASSWORD });
  const { json } = await post("/auth/login", { username: "fay@example.com", password: PASSWORD });
  const change = (email: string) => post("/auth/email", { email }, { authorization: `Bearer ${json.accessToken}` });
  const refused = await change("fay@test.example");
  expect([refused.status, refused.json.error.message]).toEqual([403, "your e-mail must end with @example.com"]);
  expect((await change("fay.too@example.com")).status).toBe(200);
  await client.sql("select auth.use_hook('new_email', null)");
});

test("claims of docs/applications.md has the rights of an e-mail only after it is confirmed", async () => {
  await client.sql(exampleOf("## Claims from a table of yours"));
  await client.sql("insert into internal.staff values ('may@example.com', 7)");
  await post("/auth/register", { name: "May", email: "May@example.com", password: PASSWORD });
  const claims = async () => {
    const { json } = await post("/auth/login", { username: "may@example.com", password: PASSWORD });
    return jwt.decode(json.accessToken) as jwt.JwtPayload;
  };
  expect(await claims()).not.toHaveProperty("clinic_id");
  await client.sql("update auth_private.accounts set email_confirmed_at = now() where name = 'May'");
  expect(await claims()).toMatchObject({ name: "May", clinic_id: 7 });
  await client.sql("select auth.use_hook('claims', null)");
});

test("the triggers of docs/applications.md keep name and e-mail of an account like those of the user", async () => {
  await client.sql(`
    drop trigger _300_login_email_insert on public.users; drop trigger _300_login_email_update on public.users;
    drop trigger _600_email on public.users; drop trigger _600_name on public.users`);
  await client.sql(exampleOf("## Triggers"));
  await post("/auth/register", { name: "Gil", email: "gil@example.com", password: PASSWORD });
  const { json } = await post("/auth/login", { username: "gil@example.com", password: PASSWORD });
  const headers = { authorization: `Bearer ${json.accessToken}`, "content-type": "application/json" };
  const change = (fields: object) =>
    client.send(`/users/${json.user.id}`, { method: "PATCH", headers, body: JSON.stringify(fields) });
  expect((await change({ name: "Gilbert", email: "gilbert@example.com" })).status).toBe(200);
  const me = async () => (await client.send("/auth/me", { headers })).json;
  expect(await me()).toMatchObject({ name: "Gilbert", email: "gilbert@example.com" });
  // By another application.
  await client.sql("update users set email = 'elsewhere@example.com' where id = $1", json.user.id);
  expect((await me()).email).toBe("gilbert@example.com");
  await expect(
    client.sql("update users set email = 'gilbert@example.com' where id = (select min(id) from users)"),
  ).rejects.toThrow("email already registered");
});

test("the trigger of docs/applications.md makes accounts for users whom another application adds, and for no others", async () => {
  await client.sql(exampleOf("### While another application adds users"));
  const [hal] = await client.sql("insert into users (name, email) values ('Hal', 'hal@example.com') returning id");
  expect(await client.sql("select auth.has_account($1)", hal!.id)).toEqual([{ has_account: true }]);
  const { status } = await post("/auth/register", { name: "Ida", email: "ida@example.com", password: PASSWORD });
  expect(status).toBe(201);
});

test("the triggers of docs/applications.md follow the passwords and e-mails of another application, and no request", async () => {
  await client.sql("alter table public.users add column password_hash text");
  await client.sql(exampleOf("### While another application changes passwords and e-mails"));
  await post("/auth/register", { name: "Kim", email: "kim@example.com", password: PASSWORD });
  const signIn = async (username: string, password: string) => {
    await client.sql("delete from auth_private.attempts");
    return post("/auth/login", { username, password });
  };
  const statuses = async (...logins: [string, string][]) => {
    const found: number[] = [];
    for (const login of logins) found.push((await signIn(...login)).status);
    return found;
  };
  const change = (set: string) => client.sql(`update public.users set ${set} where name = 'Kim'`);
  const { json } = await signIn("kim@example.com", PASSWORD);
  const me = async () =>
    (await client.send("/auth/me", { headers: { authorization: `Bearer ${json.accessToken}` } })).status;
  expect(await me()).toBe(200);
  await change(`password_hash = '${HASH}'`);
  await expect.poll(me, POLL).toBe(401);
  expect(await statuses(["kim@example.com", PASSWORD], ["kim@example.com", "U*U"])).toEqual([401, 200]);

  await change("email = 'kim.new@example.com'");
  expect(await statuses(["kim@example.com", "U*U"], ["kim.new@example.com", "U*U"])).toEqual([401, 200]);
  expect(await client.sql("select from auth_private.login_emails where email = 'kim@example.com'")).toEqual([]);
  await change("email = 'KIM.NEW@example.com'");
  expect(await statuses(["kim.new@example.com", "U*U"])).toEqual([200]);
  await client.sql(`begin; set local role service_role;
    update public.users set email = 'thief@example.com' where name = 'Kim'; commit`);
  expect(await statuses(["thief@example.com", "U*U"], ["kim.new@example.com", "U*U"])).toEqual([401, 200]);

  await change("password_hash = '!'");
  expect(await statuses(["kim.new@example.com", "U*U"])).toEqual([401]);
  // A text that is no hash in place of another: the password that the user has set here stays.
  await client.sql(`update auth_private.accounts set password_hash = '${HASH}' where name = 'Kim'`);
  await change("password_hash = ''");
  expect(await statuses(["kim.new@example.com", "U*U"])).toEqual([200]);
});

test("the triggers of docs/applications.md sign a user out whom another application deactivates, until it activates the user again", async () => {
  await client.sql("alter table public.users add column is_active boolean not null default true");
  await client.sql(exampleOf("### While another application deactivates users"));
  await post("/auth/register", { name: "Jon", email: "jon@example.com", password: PASSWORD });
  const jon = { username: "jon@example.com", password: PASSWORD };
  const { json } = await post("/auth/login", jon);
  const me = async () =>
    (await client.send("/auth/me", { headers: { authorization: `Bearer ${json.accessToken}` } })).status;
  expect(await me()).toBe(200);
  await client.sql("update users set is_active = false where id = $1", json.user.id);
  await expect.poll(me, POLL).toBe(401);
  expect((await post("/auth/refresh", { refreshToken: json.refreshToken })).status).toBe(401);
  expect((await post("/auth/login", jon)).status).toBe(403);
  // Other changes of the row do not enable the account.
  await client.sql("update users set name = 'John' where id = $1", json.user.id);
  expect((await post("/auth/login", jon)).status).toBe(403);
  await client.sql("update users set is_active = true where id = $1", json.user.id);
  expect((await post("/auth/login", jon)).status).toBe(200);
});

describe("after_sign_in", () => {
  const suspend = (id: number) => client.sql("insert into internal.suspensions values ($1, 'unpaid')", id);
  const REFUSED = "your account is suspended: unpaid";

  test("of docs/applications.md refuses each way to sign in with its message, and no attempt counts", async () => {
    await suspend(1);
    expect((await post("/auth/login/mail", { email: "ada@example.com" })).status).toBe(202);
    const letter = () => client.sql("delete from internal.letters returning message");
    await expect.poll(async () => (letters ??= (await letter())[0])).toBeDefined();
    const { token } = letters!.message.values;
    const anonKey = client.service().service.tokens.issueKey("anon");
    const v1 = { email: "ada@example.com", password: PASSWORD };
    const sessions = () => client.sql("select count(*)::integer from auth_private.sessions where user_id = 1");
    const before = await sessions();
    for (let i = 0; i < 4; i++) {
      const { status, json } = await post("/auth/login", credentials);
      expect([status, json.error.code, json.error.message]).toEqual([403, "PERMISSION_DENIED", REFUSED]);
    }
    const cookie = await post("/api/auth/login", credentials);
    const link = await post("/auth/login/link", { token });
    expect([cookie, link].map(({ status, json }) => [status, json.error.message])).toEqual([
      [403, REFUSED],
      [403, REFUSED],
    ]);
    expect(cookie.headers.get("set-cookie")).toBeNull();
    const wire = await post("/auth/v1/token?grant_type=password", v1, { apikey: anonKey });
    expect([wire.status, wire.json.msg]).toEqual([403, REFUSED]);
    const ofRequest = { authorization: `Basic ${btoa(`ada:${PASSWORD}`)}` };
    expect((await client.send("/auth/me", { headers: ofRequest })).json.error.message).toBe(REFUSED);
    expect(await sessions()).toEqual(before);
    const events = await client.sql(
      "select event, detail from auth_private.security_events where user_id = 1 order by id desc limit 8",
    );
    expect(events.every(({ event, detail }) => event === "login_refused" && detail.reason === "hook")).toBe(true);
    await client.sql("delete from internal.suspensions");
    expect((await post("/auth/login", credentials)).status).toBe(200);
    // A refusal does not spend the link; a sign-in does.
    expect((await post("/auth/login/link", { token })).status).toBe(200);
    expect((await post("/auth/login/link", { token })).status).toBe(401);
  });
  let letters: Record<string, any> | undefined;

  test("that refuses the code of an e-mail does not spend it, and wrong codes still count", async () => {
    const apikey = client.service().service.tokens.issueKey("anon");
    const verify = async (token: string) => {
      const sent = { email: "admin@example.com", token, type: "email" };
      const { status, json } = await post("/auth/v1/verify", sent, { apikey });
      return [status, json.error_code ?? json.user.email];
    };
    const newCode = async () => {
      await client.sql("delete from internal.letters");
      await post("/auth/login/mail", { email: "admin@example.com" });
      await expect.poll(() => client.sql("select from internal.letters"), { timeout: 120_000 }).toHaveLength(1);
      return (await client.sql("select message from internal.letters"))[0]!.message.values.code as string;
    };
    const attempts = async () =>
      (await client.sql("select attempts from auth_private.one_time_tokens where email = 'admin@example.com'"))[0];
    const code = await newCode();
    await suspend(3);
    const wrong = code === "000000" ? "111111" : "000000";
    expect(await verify(wrong)).toEqual([403, "otp_expired"]);
    for (let i = 0; i < 2; i++) expect((await verify(code))[0]).toBe(403);
    expect(await attempts()).toEqual({ attempts: 1 });
    expect(await verify(wrong)).toEqual([403, "otp_expired"]);
    expect(await attempts()).toEqual({ attempts: 2 });
    await client.sql("delete from internal.suspensions");
    await client.sql("delete from auth_private.attempts");
    expect(await verify(code)).toEqual([200, "admin@example.com"]);
    expect(await verify(code)).toEqual([403, "otp_expired"]);
    await client.sql("delete from auth_private.attempts");
    await client.sql("delete from internal.letters");
  });

  test("before_sign_up refuses the user whom the code of an e-mail creates, with its message, and does not spend the code", async () => {
    const email = "gus@test.example";
    const apikey = client.service().service.tokens.issueKey("anon");
    await client.sql("select auth.use_hook('before_sign_up', 'internal.check_domain(jsonb)')");
    expect((await post("/auth/v1/otp", { email }, { apikey })).status).toBe(200);
    await expect.poll(() => client.sql("select from internal.letters"), { timeout: 120_000 }).toHaveLength(1);
    const [letter] = await client.sql("delete from internal.letters returning message");
    const signIn = () => post("/auth/login/code", { email, code: letter!.message.values.code });
    const { status, json } = await signIn();
    expect([status, json.error.message]).toEqual([403, "only employees may sign up"]);
    await client.sql("select auth.use_hook('before_sign_up', null)");
    expect((await signIn()).status).toBe(200);
  });

  test("does not make the link of a refused sign-in valid again after the account has changed", async () => {
    const { rows } = await client.service().database.owner.query(
      `with token as (
         insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, data, expires_at)
         values (sha256('held'), 'sign-in', '1', 'ada@example.com', '{}', now() + interval '1 hour')
         returning *)
       select to_jsonb(token) as token, a.epoch
       from token join auth_private.accounts as a on a.user_id = token.user_id`,
    );
    const [{ token, epoch }] = rows;
    await client.sql("delete from auth_private.one_time_tokens where token_hash = sha256('held')");
    const returned = async (at: number) => {
      await client.sql("select auth_api.return_mail_token($1, 1, $2)", JSON.stringify(token), at);
      return client.sql("delete from auth_private.one_time_tokens where token_hash = sha256('held') returning kind");
    };
    expect(await returned(epoch - 1)).toEqual([]);
    expect(await returned(epoch)).toEqual([{ kind: "sign-in" }]);
  });

  test("gets method, session, network and device, in the transaction of the sign-in", async () => {
    await client.sql(`
      create table internal.sign_ins (at bigint generated always as identity, user_id bigint, sign_in jsonb, was_open boolean);
      create function internal.note_sign_in(id bigint, sign_in jsonb) returns void
      language sql security definer set search_path = '' as $$
        insert into internal.sign_ins (user_id, sign_in, was_open)
        select id, sign_in, exists (
          select from auth_private.sessions as s where s.id::text = sign_in ->> 'session' and s.xmin = pg_current_xact_id()::xid)
      $$;
      grant execute on function internal.note_sign_in(bigint, jsonb) to auth_owner;
      select auth.use_hook('after_sign_in', 'internal.note_sign_in(bigint, jsonb)');`);
    const noted = async () =>
      (await client.sql("delete from internal.sign_ins returning user_id::integer as user, sign_in, was_open"))[0]!;
    const agent = (name: string) => ({ "user-agent": name });
    const { json } = await post("/auth/login", { ...credentials, username: "bob" }, agent("curl/8"));
    const me = await client.send("/auth/me", { headers: { authorization: `Bearer ${json.accessToken}` } });
    expect(await noted()).toEqual({
      user: 2,
      was_open: true,
      sign_in: {
        ...{ method: "password", methods: ["password"], aal: 1, provider: null, kind: "token" },
        ...{ session: me.json.session.id, device: "curl", isNewDevice: false, network: "127.0.0.0/24" },
      },
    });
    await post("/api/auth/login", { ...credentials, username: "bob" }, agent("wget/1"));
    expect((await noted()).sign_in).toMatchObject({ kind: "cookie", device: "wget", isNewDevice: true });
    await post("/auth/login", { ...credentials, username: "bob" }, agent("wget/1"));
    expect((await noted()).sign_in).toMatchObject({ kind: "token", isNewDevice: false });

    expect((await client.send("/auth/me", { headers: basic })).status).toBe(200);
    expect((await noted()).sign_in).toMatchObject({ kind: "request", session: null, method: "password" });
    expect((await post("/auth/refresh", { refreshToken: json.refreshToken })).status).toBe(200);
    expect(await client.sql("select from internal.sign_ins")).toEqual([]);
  });

  test("gets all proofs of a sign-in by e-mail with a second factor", async () => {
    const { json } = await post("/auth/login", { ...credentials, username: "bob" });
    const headers = { authorization: `Bearer ${json.accessToken}` };
    const enabled = await post("/api/mfa/enable", {}, headers);
    const code = appCode(enabled.json.secret, Date.now());
    const [backup] = (await post("/api/mfa/verify", { code }, headers)).json.backupCodes;
    await post("/auth/login/mail", { email: "bob@example.com" });
    const find = async () => (await client.sql("select message from internal.letters"))[0]?.message.values.token;
    await expect.poll(find).toBeDefined();
    const asked = await post("/auth/login/link", { token: await find() });
    const { challenge } = asked.json.error;
    await client.sql("delete from internal.sign_ins");
    expect((await post("/auth/login", { challenge: challenge ?? asked.json.challenge, code: backup })).status).toBe(
      200,
    );
    expect((await client.sql("select sign_in from internal.sign_ins"))[0]!.sign_in).toMatchObject({
      method: "otp",
      methods: ["totp", "otp"],
      aal: 2,
    });
  });

  test("that lacks a right is an internal error, and no attempt counts", async () => {
    await client.sql(`
      create function internal.broken(id bigint, sign_in jsonb) returns void language plpgsql as $$
      begin perform from internal.suspensions; end $$;
      grant execute on function internal.broken(bigint, jsonb) to auth_owner;
      select auth.use_hook('after_sign_in', 'internal.broken(bigint, jsonb)');`);
    expect((await post("/auth/login", credentials)).status).toBe(500);
    await client.sql("select auth.use_hook('after_sign_in', null)");
    expect((await post("/auth/login", credentials)).status).toBe(200);
  });
});

describe("send_message", () => {
  test("of docs/applications.md takes its e-mails once, with all that a template may name, and the service sends the others", async () => {
    await client.sql("delete from internal.letters");
    await post("/auth/forgot", { email: "admin@example.com", returnTo: "/welcome" });
    await expect.poll(() => client.sql("select from internal.letters")).toHaveLength(1);
    const [{ message }] = (await client.sql("select message from internal.letters")) as [Record<string, any>];
    expect(message).toMatchObject({
      ...{ kind: "reset", to: "admin@example.com", userId: 3, language: "en", subject: "Reset your password" },
      ...{
        text: expect.stringContaining("60 minutes"),
        html: expect.stringContaining("<html"),
        returnTo: `${client.service().url}/welcome`,
      },
      values: { email: "admin@example.com", link: expect.stringContaining("/auth/link?token="), minutes: "60" },
    });
    expect(await client.sql("select from auth_private.mails where kind = 'reset'")).toEqual([]);
    const { token } = linkIn({ text: message.text });
    expect(message.values.token).toBe(token);
    const changed = await post("/auth/reset", { token, password: "Another-Horse-9?" });
    expect(changed.status).toBe(200);
    // A notice, which the hook leaves to the service.
    expect((await server.next("admin@example.com")).subject).toBe("Your password has changed");
    expect(server.mails.filter(({ subject }) => subject === "Reset your password")).toEqual([]);
  });

  test("is tried again after an error, and what it had written is undone", async () => {
    await client.sql("delete from internal.letters; alter table internal.letters add constraint closed check (false)");
    await post("/auth/forgot", { email: "bob@example.com" });
    const failed = () => client.sql("select last_error from graphile_worker.jobs where last_error like '%closed%'");
    await expect.poll(failed).toHaveLength(1);
    expect(await client.sql("select from auth_private.mails where kind = 'reset' and sent_at is null")).toHaveLength(1);
    await client.sql("alter table internal.letters drop constraint closed");
    await expect.poll(() => client.sql("select from internal.letters")).toHaveLength(1);
  });
});

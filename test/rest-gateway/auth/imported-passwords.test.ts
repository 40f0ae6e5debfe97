import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

/** Published test vectors: password-hashes.test.ts has their sources. */
const PASSWORD = "U*U";
const BCRYPT = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const DJANGO = "$pbkdf2-sha256$i=100000$c2Vhc2FsdDI$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI";
const NEW = "Another-Horse-9?";

const client = useService({ LOGIN_ATTEMPTS: "1000", loginAttemptsPerAddress: 10_000, GRAPHQL_DOCUMENTS: "none" });
const { sql } = client;

const stored = async () =>
  (await sql("select password_hash as hash from auth_private.accounts where user_id = 2"))[0]!.hash;
const give = (hash: string) => sql("update auth_private.accounts set password_hash = $1 where user_id = 2", hash);
const epoch = async () => (await sql("select epoch from auth_private.accounts where user_id = 2"))[0]!.epoch;
const events = async () => (await sql("select event from security_events order by id")).map(({ event }) => event);
beforeEach(async () => {
  await give(BCRYPT);
  await sql("delete from auth_private.attempts");
  await sql("delete from auth_private.security_events");
});

const login = (password = PASSWORD, username = "bob", path = "/auth/login") =>
  sendJson(client, path, { username, password });
const basic = (password = PASSWORD) =>
  client.send("/auth/me", { headers: { authorization: `Basic ${btoa(`bob:${password}`)}` } });
const grant = (password = PASSWORD) =>
  sendJson(client, "/auth/v1/token?grant_type=password", { email: "bob@example.com", password });

describe.each([
  ["/auth/login", () => login(), () => login("u*u")],
  ["/api/auth/login", () => login(PASSWORD, "bob", "/api/auth/login"), () => login("u*u", "bob", "/api/auth/login")],
  ["Basic credentials", () => basic(), () => basic("u*u")],
  ["/auth/v1/token", () => grant(), () => grant("u*u")],
])("with an imported hash, %s", (_door, right, wrong) => {
  test("accepts the password, and replaces the hash by argon2id, which ends nothing", async () => {
    const before = await epoch();
    expect((await right()).status).toBe(200);
    const hash = await stored();
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=1024,t=1,p=1\$/);
    expect(await argon2.verify(hash, PASSWORD)).toBe(true);
    expect((await right()).status).toBe(200);
    expect([await stored(), await epoch()]).toEqual([hash, before]);
    expect((await events()).filter((event) => event !== "login")).toEqual([]);
  });

  test("refuses another password, and keeps the hash", async () => {
    expect((await wrong()).status).toBeGreaterThanOrEqual(400);
    expect(await stored()).toBe(BCRYPT);
  });
});

test("a login of a disabled account replaces the hash too, and is refused", async () => {
  await sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
  onTestFinished(() => void sql("update auth_private.accounts set disabled_at = null where user_id = 2"));
  expect((await login()).status).toBe(403);
  expect(await stored()).toMatch(/^\$argon2id\$/);
});

test("a change of a password with an imported hash ends all sign-ins and is an event", async () => {
  const { accessToken } = (await login()).json;
  // Without ending the sign-in, as no other change of the hash.
  await sql(`do $$ begin
    set local request.same_password = 'on';
    update auth_private.accounts set password_hash = '${DJANGO}' where user_id = 2;
  end $$`);
  const before = await epoch();
  const authorization = `Bearer ${accessToken}`;
  const body = { oldPassword: "lètmein", newPassword: NEW };
  expect((await sendJson(client, "/auth/password", body, { authorization })).status).toBe(200);
  expect(await epoch()).toBe(before + 1);
  expect(await events()).toContain("password_changed");
  expect((await client.send("/auth/me", { headers: { authorization } })).status).toBe(401);
});

test("two sign-ins at once both succeed, and one hash is stored", async () => {
  const replies = await Promise.all([login(), login(), login()]);
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(await argon2.verify(await stored(), PASSWORD)).toBe(true);
});

test("a hash of argon2id with other costs is replaced too", async () => {
  await give("$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc");
  expect((await login("password")).status).toBe(200);
  expect(await stored()).toMatch(/^\$argon2id\$v=19\$m=1024,t=1,p=1\$/);
});

test("an unknown login is verified with the hash of an account, always the same one for a login", async () => {
  const verify = vi.spyOn(argon2, "verify");
  onTestFinished(() => verify.mockRestore());
  // Ids are random, and so is how many logins an account stands for.
  const logins = (await sql(
    "select distinct on (hash) hash, login from (select 'unknown' || n as login, auth_private.decoy_hash('unknown' || n) as hash from generate_series(1, 20000) as n) as each",
  )) as { hash: string; login: string }[];
  expect(logins.map(({ hash }) => hash)).toContain(BCRYPT);
  expect(logins.length).toBeGreaterThan(1);
  for (const { hash, login: name } of logins) {
    verify.mockClear();
    for (const each of [name, name.toUpperCase()]) expect((await login("x", each)).status).toBe(401);
    expect(verify.mock.calls.map(([verified]) => verified)).toEqual(hash === BCRYPT ? [] : [hash, hash]);
  }
});

test("the hash for an unknown login is found by an index", async () => {
  await sql("set enable_seqscan = off");
  onTestFinished(() => void sql("reset enable_seqscan"));
  const [{ body }] = (await sql("select prosrc as body from pg_proc where proname = 'decoy_hash'")) as [
    { body: string },
  ];
  const plan = JSON.stringify(await sql(`explain ${body.replaceAll("auth_private.login_key(login)", "'unknown'")}`));
  expect(plan).toContain("accounts_decoy_idx");
  expect(plan).not.toContain("Seq Scan");
});

test("an account whose stored hash costs too much cannot sign in, and nothing fails", async () => {
  await give("$2b$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
  expect((await login()).status).toBe(401);
});

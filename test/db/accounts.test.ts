import { expect, test } from "vitest";
import { TestCaller, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";

test.each([
  [
    "ada",
    { id: "1", username: "ada", name: "Ada Lovelace", role: "authenticated", permissions: [], isDisabled: false },
  ],
  ["ADA", { id: "1" }],
  ["ada@example.com", { id: "1", username: "ada" }],
  ["Ada@Example.COM", { id: "1" }],
  ["admin", { id: "3", role: "admin", isDisabled: false, epoch: 0, hasFactor: false }],
  ["carol", { id: "4", role: "authenticated", isDisabled: true }],
])("find_account(%j) returns %j", (login, account) =>
  inTransaction(async (db) => {
    const found = await db.owner.call("auth_api.find_account", login);
    expect(found).toMatchObject(account);
    expect(found.passwordHash).toMatch(/^\$argon2id\$/);
  }),
);

test.each(["unknown", "", null, "ada%", " ada", "Ada Lovelace"])("find_account(%j) returns null", (login) =>
  inTransaction(async (db) => expect(await db.owner.call("auth_api.find_account", login)).toBeNull()),
);

test("find_account returns null for a user without an account", () =>
  inTransaction(async (db) => {
    await db.users("Dora");
    expect(await db.owner.call("auth_api.find_account", "dora@test.example")).toBeNull();
  }));

test("find_account finds an account without a username by the e-mail that the user had when it was created", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.addAccount(dora!);
    const find = (login: string) => db.owner.call("auth_api.find_account", login);
    const account = { id: String(dora!.id), username: "dora@test.example" };
    expect(await find("Dora@test.example")).toMatchObject(account);
    // With an old sign-in: a recent one would change both e-mails.
    const old = db.as(dora!, "authenticated", Date.now() - 660_000);
    await old.rows("update users set email = 'other@test.example' where id = $1", dora!.id);
    expect(await find("other@test.example")).toBeNull();
    expect(await find("dora@test.example")).toMatchObject(account);
  }));

test("find_account uses the indexes", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      `with made as (insert into users (name, email) select 'U', 'u' || i || '@test.example' from generate_series(1, 5000) as i
         returning id, email)
       select auth.add_account(id, 'U', email, 'u' || id, $1) from made`,
      HASH,
    );
    await db.owner.rows("analyze users, auth_private.accounts, auth_private.login_emails");
    // The statements in the bodies of the functions.
    const bodyOf = async (name: string) =>
      (await db.owner.row("select prosrc as body from pg_proc where proname = $1", name)).body as string;
    const found = `explain ${(await bodyOf("find_account")).replaceAll("(login)", "('u77')").replace("login,", "'u77',")}`;
    const described = `explain ${(await bodyOf("account_of")).replace("account_of.user_id", "77")}`;
    const plan = JSON.stringify([await db.owner.rows(found), await db.owner.rows(described)]);
    const indexes = ["accounts_username_key", "login_emails_email_key", "accounts_pkey", "login_emails_user_id_key"];
    for (const index of indexes) expect(plan).toContain(index);
    expect(plan).not.toContain("Seq Scan");
  }));

const register = (caller: TestCaller, given: object = {}) => {
  const user = { name: "Dora", email: "Dora@test.example", age: 20, username: "dora", hash: HASH, ...given };
  const { username, hash, ...fields } = user;
  return caller.call("auth_api.register", fields, null, username, username, hash);
};

test("register creates a user with an account and returns the id", () =>
  inTransaction(async (db) => {
    const id = await register(db.owner);
    const user = await db.owner.row("select name, email, age from users where id = $1", id);
    expect(user).toEqual({ name: "Dora", email: "Dora@test.example", age: 20 });
    const account = await db.owner.row("select * from auth_private.accounts where user_id = $1", id);
    expect(account).toMatchObject({ username: "dora", password_hash: HASH, role: "authenticated", permissions: [] });
    for (const login of ["dora", "DORA", "dora@test.example"])
      expect(await db.owner.call("auth_api.find_account", login)).toMatchObject({ id: String(id), isDisabled: false });
  }));

test.each([null, "Dora@test.example", "dora@TEST.example"])(
  "register with the username %j stores no username, so that the current e-mail is the login",
  (username) =>
    inTransaction(async (db) => {
      const id = await register(db.owner, { username });
      const account = await db.owner.row("select username from auth_private.accounts where user_id = $1", id);
      expect(account).toEqual({ username: null });
    }),
);

const taken = { code: "23505", schema: "auth_private", table: "accounts", constraint: "accounts_username_key" };
const malformed = { code: "23514", constraint: "accounts_username_format" };

test.each([
  ["an e-mail that is registered", { email: "ADA@example.com" }, { code: "23505", constraint: "users_email_key" }],
  ["the username of another user", { username: "ADA" }, taken],
  ["the e-mail of another user as username", { username: "Ada@example.com" }, malformed],
  ["a username that could become the e-mail of another user", { username: "x@test.example" }, malformed],
  ["an empty username", { username: "" }, malformed],
  ["a blank in the username", { username: "do ra" }, malformed],
  ["a colon in the username, which ends it in Basic credentials", { username: "do:ra" }, malformed],
  ["a control character in the username", { username: "do\u0007ra" }, malformed],
  ["a username of more than 100 characters", { username: "x".repeat(101) }, malformed],
  ["a user who violates a constraint", { age: -1 }, { code: "23514", constraint: "users_age_range" }],
  ["no name", { name: null }, { code: "23502", table: "users", column: "name" }],
  ["a password in clear text", { hash: "secret" }, { code: "23514", constraint: "accounts_password_hash_format" }],
  ["no password", { hash: null }, { code: "23502", table: "accounts", column: "password_hash" }],
])("register rejects %s and creates no user", (_what, given, error) =>
  inTransaction(async (db) => {
    const count = () => db.owner.row("select count(*) from users");
    const before = await count();
    await expect(register(db.owner, given)).rejects.toMatchObject(error);
    expect(await count()).toEqual(before);
  }),
);

test("a username may have a hundred characters, including non-ASCII letters", () =>
  inTransaction(async (db) => expect(await register(db.owner, { username: "ü".repeat(100) })).toBeGreaterThan(0)));

test("a username cannot be the e-mail of another user, because only e-mails contain @", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await register(db.owner, { email: "eve@test.example", username: "eve" });
    expect(await db.as(dora!).outcome("update users set email = 'eve' where id = $1", dora!.id)).toBe("23514");
    const text = "update auth_private.accounts set username = 'dora@test.example' where username = 'eve'";
    expect(await db.owner.outcome(text)).toBe("23514");
  }));

test.each([
  ["role = 'admin'", 1],
  ["permissions = '{reports}'", 1],
  ["password_hash = password_hash || 'x'", 1],
  ["disabled_at = now()", 1],
  ["username = 'lovelace'", 0],
  ["role = role, password_hash = password_hash", 0],
])("an update of an account with %s increases its epoch by %d", (change, by) =>
  inTransaction(async (db) => {
    await db.owner.rows(`update auth_private.accounts set ${change} where user_id = 1`);
    const [account] = await db.owner.rows("select epoch from auth_private.accounts where user_id = 1");
    expect(account).toEqual({ epoch: by });
  }),
);

test("end_epoch increases the epoch, and account_state returns it unless the account is disabled", () =>
  inTransaction(async (db) => {
    await db.owner.call("auth_api.end_epoch", 1);
    const state = (user: number) => db.owner.call("auth_api.account_state", user, "2030-01-01T00:00:00Z");
    expect(await state(1)).toEqual({ epoch: 1, role: "authenticated", revoked: [], kept: [] });
    expect(await state(4)).toBeNull();
    expect(await state(7000)).toBeNull();
  }));

test("change_password replaces the hash only if the caller knows it, and returns the updated account", () =>
  inTransaction(async (db) => {
    const { passwordHash } = await db.owner.call("auth_api.find_account", "ada");
    const change = (user: number, old: string) =>
      db.owner.call("auth_api.change_password", user, old, HASH, null, "203.0.113.7");
    expect(await change(1, HASH)).toEqual({ outcome: "changed" });
    expect(await change(4, passwordHash)).toEqual({ outcome: "changed" });
    const account = { id: "1", passwordHash: HASH, epoch: 1 };
    expect(await change(1, passwordHash)).toMatchObject({ outcome: "accepted", account });
    expect(await change(1, passwordHash)).toEqual({ outcome: "changed" });
    const text = "select event, user_id, host(address) as address from security_events";
    expect(await db.owner.rows(text)).toEqual([{ event: "password_changed", user_id: 1, address: "203.0.113.7" }]);
  }));

test("deleting a user deletes their account and its tokens", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.addAccount(dora!);
    await db.owner.call(
      "auth_api.start_session",
      ...[dora!.id, 0, null, Buffer.alloc(32), null, null, "2030-01-01T00:00:00Z", "2100-01-01T00:00:00Z", 9],
    );
    await db.as(dora!).rows("delete from users where id = $1", dora!.id);
    expect(await db.owner.rows("select from auth_private.sessions")).toEqual([]);
    expect(await db.owner.rows("select from auth_private.refresh_tokens")).toEqual([]);
  }));

test.each([
  ["a username that is an e-mail", "username", "dora@test.example", malformed],
  ["a username that differs in case only", "username", "ADA", { code: "23505", constraint: "accounts_username_key" }],
  ["a role that callers cannot have", "role", "service_role", { code: "23514", constraint: "accounts_role_known" }],
  [
    "a password in clear text",
    "password_hash",
    "secret",
    { code: "23514", constraint: "accounts_password_hash_format" },
  ],
])("an account with %s violates a constraint", (_what, column, value, error) =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    const account = {
      user_id: dora!.id,
      name: "Dora",
      username: "dora",
      password_hash: HASH,
      role: "authenticated",
      [column]: value,
    };
    const text = `insert into auth_private.accounts (user_id, name, username, password_hash, role)
      select user_id, name, username, password_hash, role from jsonb_populate_record(null::auth_private.accounts, $1)`;
    await expect(db.owner.rows(text, account)).rejects.toMatchObject(error);
  }),
);

test.each([
  "select * from auth_private.accounts",
  "select * from auth_private.refresh_tokens",
  "delete from auth_private.accounts",
  "update auth_private.accounts set role = 'admin'",
  "truncate auth_private.refresh_tokens",
  "select auth_api.find_account('ada')",
  "select auth_api.start_session(1, 0, null, sha256('token'), null, null, now(), now(), 9)",
  "select auth_api.change_password(1, 'x', 'y', null, null)",
  "select auth_api.purge(now(), '0', '0', '0')",
  "select * from auth_private.login_emails",
  "update auth_private.login_emails set email = 'eve@test.example'",
  "select auth_private.set_login_email(1, 'eve@test.example', null, 'owner')",
  "select * from auth_private.attempts",
  "insert into security_events (event) values ('login')",
  `select auth_api.register('{"name": "Dora", "email": "dora@test.example"}', null, null, null, '$argon2id$')`,
  "select * from internal.seeds",
  "delete from internal.seeds",
])("no role of the API may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

test("the functions may only read and add users, as their owner may", () =>
  inTransaction(async (db) => {
    const owner = new TestCaller(db.client, "auth_owner", {});
    expect(await owner.outcome("select from users where id = 1")).toBe(1);
    expect(await owner.outcome("insert into users (name, email) values ('Dora', 'dora@test.example')")).toBe(1);
    expect(await owner.outcome("insert into users (name, email, avatar_url) values ('D', 'd@d.d', null)")).toBe(
      "42501",
    );
    for (const text of ["update users set name = 'x'", "delete from users", "select from articles", "create role x"])
      expect(await owner.outcome(text)).toBe("42501");
  }));

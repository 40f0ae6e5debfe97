import { expect, test } from "vitest";
import { TestCaller, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";

test.each([
  ["ada", { user_id: 1, name: "Ada Lovelace", role: "authenticated", permissions: [], disabled: false }],
  ["ADA", { user_id: 1 }],
  ["ada@example.com", { user_id: 1 }],
  ["Ada@Example.COM", { user_id: 1 }],
  ["admin", { user_id: 3, role: "admin", disabled: false }],
  ["carol", { user_id: 4, role: "authenticated", disabled: true }],
])("find_account(%j) is %j", (login, account) =>
  inTransaction(async (db) => {
    const found = await db.owner.callAll("auth_api.find_account", login);
    expect(found).toEqual([expect.objectContaining(account)]);
    expect(found[0].password_hash).toMatch(/^\$argon2id\$/);
  }),
);

test.each(["nobody", "", null, "ada%", " ada", "Ada Lovelace"])("find_account(%j) finds nobody", (login) =>
  inTransaction(async (db) => {
    expect(await db.owner.callAll("auth_api.find_account", login)).toEqual([]);
  }),
);

test("find_account finds nobody for a user without an account", () =>
  inTransaction(async (db) => {
    await db.users("Dora");
    expect(await db.owner.callAll("auth_api.find_account", "dora@test.example")).toEqual([]);
  }));

test("find_account finds an account without a username by the e-mail, by the new one when it changes", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.owner.rows("insert into auth_private.accounts (user_id, password_hash) values ($1, $2)", dora!.id, HASH);
    const find = (login: string) => db.owner.callAll("auth_api.find_account", login);
    expect(await find("Dora@test.example")).toMatchObject([{ user_id: dora!.id }]);
    await db.as(dora!).rows("update users set email = 'other@test.example' where id = $1", dora!.id);
    expect(await find("other@test.example")).toMatchObject([{ user_id: dora!.id }]);
    expect(await find("dora@test.example")).toEqual([]);
  }));

test("find_account looks into the indexes", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      `with made as (insert into users (name, email) select 'U', 'u' || i || '@test.example' from generate_series(1, 5000) as i
         returning id)
       insert into auth_private.accounts (user_id, username, password_hash) select id, 'u' || id, $1 from made`,
      HASH,
    );
    await db.owner.rows("analyze users, auth_private.accounts");
    // The function's own statement: what stands between the marks of its body.
    const { body } = await db.owner.row("select prosrc as body from pg_proc where proname = 'find_account'");
    const plan = JSON.stringify(await db.owner.rows(`explain ${body.replaceAll("login", "'u77'")}`));
    for (const index of ["accounts_username_key", "users_email_key", "accounts_pkey"]) expect(plan).toContain(index);
    expect(plan).not.toContain("Seq Scan");
  }));

const register = (caller: TestCaller, given: object = {}) => {
  const user = { name: "Dora", email: "Dora@test.example", age: 20, username: "dora", hash: HASH, ...given };
  return caller.call("auth_api.register", user.name, user.email, user.age, user.username, user.hash);
};

test("register makes a user and his account, and gives the id", () =>
  inTransaction(async (db) => {
    const id = await register(db.owner);
    const user = await db.owner.row("select name, email, age from users where id = $1", id);
    expect(user).toEqual({ name: "Dora", email: "Dora@test.example", age: 20 });
    const account = await db.owner.row("select * from auth_private.accounts where user_id = $1", id);
    expect(account).toMatchObject({ username: "dora", password_hash: HASH, role: "authenticated", permissions: [] });
    for (const login of ["dora", "DORA", "dora@test.example"])
      expect(await db.owner.callAll("auth_api.find_account", login)).toMatchObject([{ user_id: id, disabled: false }]);
  }));

test.each([null, "Dora@test.example", "dora@TEST.example"])(
  "register with the username %j: the e-mail is the login, whatever it becomes",
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
  ["somebody else's username", { username: "ADA" }, taken],
  [
    "somebody else's e-mail as username",
    { username: "Ada@example.com" },
    { ...taken, message: "username already taken" },
  ],
  ["a username that could become somebody's e-mail", { username: "x@test.example" }, malformed],
  ["an empty username", { username: "" }, malformed],
  ["a blank in the username", { username: "do ra" }, malformed],
  ["a colon in the username, which ends it in Basic credentials", { username: "do:ra" }, malformed],
  ["a control character in the username", { username: "do\u0007ra" }, malformed],
  ["a username of more than 100 characters", { username: "x".repeat(101) }, malformed],
  ["a user who breaks a rule", { age: -1 }, { code: "23514", constraint: "users_age_range" }],
  ["no name", { name: null }, { code: "23502", table: "users", column: "name" }],
  ["a password in clear text", { hash: "secret" }, { code: "23514", constraint: "accounts_password_hash_format" }],
  ["no password", { hash: null }, { code: "23502", table: "accounts", column: "password_hash" }],
])("register refuses %s, and leaves no user behind", (_what, given, error) =>
  inTransaction(async (db) => {
    const count = () => db.owner.row("select count(*) from users");
    const before = await count();
    await expect(register(db.owner, given)).rejects.toMatchObject(error);
    expect(await count()).toEqual(before);
  }),
);

test("a username of a hundred characters, of any letters, will do", () =>
  inTransaction(async (db) => expect(await register(db.owner, { username: "ü".repeat(100) })).toBeGreaterThan(0)));

test("nobody's e-mail becomes somebody else's username: a name has no @, an e-mail always one", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await register(db.owner, { email: "eve@test.example", username: "eve" });
    expect(await db.as(dora!).outcome("update users set email = 'eve' where id = $1", dora!.id)).toBe("23514");
    const text = "update auth_private.accounts set username = 'dora@test.example' where username = 'eve'";
    expect(await db.owner.outcome(text)).toBe("23514");
  }));

test("keep_refresh_token remembers the token by its hash", () =>
  inTransaction(async (db) => {
    const hash = Buffer.alloc(32, 7);
    await db.owner.call("auth_api.keep_refresh_token", 1, hash, "2100-01-01T00:00:00Z");
    const text = "select user_id, expires_at from auth_private.refresh_tokens where token_hash = $1";
    expect(await db.owner.rows(text, hash)).toEqual([{ user_id: 1, expires_at: new Date("2100-01-01T00:00:00Z") }]);
  }));

test.each([
  ["a hash that is no SHA-256", 1, Buffer.alloc(31), { code: "23514", constraint: "refresh_tokens_token_hash_length" }],
  ["a user without an account", 7000, Buffer.alloc(32), { code: "23503", constraint: "refresh_tokens_user_id_fkey" }],
  ["no user", null, Buffer.alloc(32), { code: "23502", column: "user_id" }],
])("keep_refresh_token refuses %s", (_what, user, hash, error) =>
  inTransaction(async (db) => {
    const kept = db.owner.call("auth_api.keep_refresh_token", user, hash, "2100-01-01T00:00:00Z");
    await expect(kept).rejects.toMatchObject(error);
  }),
);

test("keep_refresh_token keeps a token once", () =>
  inTransaction(async (db) => {
    const keep = () => db.owner.call("auth_api.keep_refresh_token", 1, Buffer.alloc(32), "2100-01-01T00:00:00Z");
    await keep();
    await expect(keep()).rejects.toMatchObject({ code: "23505" });
  }));

test.each([
  ["a username that is an e-mail", "username", "dora@test.example", malformed],
  ["a username that differs in case only", "username", "ADA", { code: "23505", constraint: "accounts_username_key" }],
  ["a role that is none of the callers'", "role", "service_role", { code: "23514", constraint: "accounts_role_known" }],
  [
    "a password in clear text",
    "password_hash",
    "secret",
    { code: "23514", constraint: "accounts_password_hash_format" },
  ],
])("an account is refused with %s", (_what, column, value, error) =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    const account = {
      user_id: dora!.id,
      username: "dora",
      password_hash: HASH,
      role: "authenticated",
      [column]: value,
    };
    const text = `insert into auth_private.accounts (user_id, username, password_hash, role)
      select user_id, username, password_hash, role from jsonb_populate_record(null::auth_private.accounts, $1)`;
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
  "select auth_api.keep_refresh_token(1, sha256('token'), now())",
  "select auth_api.register('Dora', 'dora@test.example', 20, null, '$argon2id$')",
  "select * from internal.seeds",
  "delete from internal.seeds",
])("no role of the API may: %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

test("the functions do what their owner may, and that is no more than reading and adding users", () =>
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

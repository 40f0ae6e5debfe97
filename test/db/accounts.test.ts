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

test("a username that is somebody else's e-mail finds the one who has it as username", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    const text = "insert into auth_private.accounts (user_id, username, password_hash) values ($1, $2, $3)";
    await db.owner.rows(text, dora!.id, "ada@example.com", HASH);
    expect(await db.owner.callAll("auth_api.find_account", "ada@example.com")).toMatchObject([{ user_id: dora!.id }]);
    expect(await db.owner.callAll("auth_api.find_account", "ada")).toMatchObject([{ user_id: 1 }]);
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
  "select * from internal.seeds",
  "delete from internal.seeds",
])("no role of the API may: %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

test("the functions do what their owner may, and that is no more than reading users", () =>
  inTransaction(async (db) => {
    const owner = new TestCaller(db.client, "auth_owner", {});
    expect(await owner.outcome("select from users where id = 1")).toBe(1);
    for (const text of ["update users set name = 'x'", "delete from users", "select from articles", "create role x"])
      expect(await owner.outcome(text)).toBe("42501");
  }));

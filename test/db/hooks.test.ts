import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";

/** A new account, as sign-up creates it; its id. */
const register = (db: TestTransaction, fields: object = {}): Promise<string> =>
  db.owner.call("auth_api.register", { name: "Dora", email: "dora@test.example", ...fields }, null, null, null, HASH);

/** Defines a function of the application, and sets it as the hook. */
async function useHook(db: TestTransaction, point: string, signature: string, body: string): Promise<void> {
  await db.owner.rows(`create function internal.${signature} language plpgsql as $$ begin ${body} end $$`);
  const [name] = signature.split(" returns ");
  const types = name!.replace(/\w+ (\w+)(?=[,)])/g, "$1");
  await db.owner.rows(`grant execute on function internal.${types} to auth_owner`);
  await db.owner.rows(`select auth.use_hook('${point}', 'internal.${types}')`);
}

test("before_sign_up changes the fields of a new user", () =>
  inTransaction(async (db) => {
    const body = `return fields || '{"name": "Dora the Second", "age": 30}';`;
    await useHook(db, "before_sign_up", "check_user(fields jsonb) returns jsonb", body);
    const id = await register(db);
    expect(await db.owner.row("select name, age from users where id = $1", id)).toEqual({
      name: "Dora the Second",
      age: 30,
    });
    expect(await db.owner.call("auth_api.account_of", id)).toMatchObject({ name: "Dora the Second" });
  }));

test("an error of before_sign_up refuses the user", () =>
  inTransaction(async (db) => {
    const body = "raise insufficient_privilege using message = 'only employees may sign up';";
    await useHook(db, "before_sign_up", "check_user(fields jsonb) returns jsonb", body);
    await expect(register(db)).rejects.toMatchObject({ code: "42501", message: "only employees may sign up" });
  }));

test("before_sign_up must not change the e-mail, whose look was computed", () =>
  inTransaction(async (db) => {
    const body = `return fields || '{"email": "other@test.example"}';`;
    await useHook(db, "before_sign_up", "check_user(fields jsonb) returns jsonb", body);
    await expect(register(db)).rejects.toMatchObject({ code: "22023" });
  }));

test("after_sign_up runs in the transaction of the sign-up, with the id and the fields", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      "create table internal.welcomes (id bigint, email text); grant insert on internal.welcomes to auth_owner",
    );
    const body = "insert into internal.welcomes values (id, fields ->> 'email');";
    await useHook(db, "after_sign_up", "welcome(id bigint, fields jsonb) returns void", body);
    const id = await register(db);
    expect(await db.owner.rows("select id::text, email from internal.welcomes")).toEqual([
      { id: String(id), email: "dora@test.example" },
    ]);
  }));

test("the claims of an account are those of the hook, without those that the service sets", () =>
  inTransaction(async (db) => {
    const body = `return jsonb_build_object('team', 'blue', 'was', claims ->> 'role', 'role', 'admin', 'sub', '3', 'auth_time', 1);`;
    await useHook(db, "claims", "claims(id bigint, claims jsonb) returns jsonb", body);
    const account = await db.owner.call("auth_api.account_of", 1);
    expect(account).toMatchObject({ role: "authenticated", claims: { team: "blue", was: "authenticated" } });
    expect(Object.keys(account.claims).sort()).toEqual(["team", "was"]);
  }));

test("the hook claims gets what the service knows about the account: with an e-mail, this and whether it is confirmed", () =>
  inTransaction(async (db) => {
    const body = "return jsonb_build_object('given', claims);";
    await useHook(db, "claims", "claims(id bigint, claims jsonb) returns jsonb", body);
    const given = async () => (await db.owner.call("auth_api.account_of", 1)).claims.given;
    const known = { name: "Ada Lovelace", role: "authenticated", permissions: [] };
    await db.owner.rows("update auth_private.accounts set email_confirmed_at = null where user_id = 1");
    expect(await given()).toEqual({ ...known, email: "ada@example.com", email_confirmed: false });
    await db.owner.rows("update auth_private.accounts set email_confirmed_at = now() where user_id = 1");
    expect(await given()).toMatchObject({ email_confirmed: true });
    await db.owner.rows("delete from auth_private.login_emails where user_id = 1");
    expect(await given()).toEqual(known);
  }));

test("without a hook there are no further claims", () =>
  inTransaction(async (db) => expect((await db.owner.call("auth_api.account_of", 1)).claims).toBeNull()));

test("a hook is removed by null", () =>
  inTransaction(async (db) => {
    const body = "raise insufficient_privilege;";
    await useHook(db, "before_sign_up", "check_user(fields jsonb) returns jsonb", body);
    await db.owner.rows("select auth.use_hook('before_sign_up', null)");
    await register(db);
  }));

test("a hook whose function was dropped is named by the error", () =>
  inTransaction(async (db) => {
    await useHook(db, "after_sign_up", "welcome(id bigint, fields jsonb) returns void", "");
    await db.owner.rows("drop function internal.welcome(bigint, jsonb)");
    const message = "the function internal.welcome(bigint,jsonb) of the hook after_sign_up does not exist";
    await expect(register(db)).rejects.toMatchObject({ code: "42883", message });
  }));

test.each([
  [
    "another signature",
    "claims",
    "(jsonb) returns jsonb",
    "the hook claims must be a function (bigint, jsonb) returns jsonb",
  ],
  [
    "another result",
    "before_sign_up",
    "(jsonb) returns text",
    "the hook before_sign_up must be a function (jsonb) returns jsonb",
  ],
  ["an unknown point", "before_login", "(jsonb) returns jsonb", "there is no hook 'before_login'"],
  [
    "no right to execute",
    "before_sign_up",
    "(jsonb) returns jsonb",
    "hooks run as auth_owner, which may not execute internal.f(jsonb)",
  ],
  [
    "the rights of the owner for callers",
    "before_sign_up",
    "(jsonb) returns jsonb security definer",
    "the hook internal.f(jsonb) has the rights of its owner, and callers may execute it: anon, authenticated",
    "grant usage on schema internal to anon, authenticated; grant execute on function internal.f(jsonb) to public",
  ],
])("use_hook refuses %s", (_what, point, signature, message, grants = "select") =>
  inTransaction(async (db) => {
    await db.owner.rows(`create function internal.f${signature} language plpgsql as $$ begin return null; end $$`);
    await db.owner.rows(grants);
    const error = await db.owner.rows(`select auth.use_hook('${point}', 'internal.f(jsonb)')`).catch((e) => e);
    expect(error.message).toContain(message);
  }),
);

test.each([
  "select auth.use_hook('claims', null)",
  "select auth.use_users(null)",
  "select auth.add_account(1, 'x', 'x@y.zz')",
])("no caller may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

test("an account follows the name of its user", () =>
  inTransaction(async (db) => {
    await db.as({ id: 1 }).rows("update users set name = 'Ada King' where id = 1");
    expect(await db.owner.call("auth_api.account_of", 1)).toMatchObject({ name: "Ada King" });
  }));

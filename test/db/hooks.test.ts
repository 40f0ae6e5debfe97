import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";

/** A new account, as sign-up creates it; its id. */
const register = (db: TestTransaction): Promise<string> =>
  db.owner.call("auth_api.register", { name: "Dora", email: "dora@test.example" }, null, HASH);

/** Defines a function of the application, and sets it as the hook. */
async function useHook(db: TestTransaction, point: string, signature: string, body: string): Promise<void> {
  await db.owner.rows(`create function internal.${signature} language plpgsql as $$ begin ${body} end $$`);
  const [name] = signature.split(" returns ");
  const types = name!.replace(/\w+ (\w+)(?=[,)])/g, "$1");
  await db.owner.rows(`grant execute on function internal.${types} to auth_owner`);
  await db.owner.rows(`select auth.use_hook('${point}', 'internal.${types}')`);
}

test("before_sign_up must not change the e-mail, which the service has checked", () =>
  inTransaction(async (db) => {
    const body = `return fields || '{"email": "other@test.example"}';`;
    await useHook(db, "before_sign_up", "check_user(fields jsonb) returns jsonb", body);
    await expect(register(db)).rejects.toMatchObject({ code: "22023" });
  }));

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

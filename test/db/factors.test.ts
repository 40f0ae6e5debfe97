import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const NOW = "2030-01-01T00:00:00Z";
const SOON = "2030-01-01T00:10:00Z";
/** ada. */
const USER = 1;
const SEALED = Buffer.from("sealed");
const CODES = [randomBytes(32), randomBytes(32)];

type Call = (name: string, ...values: unknown[]) => Promise<any>;
const callsOf =
  (db: TestTransaction): Call =>
  (name, ...values) =>
    db.owner.call(`auth_api.${name}`, ...values);

/** With a factor whose step 100 is spent. */
async function enabled(call: Call): Promise<void> {
  await call("begin_factor", USER, SEALED, SOON);
  expect(await call("enable_factor", USER, SEALED, 100, CODES, NOW)).toBe(true);
}

test("factor_of returns null for a user without a factor", () =>
  inTransaction(async (db) => expect(await callsOf(db)("factor_of", USER, NOW)).toBe(null)));

test("begin_factor stores a pending secret until it expires, and replaces the previous one", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    expect(await call("begin_factor", USER, Buffer.from("first"), SOON)).toBe(true);
    expect(await call("begin_factor", USER, SEALED, SOON)).toBe(true);
    const pending = SEALED.toString("hex");
    expect(await call("factor_of", USER, NOW)).toEqual({ secret: null, pending, lastStep: 0 });
    expect(await call("factor_of", USER, SOON)).toEqual({ secret: null, pending: null, lastStep: 0 });
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false });
  }));

test("enable_factor makes the pending secret the active one and uses up the step", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const secret = SEALED.toString("hex");
    expect(await call("factor_of", USER, NOW)).toEqual({ secret, pending: null, lastStep: 100 });
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: true });
    expect(await call("begin_factor", USER, Buffer.from("another"), SOON)).toBe(false);
    expect(await call("enable_factor", USER, SEALED, 101, CODES, NOW)).toBe(false);
  }));

test.each<[string, Buffer, string]>([
  ["a secret that is not pending", Buffer.from("another"), NOW],
  ["a pending secret that has expired", SEALED, SOON],
])("enable_factor does nothing for %s", (_what, pending, now) =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await call("begin_factor", USER, SEALED, SOON);
    expect(await call("enable_factor", USER, pending, 100, CODES, now)).toBe(false);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false });
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
  }),
);

test("accept_step accepts each step once, and no step before the last one", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const outcomes = [];
    for (const step of [99, 100, 101, 101, 103, 102]) outcomes.push(await call("accept_step", USER, step));
    expect(outcomes).toEqual([false, false, true, false, true, false]);
  }));

test("accept_step accepts no step while no factor is enabled", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    expect(await call("accept_step", USER, 100)).toBe(false);
    await call("begin_factor", USER, SEALED, SOON);
    expect(await call("accept_step", USER, 100)).toBe(false);
  }));

test("use_backup_code accepts each code of the user once", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const use = (user: number, code: Buffer) => call("use_backup_code", user, code, NOW);
    expect(await use(2, CODES[0]!)).toBe(false);
    expect(await use(USER, randomBytes(32))).toBe(false);
    expect([await use(USER, CODES[0]!), await use(USER, CODES[0]!), await use(USER, CODES[1]!)]).toEqual([
      true,
      false,
      true,
    ]);
  }));

test("replace_backup_codes replaces used and unused codes if a factor is enabled", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const fresh = [randomBytes(32)];
    expect(await call("replace_backup_codes", USER, fresh)).toBe(false);
    await enabled(call);
    expect(await call("replace_backup_codes", USER, fresh)).toBe(true);
    expect(await call("use_backup_code", USER, CODES[0], NOW)).toBe(false);
    expect(await call("use_backup_code", USER, fresh[0], NOW)).toBe(true);
  }));

test("remove_factor removes the backup codes too, and returns whether a factor was enabled", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    expect(await call("remove_factor", USER)).toBe(false);
    await enabled(call);
    expect(await call("remove_factor", USER)).toBe(true);
    expect(await call("factor_of", USER, NOW)).toBe(null);
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
    await call("begin_factor", USER, SEALED, SOON);
    expect(await call("remove_factor", USER)).toBe(false);
  }));

test("a factor requires an account and is deleted with it", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const [dora] = await db.users("Dora");
    await expect(call("begin_factor", dora!.id, SEALED, SOON)).rejects.toMatchObject({ code: "23503" });
    await enabled(call);
    await db.owner.rows("delete from auth_private.accounts where user_id = $1", USER);
    expect(await db.owner.rows("select from auth_private.factors")).toEqual([]);
  }));

test.each([
  ["a secret that is not enabled", "insert into auth_private.factors (user_id, secret) values (1, 'x')"],
  ["an enabled state but no secret", "insert into auth_private.factors (user_id, enabled_at) values (1, now())"],
  ["a pending secret that does not expire", "insert into auth_private.factors (user_id, pending) values (1, 'x')"],
])("a factor with %s violates a check", (_what, text) =>
  inTransaction(async (db) => expect(await db.owner.outcome(text)).toBe("23514")),
);

test.each([
  "select * from auth_private.factors",
  "select * from auth_private.backup_codes",
  "delete from auth_private.factors",
  "update auth_private.factors set enabled_at = null",
  "select auth_api.factor_of(1, now())",
  "select auth_api.remove_factor(1)",
  "select auth_api.use_backup_code(1, sha256('x'), now())",
  "select auth_api.replace_backup_codes(1, '{}')",
])("no role of the API may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

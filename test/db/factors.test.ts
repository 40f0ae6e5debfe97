import { randomBytes, randomUUID } from "node:crypto";
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

/** Without a sign-in that stays. */
const enable = (call: Call, pending: Buffer = SEALED, step = 100, now = NOW) =>
  call("enable_factor", USER, null, pending, pending, step, CODES, null, now);

const startTokens = (call: Call, byte: number) =>
  call("start_session", USER, 0, null, Buffer.alloc(32, byte), null, null, NOW, SOON, 10);
const startCookie = (call: Call, byte: number) =>
  call("start_session", USER, 0, Buffer.alloc(32, byte), null, null, null, NOW, SOON, 10);

/** The argument `sent` for the code of a step, or for a backup code. */
const sent = (code: { step: number } | { hash: Buffer }, secret = SEALED) => ({
  secret: "step" in code ? secret.toString("hex") : null,
  step: "step" in code ? code.step : null,
  hashes: "hash" in code ? [code.hash.toString("hex")] : [],
  ...{ address: null, attempts: 2, now: NOW, span: "15 minutes" },
});
const passwordHashOf = async (call: Call) => (await call("find_account", "ada")).passwordHash;

/** Without a name and a maximum. */
const begin = (call: Call, pending: Buffer = SEALED) => call("begin_factor", USER, pending, SOON, NOW);

/** With a factor whose step 100 is spent. */
async function enabled(call: Call): Promise<void> {
  await begin(call);
  expect(await enable(call)).toBe(true);
}

const SECRET = SEALED.toString("hex");

test("factors_of returns an empty array for a user without a factor", () =>
  inTransaction(async (db) => expect(await callsOf(db)("factors_of", USER, NOW)).toEqual([])));

test("begin_factor stores a pending secret until it expires, and replaces the previous one", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    expect(await begin(call, Buffer.from("first"))).toMatchObject({ outcome: "begun" });
    const { id } = await begin(call);
    expect(await call("factors_of", USER, NOW)).toEqual([{ id, name: "", secret: null, pending: SECRET }]);
    expect(await call("factors_of", USER, SOON)).toEqual([]);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false });
  }));

test("enable_factor makes the pending secret the active one and uses up the step", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    expect(await call("factors_of", USER, NOW)).toMatchObject([{ secret: SECRET, pending: null }]);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: true });
    expect(await call("accept_step", USER, SEALED, 100)).toBe(false);
    expect(await begin(call, Buffer.from("another"))).toEqual({ outcome: "enabled" });
    expect(await enable(call, SEALED, 101)).toBe(false);
  }));

test("begin_factor with a name begins one of several, up to a number, and each name is there once", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const named = (name: string, now = NOW) => call("begin_factor", USER, Buffer.from(name), SOON, now, name, 2);
    expect(await named("")).toEqual({ outcome: "taken" });
    expect(await named("phone")).toMatchObject({ outcome: "begun" });
    expect(await named("phone")).toEqual({ outcome: "taken" });
    expect(await named("tablet")).toEqual({ outcome: "full" });
    // One that has expired no longer counts.
    expect(await named("tablet", SOON)).toMatchObject({ outcome: "begun" });
  }));

test("a further factor keeps the sign-ins and backup codes, and spends its own steps", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const { epoch } = await call("find_account", "ada");
    const phone = Buffer.from("phone");
    await call("begin_factor", USER, phone, SOON, NOW, "phone", 10);
    expect(await call("enable_factor", USER, null, phone, phone, 90, [], null, NOW)).toBe(true);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: true, epoch });
    expect(await call("accept_step", USER, phone, 91)).toBe(true);
    expect(await call("accept_step", USER, SEALED, 91)).toBe(false);
    expect(await call("use_backup_code", USER, CODES[0], NOW)).toBe(true);
  }));

test("disable_factor removes the factor whose code was sent, and the backup codes with the last one", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const phone = Buffer.from("phone");
    await call("begin_factor", USER, phone, SOON, NOW, "phone", 10);
    await call("enable_factor", USER, null, phone, phone, 90, [], null, NOW);
    const hash = await passwordHashOf(call);
    const disable = (code: unknown) => call("disable_factor", USER, hash, code, null, NOW);
    expect(await disable(sent({ step: 91 }, phone))).toEqual({ outcome: "accepted", hasFactor: true });
    expect(await call("factors_of", USER, NOW)).toMatchObject([{ name: "", secret: SECRET }]);
    expect(await disable(sent({ hash: CODES[0]! }))).toEqual({ outcome: "accepted", hasFactor: false });
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
  }));

test.each<[string, Buffer, string]>([
  ["a secret that is not pending", Buffer.from("another"), NOW],
  ["a pending secret that has expired", SEALED, SOON],
])("enable_factor does nothing for %s", (_what, pending, now) =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await begin(call);
    expect(await enable(call, pending, 100, now)).toBe(false);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false });
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
  }),
);

test("accept_step accepts each step once, and no step before the last one", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const outcomes = [];
    for (const step of [99, 100, 101, 101, 103, 102]) outcomes.push(await call("accept_step", USER, SEALED, step));
    expect(outcomes).toEqual([false, false, true, false, true, false]);
  }));

test("accept_step accepts no step while no factor is enabled", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    expect(await call("accept_step", USER, SEALED, 100)).toBe(false);
    await begin(call);
    expect(await call("accept_step", USER, SEALED, 100)).toBe(false);
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

test("replace_backup_codes spends a code and replaces used and unused codes", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const hash = await passwordHashOf(call);
    const fresh = [randomBytes(32)];
    const replace = (code: unknown) => call("replace_backup_codes", USER, hash, code, fresh, null, NOW);
    expect(await replace(null)).toEqual({ outcome: "none" });
    await enabled(call);
    expect(await replace(null)).toEqual({ outcome: "missing" });
    expect(await replace(sent({ step: 100 }))).toEqual({ outcome: "wrong" });
    expect(await replace(sent({ hash: CODES[0]! }))).toEqual({ outcome: "accepted" });
    expect(await call("use_backup_code", USER, CODES[1], NOW)).toBe(false);
    expect(await call("use_backup_code", USER, fresh[0], NOW)).toBe(true);
  }));

test("disable_factor needs a code that was not spent, and the password that was verified", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const hash = await passwordHashOf(call);
    const disable = (code: unknown, of = hash) => call("disable_factor", USER, of, code, null, NOW);
    await begin(call);
    expect(await disable(null)).toEqual({ outcome: "none" });
    await enabled(call);
    expect(await disable(null)).toEqual({ outcome: "missing" });
    expect(await disable(sent({ step: 101 }), "another hash")).toEqual({ outcome: "changed" });
    expect(await disable(sent({ step: 101 }, Buffer.from("another secret")))).toEqual({ outcome: "wrong" });
    expect(await disable(sent({ step: 101 }))).toEqual({ outcome: "accepted", hasFactor: false });
    expect(await call("factors_of", USER, NOW)).toEqual([]);
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
    expect(await disable(sent({ step: 102 }))).toEqual({ outcome: "none" });
  }));

test("wrong codes of changes count together, and then every code is rejected", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const hash = await passwordHashOf(call);
    await enabled(call);
    expect(await call("disable_factor", USER, hash, sent({ step: 99 }), null, NOW)).toEqual({ outcome: "wrong" });
    expect(await call("change_password", USER, hash, hash, sent({ step: 98 }), null)).toEqual({ outcome: "wrong" });
    const right = sent({ step: 101 });
    expect(await call("replace_backup_codes", USER, hash, right, CODES, null, NOW)).toEqual({
      retryAfter: 900,
      place: 1,
    });
    expect(await call("change_password", USER, hash, hash, right, null)).toEqual({ retryAfter: 900, place: 1 });
  }));

test("change_password needs a code if a factor is enabled, and only then", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    await enabled(call);
    const hash = await passwordHashOf(call);
    const change = (code: unknown) => call("change_password", USER, hash, `${hash}x`, code, null);
    expect(await change(null)).toEqual({ outcome: "missing" });
    expect(await change(sent({ step: 101 }))).toMatchObject({ outcome: "accepted", account: { epoch: 2 } });
  }));

test("enable_factor ends all sign-ins of the user but the one that enables it", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const [own, other] = [await startTokens(call, 1), await startTokens(call, 2)];
    await startCookie(call, 3);
    await begin(call);
    const enable = (session: string | null) =>
      call("enable_factor", USER, session, SEALED, SEALED, 100, CODES, null, NOW);
    expect(await enable(randomUUID())).toBe(false);
    expect(await enable(own)).toBe(true);
    expect(await call("account_state", USER, "2029-12-31T22:00:00Z")).toMatchObject({ epoch: 1, kept: [own] });
    const rotate = (byte: number) =>
      call("rotate_token", Buffer.alloc(32, byte), Buffer.alloc(32, byte + 100), NOW, SOON, "0");
    expect(await rotate(1)).toMatchObject({ outcome: "rotated", session: own, account: { epoch: 1 } });
    expect(await rotate(2)).toMatchObject({ outcome: "revoked" });
    expect(other).not.toBe(own);
    expect(await call("touch_session", Buffer.alloc(32, 3), NOW, "30 minutes")).toBe(null);
  }));

test("enable_factor keeps the session that enables it, and a later end of all sign-ins ends that too", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const cookie = Buffer.alloc(32, 3);
    const tokens = await startTokens(call, 1);
    const session = await startCookie(call, 3);
    await begin(call);
    expect(await call("enable_factor", USER, session, SEALED, SEALED, 100, CODES, null, NOW)).toBe(true);
    expect(await call("touch_session", cookie, NOW, "30 minutes")).toMatchObject({ account: { epoch: 1 } });
    expect(await call("account_state", USER, "2029-12-31T22:00:00Z")).toMatchObject({ kept: [session] });
    expect(tokens).not.toBe(session);
    await call("end_epoch", USER);
    expect(await call("touch_session", cookie, NOW, "30 minutes")).toBe(null);
  }));

test("a sign-in that has ended enables no factor", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const sessions = [await startTokens(call, 1), await startCookie(call, 3)];
    await begin(call);
    await call("end_epoch", USER);
    for (const session of sessions)
      expect(await call("enable_factor", USER, session, SEALED, SEALED, 100, CODES, null, NOW)).toBe(false);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false, epoch: 1 });
  }));

test("reset_factor removes an enabled factor with its backup codes, and ends all sign-ins", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const reset = () => db.owner.call("auth_private.reset_factor", USER);
    await begin(call);
    expect(await reset()).toBe(false);
    await enabled(call);
    const { epoch } = await call("find_account", "ada");
    expect(await reset()).toBe(true);
    expect(await call("find_account", "ada")).toMatchObject({ hasFactor: false, epoch: epoch + 1 });
    expect(await db.owner.rows("select from auth_private.backup_codes")).toEqual([]);
    expect(await reset()).toBe(false);
  }));

test("a factor requires an account and is deleted with it", () =>
  inTransaction(async (db) => {
    const call = callsOf(db);
    const [dora] = await db.users("Dora");
    await expect(call("begin_factor", dora!.id, SEALED, SOON, NOW)).rejects.toMatchObject({ code: "23503" });
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
  "select auth_api.factors_of(1, now())",
  "select auth_api.disable_factor(1, '', null, null, now())",
  "select auth_private.reset_factor(1)",
  "select auth_api.use_backup_code(1, sha256('x'), now())",
  "select auth_api.replace_backup_codes(1, '', null, '{}', null, now())",
])("no role of the API may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

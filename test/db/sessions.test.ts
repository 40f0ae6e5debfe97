import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const ONE = Buffer.alloc(32, 1);
const TWO = Buffer.alloc(32, 2);
const NOON = Date.parse("2030-01-01T12:00:00Z");
/** That many seconds after noon. */
const at = (seconds: number) => new Date(NOON + seconds * 1000).toISOString();
const IDLE = "30 minutes";
const HOUR = 3600;

const epochOf = async (db: TestTransaction, user: number) =>
  (await db.owner.row("select epoch from auth_private.accounts where user_id = $1", user)).epoch;

async function start(db: TestTransaction, id: Buffer, { user = 1, from = 0, epoch = null as number | null } = {}) {
  const found = epoch ?? (await epochOf(db, user));
  return db.owner.call("auth_api.start_session", user, found, id, at(from), at(from + 12 * HOUR));
}

const touch = (db: TestTransaction, id: Buffer, seconds: number) =>
  db.owner.call("auth_api.touch_session", id, at(seconds), IDLE);

const sessions = (db: TestTransaction) => db.owner.rows("select id_hash from auth_private.sessions");

test("touch_session returns the account of the session, its start and its end", () =>
  inTransaction(async (db) => {
    expect(await start(db, ONE)).toBe(true);
    const { account, startedAt, expiresAt } = await touch(db, ONE, 60);
    expect(account).toMatchObject({ id: "1", username: "ada", role: "authenticated", isDisabled: false });
    expect([startedAt, expiresAt].map((text) => new Date(text).toISOString())).toEqual([at(0), at(12 * HOUR)]);
    expect(await touch(db, TWO, 60)).toBeNull();
  }));

test("start_session ends the previous session of the user, and no other session", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    await start(db, TWO);
    await start(db, Buffer.alloc(32, 3), { user: 2 });
    expect(await touch(db, ONE, 1)).toBeNull();
    expect((await touch(db, TWO, 1)).account.id).toBe("1");
    expect(await sessions(db)).toHaveLength(2);
  }));

test("start_session replaces all data of the previous session", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    await start(db, TWO, { from: HOUR });
    const text = "select id_hash, started_at, seen_at, expires_at from auth_private.sessions";
    const times = { started_at: new Date(at(HOUR)), seen_at: new Date(at(HOUR)), expires_at: new Date(at(13 * HOUR)) };
    expect(await db.owner.rows(text)).toEqual([{ id_hash: TWO, ...times }]);
  }));

test("start_session returns false if the account has changed since the password was verified, is disabled or does not exist", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    expect(await start(db, ONE, { epoch: (await epochOf(db, 1)) + 1 })).toBe(false);
    expect(await start(db, ONE, { user: 4 })).toBe(false);
    expect(await start(db, ONE, { user: dora!.id, epoch: 0 })).toBe(false);
    expect(await sessions(db)).toEqual([]);
  }));

test.each([
  ["is valid 29:59 after its last use", [30 * 60 - 1], true],
  ["has ended 30:00 after its last use", [30 * 60], false],
  ["is extended by each use", [1799, 2 * 1799, 3 * 1799], true],
  [
    "is not extended beyond its maximum age",
    [...Array.from({ length: 24 }, (_, i) => (i + 1) * 1790), 12 * HOUR],
    false,
  ],
])("a session %s", (_what, seconds, lives) =>
  inTransaction(async (db) => {
    await start(db, ONE);
    const outcomes = [];
    for (const second of seconds) outcomes.push((await touch(db, ONE, second)) !== null);
    expect(outcomes).toEqual([...seconds.slice(1).map(() => true), lives]);
    expect(await sessions(db)).toHaveLength(lives ? 1 : 0);
  }),
);

test("a clock that goes back does not shorten a session", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    await touch(db, ONE, 600);
    await touch(db, ONE, 60);
    const [{ seen_at: seen }] = (await db.owner.rows("select seen_at from auth_private.sessions")) as [
      { seen_at: Date },
    ];
    expect(seen).toEqual(new Date(at(600)));
  }));

test.each([
  ["role = 'admin'"],
  ["permissions = '{write}'"],
  ["password_hash = password_hash || 'x'"],
  ["disabled_at = now()"],
])("a session ends when the account changes: %s", (change) =>
  inTransaction(async (db) => {
    await start(db, ONE);
    await db.owner.rows(`update auth_private.accounts set ${change} where user_id = 1`);
    expect(await touch(db, ONE, 1)).toBeNull();
    expect(await sessions(db)).toEqual([]);
  }),
);

test("a session is deleted with its account", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    await db.owner.rows("delete from auth_private.accounts where user_id = 1");
    expect(await sessions(db)).toEqual([]);
  }));

test("end_session ends the session and returns its user, once", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    expect(await db.owner.call("auth_api.end_session", ONE)).toBe(1);
    expect(await db.owner.call("auth_api.end_session", ONE)).toBeNull();
    expect(await touch(db, ONE, 1)).toBeNull();
  }));

test("a session id must be a SHA-256, and a user has at most one session", () =>
  inTransaction(async (db) => {
    await expect(start(db, Buffer.alloc(31))).rejects.toMatchObject({ constraint: "sessions_id_hash_length" });
    await start(db, ONE);
    const text =
      "insert into auth_private.sessions select $1, user_id, epoch, now(), now(), now() from auth_private.accounts where user_id = 1";
    expect(await db.owner.outcome(text, TWO)).toBe("23505");
  }));

test.each([
  "select * from auth_private.sessions",
  "delete from auth_private.sessions",
  "select auth_api.start_session(1, 1, sha256('x'), now(), now())",
  "select auth_api.touch_session(sha256('x'), now(), '1 hour')",
  "select auth_api.end_session(sha256('x'))",
])("no role of the API may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const ONE = Buffer.alloc(32, 1);
const TWO = Buffer.alloc(32, 2);
const THREE = Buffer.alloc(32, 3);
const NOON = Date.parse("2030-01-01T12:00:00Z");
/** That many seconds after noon. */
const at = (seconds: number) => new Date(NOON + seconds * 1000).toISOString();
const IDLE = "30 minutes";
const HOUR = 3600;
const NETWORK = "203.0.113.0/24";
const MAX = 3;
const UUID = /^[0-9a-f-]{36}$/;

const epochOf = async (db: TestTransaction, user: number) =>
  (await db.owner.row("select epoch from auth_private.accounts where user_id = $1", user)).epoch;

async function start(db: TestTransaction, id: Buffer, { user = 1, from = 0, epoch = null as number | null } = {}) {
  const found = epoch ?? (await epochOf(db, user));
  return db.owner.call(
    "auth_api.start_session",
    user,
    found,
    id,
    null,
    "curl",
    NETWORK,
    at(from),
    at(from + 12 * HOUR),
    MAX,
  );
}

const touch = (db: TestTransaction, id: Buffer, seconds: number) =>
  db.owner.call("auth_api.touch_session", id, at(seconds), IDLE);

const sessions = (db: TestTransaction) => db.owner.rows("select cookie_hash from auth_private.sessions");

test("touch_session returns the account of the session, its start and its end", () =>
  inTransaction(async (db) => {
    const id = await start(db, ONE);
    expect(id).toMatch(UUID);
    const { id: found, account, startedAt, expiresAt } = await touch(db, ONE, 60);
    expect(found).toBe(id);
    expect(account).toMatchObject({ id: "1", username: "ada", role: "authenticated", isDisabled: false });
    expect([startedAt, expiresAt].map((text) => new Date(text).toISOString())).toEqual([at(0), at(12 * HOUR)]);
    expect(await touch(db, TWO, 60)).toBeNull();
  }));

test("start_session with a cookie ends the session that the user has with another cookie, and no other session", () =>
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
    const text = "select cookie_hash, started_at, seen_at, expires_at from auth_private.sessions";
    const times = { started_at: new Date(at(HOUR)), seen_at: new Date(at(HOUR)), expires_at: new Date(at(13 * HOUR)) };
    expect(await db.owner.rows(text)).toEqual([{ cookie_hash: TWO, ...times }]);
  }));

test("start_session returns null if the account has changed since the password was verified, is disabled or does not exist", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    expect(await start(db, ONE, { epoch: (await epochOf(db, 1)) + 1 })).toBeNull();
    expect(await start(db, ONE, { user: 4 })).toBeNull();
    expect(await start(db, ONE, { user: dora!.id, epoch: 0 })).toBeNull();
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

test("end_cookie ends the session of a cookie and returns its user, once", () =>
  inTransaction(async (db) => {
    await start(db, ONE);
    expect(await db.owner.call("auth_api.end_cookie", ONE)).toBe(1);
    expect(await db.owner.call("auth_api.end_cookie", ONE)).toBeNull();
    expect(await touch(db, ONE, 1)).toBeNull();
  }));

test("a cookie is stored as a SHA-256, and a user has at most one session with a cookie", () =>
  inTransaction(async (db) => {
    await expect(start(db, Buffer.alloc(31))).rejects.toMatchObject({ constraint: "sessions_cookie_hash_length" });
    await start(db, ONE);
    const text = `insert into auth_private.sessions (cookie_hash, user_id, epoch, started_at, seen_at, expires_at)
       select $1, user_id, epoch, now(), now(), now() from auth_private.accounts where user_id = 1`;
    expect(await db.owner.outcome(text, TWO)).toBe("23505");
  }));

/** A session with tokens, which is used at this second. */
const startTokens = (db: TestTransaction, byte: number, from: number, user = 1) =>
  db.owner.call(
    "auth_api.start_session",
    ...[user, 0, null, Buffer.alloc(32, byte), "Firefox on Linux", null, at(from), at(from + 12 * HOUR), MAX],
  );
const list = (db: TestTransaction, seconds = 0, user = 1) =>
  db.owner.call("auth_api.list_sessions", user, at(seconds), IDLE);
const idsOf = (listed: readonly { readonly id: string }[]) => listed.map(({ id }) => id);

test("list_sessions returns the sessions of a user that have not ended, those that were used last first", () =>
  inTransaction(async (db) => {
    const [tokens, cookie] = [await startTokens(db, 1, 0), await start(db, ONE, { from: 60 })];
    await startTokens(db, 9, 0, 2);
    const listed = await list(db, 60);
    const iso = (text: string) => new Date(text).toISOString();
    expect(
      listed.map((each: any) => ({ ...each, createdAt: iso(each.createdAt), expiresAt: iso(each.expiresAt) })),
    ).toEqual([
      {
        ...{ id: cookie, kind: "cookie", device: "curl", network: NETWORK },
        ...{ createdAt: at(60), lastUsedAt: expect.any(String), expiresAt: at(60 + 1800) },
      },
      {
        ...{ id: tokens, kind: "token", device: "Firefox on Linux", network: null },
        ...{ createdAt: at(0), lastUsedAt: expect.any(String), expiresAt: at(12 * HOUR) },
      },
    ]);
    expect(idsOf(await list(db, 60 + 1800))).toEqual([tokens]);
    expect(await list(db, 12 * HOUR)).toEqual([]);
    await db.owner.rows("update auth_private.accounts set epoch = epoch + 1 where user_id = 1");
    expect(await list(db, 60)).toEqual([]);
  }));

test("beyond the limit, the sessions end that were used longest ago, and no session of another user", () =>
  inTransaction(async (db) => {
    const other = await startTokens(db, 9, 0, 2);
    const [first, second, third] = [
      await startTokens(db, 1, 0),
      await startTokens(db, 2, 10),
      await start(db, THREE, { from: 20 }),
    ];
    await db.owner.call("auth_api.rotate_token", Buffer.alloc(32, 1), Buffer.alloc(32, 4), at(30), at(HOUR), "0");
    const fourth = await startTokens(db, 5, 40);
    expect(idsOf(await list(db, 40))).toEqual([fourth, first, third]);
    expect(await db.owner.call("auth_api.account_state", 1, at(0))).toMatchObject({ revoked: [second] });
    // The next to end is the one with a cookie, which is deleted.
    expect(idsOf(await list(db, 50))).toHaveLength(3);
    const fifth = await startTokens(db, 6, 50);
    expect(idsOf(await list(db, 50))).toEqual([fifth, fourth, first]);
    expect(await touch(db, THREE, 50)).toBeNull();
    expect(idsOf(await list(db, 50, 2))).toEqual([other]);
  }));

test("a clock that is behind does not end the session that starts", () =>
  inTransaction(async (db) => {
    for (const byte of [1, 2, 3]) await startTokens(db, byte, 60);
    const late = await startTokens(db, 4, 0);
    expect(idsOf(await list(db, 60))).toHaveLength(3);
    expect(idsOf(await list(db, 60))).toContain(late);
  }));

test("end_session ends a session of the user, once, and none of another user", () =>
  inTransaction(async (db) => {
    const [tokens, cookie, other] = [await startTokens(db, 1, 0), await start(db, ONE), await startTokens(db, 9, 0, 2)];
    const end = (id: string) => db.owner.call("auth_api.end_session", 1, id, at(60));
    expect([await end(tokens), await end(tokens), await end(cookie), await end(other)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(await touch(db, ONE, 60)).toBeNull();
    const rotate = (byte: number) =>
      db.owner.call(
        "auth_api.rotate_token",
        Buffer.alloc(32, byte),
        Buffer.alloc(32, byte + 50),
        at(60),
        at(HOUR),
        "0",
      );
    expect(await rotate(1)).toMatchObject({ outcome: "revoked" });
    expect(await rotate(9)).toMatchObject({ outcome: "rotated" });
  }));

test("end_other_sessions keeps one session, unless it has ended", () =>
  inTransaction(async (db) => {
    const [own, other] = [await startTokens(db, 1, 0), await startTokens(db, 2, 0)];
    const endOthers = (id: string) => db.owner.call("auth_api.end_other_sessions", 1, id, at(60));
    expect(await endOthers(own)).toBe(true);
    expect(idsOf(await list(db, 60))).toEqual([own]);
    expect(await endOthers(other)).toBe(false);
    expect(idsOf(await list(db, 60))).toEqual([own]);
  }));

test.each([
  "select * from auth_private.sessions",
  "delete from auth_private.sessions",
  "select auth_api.start_session(1, 1, sha256('x'), null, null, null, now(), now(), 1)",
  "select auth_api.touch_session(sha256('x'), now(), '1 hour')",
  "select auth_api.end_cookie(sha256('x'))",
  "select auth_api.end_session(1, gen_random_uuid(), now())",
  "select auth_api.end_other_sessions(1, null, now())",
  "select auth_api.list_sessions(1, now(), '1 hour')",
])("no role of the API may execute %s", (text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of Object.values(await db.everyone(ada!))) expect(await caller.outcome(text)).toBe("42501");
  }),
);

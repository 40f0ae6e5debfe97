import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const NOW = "2030-01-01T00:00:00Z";
const LATER = "2030-01-08T00:00:00Z";
const hash = (byte: number) => Buffer.alloc(32, byte);
const start = (db: TestTransaction, user = 1, epoch = 0, token = hash(1)) =>
  db.owner.call("auth_api.start_session", user, epoch, null, token, "curl", null, NOW, LATER, 100);
const rotate = (db: TestTransaction, from: number, to: number, now = NOW, grace = "0") =>
  db.owner.call("auth_api.rotate_token", hash(from), hash(to), now, LATER, grace);
const state = (db: TestTransaction, since = NOW, user = 1) => db.owner.call("auth_api.account_state", user, since);
const UUID = /^[0-9a-f-]{36}$/;

test("start_session stores the hash of a token, once, and returns the id of the session", () =>
  inTransaction(async (db) => {
    const session = await start(db);
    expect(session).toMatch(UUID);
    const rows = await db.owner.rows("select * from auth_private.refresh_tokens");
    const token = {
      token_hash: hash(1),
      session_id: session,
      expires_at: new Date(LATER),
      spent_at: null,
      parent: null,
    };
    expect(rows).toEqual([{ ...token, issued_at: expect.any(Date) }]);
    await expect(start(db)).rejects.toMatchObject({ code: "23505" });
  }));

test("start_session rejects a hash of a token that is not a SHA-256", () =>
  inTransaction((db) =>
    expect(start(db, 1, 0, Buffer.alloc(31))).rejects.toMatchObject({ constraint: "refresh_tokens_token_hash_length" }),
  ));

test.each([
  ["of another epoch", 1, 7],
  ["that is disabled", 4, 0],
  ["that does not exist", 7000, 0],
])("start_session does not sign in an account %s", (_what, user, epoch) =>
  inTransaction(async (db) => {
    expect(await start(db, user, epoch)).toBeNull();
    expect(await db.owner.rows("select from auth_private.sessions")).toEqual([]);
  }),
);

test("rotate_token replaces a token by the next one of its session", () =>
  inTransaction(async (db) => {
    const session = await start(db);
    const rotated = { outcome: "rotated", userId: "1", session, account: { id: "1", username: "ada" } };
    expect(await rotate(db, 1, 2)).toMatchObject(rotated);
    expect(await rotate(db, 2, 3)).toMatchObject(rotated);
  }));

test("a refresh says when the session was used last, and when it ends", () =>
  inTransaction(async (db) => {
    await start(db);
    const next = "2030-01-03T00:00:00Z";
    await db.owner.call("auth_api.rotate_token", hash(1), hash(2), next, "2030-01-10T00:00:00Z", "0");
    const row = await db.owner.row("select started_at, seen_at, expires_at from auth_private.sessions");
    const [started_at, seen_at, expires_at] = [NOW, next, "2030-01-10T00:00:00Z"].map((text) => new Date(text));
    expect(row).toEqual({ started_at, seen_at, expires_at });
  }));

test("a token that is used twice ends its session, and no other session", () =>
  inTransaction(async (db) => {
    await start(db);
    await start(db, 1, 0, hash(9));
    await rotate(db, 1, 2);
    expect(await rotate(db, 1, 3)).toEqual({ outcome: "reused", userId: "1" });
    expect(await rotate(db, 2, 4)).toEqual({ outcome: "revoked", userId: "1" });
    expect(await rotate(db, 9, 10)).toMatchObject({ outcome: "rotated" });
  }));

test.each([
  ["2030-01-01T00:00:09Z", "rotated"],
  ["2030-01-01T00:00:10Z", "reused"],
  // By a process whose clock is behind.
  ["2029-12-31T23:59:59Z", "rotated"],
])("with a grace period of ten seconds, a token that was used at midnight and again at %s is %s", (now, outcome) =>
  inTransaction(async (db) => {
    const session = await start(db);
    await rotate(db, 1, 2);
    expect(await rotate(db, 1, 3, now, "10 s")).toMatchObject({ outcome });
    const next = outcome === "rotated" ? { outcome, session } : { outcome: "revoked" };
    expect(await rotate(db, 2, 4, now, "10 s")).toMatchObject(next);
  }),
);

test("the grace period starts when a token is used for the first time", () =>
  inTransaction(async (db) => {
    await start(db);
    await rotate(db, 1, 2);
    expect(await rotate(db, 1, 3, "2030-01-01T00:00:09Z", "10 s")).toMatchObject({ outcome: "rotated" });
    expect(await rotate(db, 1, 4, "2030-01-01T00:00:11Z", "10 s")).toMatchObject({ outcome: "reused" });
  }));

test("without a grace period a token that is used twice is reused, even if the clock is behind", () =>
  inTransaction(async (db) => {
    await start(db);
    await rotate(db, 1, 2);
    expect(await rotate(db, 1, 3, "2029-12-31T23:59:59Z")).toMatchObject({ outcome: "reused" });
  }));

test("account_state returns only the revoked sessions whose access tokens may still be valid", () =>
  inTransaction(async (db) => {
    const session = await start(db);
    await start(db, 1, 0, hash(9));
    await start(db, 2, 0, hash(8));
    expect(await state(db)).toEqual({ epoch: 0, role: "authenticated", revoked: [], kept: [] });
    await rotate(db, 1, 2);
    await rotate(db, 1, 3);
    expect(await state(db, "2029-12-31T23:59:59Z")).toMatchObject({ revoked: [session] });
    expect(await state(db, NOW)).toMatchObject({ revoked: [] });
    expect(await state(db, "2029-12-31T23:59:59Z", 2)).toMatchObject({ revoked: [] });
  }));

test("spend_challenge accepts each challenge once", () =>
  inTransaction(async (db) => {
    const spend = (id: string) => db.owner.call("auth_api.spend_challenge", id, NOW);
    const [one, other] = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"] as const;
    expect([await spend(one), await spend(other), await spend(one)]).toEqual([true, true, false]);
  }));

test("rotate_token returns unknown for a token that was never issued", () =>
  inTransaction(async (db) => expect(await rotate(db, 1, 2)).toEqual({ outcome: "unknown" })));

test.each([
  ["2030-01-07T23:59:59Z", "rotated"],
  [LATER, "expired"],
])("at %s a token that expires on the 8th is %s", (now, outcome) =>
  inTransaction(async (db) => {
    await start(db);
    expect(await rotate(db, 1, 2, now)).toMatchObject({ outcome, userId: "1" });
  }),
);

test.each(["role = 'admin'", "disabled_at = now()", "password_hash = password_hash || 'x'", "epoch = epoch + 1"])(
  "a token of before the change %s is revoked",
  (change) =>
    inTransaction(async (db) => {
      await start(db);
      await db.owner.rows(`update auth_private.accounts set ${change} where user_id = 1`);
      expect(await rotate(db, 1, 2)).toEqual({ outcome: "revoked", userId: "1" });
    }),
);

import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const NOW = "2030-01-01T00:00:00Z";
const LATER = "2030-01-08T00:00:00Z";
const hash = (byte: number) => Buffer.alloc(32, byte);
const start = (db: TestTransaction, user = 1, epoch = 0, token = hash(1)) =>
  db.owner.call("auth_api.start_tokens", user, epoch, token, LATER);
const rotate = (db: TestTransaction, from: number, to: number, now = NOW) =>
  db.owner.call("auth_api.rotate_token", hash(from), hash(to), now, LATER);

test("start_tokens remembers a token by its hash, once", () =>
  inTransaction(async (db) => {
    expect(await start(db)).toBe(true);
    const rows = await db.owner.rows("select token_hash, expires_at, spent_at from auth_private.refresh_tokens");
    expect(rows).toEqual([{ token_hash: hash(1), expires_at: new Date(LATER), spent_at: null }]);
    await expect(start(db)).rejects.toMatchObject({ code: "23505" });
  }));

test("start_tokens refuses a hash that is no SHA-256", () =>
  inTransaction((db) =>
    expect(start(db, 1, 0, Buffer.alloc(31))).rejects.toMatchObject({ constraint: "refresh_tokens_token_hash_length" }),
  ));

test.each([
  ["of another epoch", 1, 7],
  ["that is disabled", 4, 0],
  ["that there is not", 7000, 0],
])("start_tokens does not sign in an account %s", (_what, user, epoch) =>
  inTransaction(async (db) => {
    expect(await start(db, user, epoch)).toBe(false);
    expect(await db.owner.rows("select from auth_private.token_families")).toEqual([]);
  }),
);

test("rotate_token spends a token for the next", () =>
  inTransaction(async (db) => {
    await start(db);
    const rotated = { outcome: "rotated", userId: "1", account: { id: "1", username: "ada" } };
    expect(await rotate(db, 1, 2)).toMatchObject(rotated);
    expect(await rotate(db, 2, 3)).toMatchObject(rotated);
  }));

test("a token that is spent twice ends its family, and no other", () =>
  inTransaction(async (db) => {
    await start(db);
    await start(db, 1, 0, hash(9));
    await rotate(db, 1, 2);
    expect(await rotate(db, 1, 3)).toEqual({ outcome: "reused", userId: "1" });
    expect(await rotate(db, 2, 4)).toEqual({ outcome: "revoked", userId: "1" });
    expect(await rotate(db, 9, 10)).toMatchObject({ outcome: "rotated" });
  }));

test("rotate_token does not know what nobody was given", () =>
  inTransaction(async (db) => expect(await rotate(db, 1, 2)).toEqual({ outcome: "unknown" })));

test.each([
  ["2030-01-07T23:59:59Z", "rotated"],
  [LATER, "expired"],
])("at %s a token that ends on the 8th is %s", (now, outcome) =>
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

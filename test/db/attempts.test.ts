import { expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const [ADA, ADDRESS] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
const at = (minute: number) => new Date(Date.UTC(2030, 0, 1, 0, minute)).toISOString();
const reserve = (db: TestTransaction, minute: number, keys = [ADA, ADDRESS], limits = [2, 3]) =>
  db.owner.call("auth_api.reserve_attempt", keys, limits, at(minute), "15 minutes");
/** An attempt that counts. */
const fail = async (db: TestTransaction, minute: number, keys = [ADA, ADDRESS], limits = [2, 3]) => {
  const { ids } = await reserve(db, minute, keys, limits);
  await db.owner.call("auth_api.settle_attempt", ids, true);
  return ids;
};
const count = async (db: TestTransaction) =>
  (await db.owner.row("select count(*)::int as count from auth_private.attempts")).count;

test("an attempt counts for each of its keys, until one of them reaches its limit", () =>
  inTransaction(async (db) => {
    expect(await fail(db, 0)).toHaveLength(2);
    await fail(db, 1);
    expect(await reserve(db, 2)).toEqual({ retryAfter: 13 * 60, place: 1 });
    expect(await count(db)).toBe(4);
    const other = Buffer.alloc(32, 3);
    expect(await fail(db, 3, [other, ADDRESS])).toHaveLength(2);
    expect(await reserve(db, 4, [other, ADDRESS])).toEqual({ retryAfter: 11 * 60, place: 2 });
    expect((await reserve(db, 4, [other, Buffer.alloc(32, 4)])).ids).toHaveLength(2);
  }));

test("an attempt counts only within the time span", () =>
  inTransaction(async (db) => {
    await fail(db, 0, [ADA], [1]);
    expect(await reserve(db, 14, [ADA], [1])).toEqual({ retryAfter: 60, place: 1 });
    expect((await reserve(db, 15, [ADA], [1])).ids).toHaveLength(1);
  }));

test("reserve_attempt returns null while pending attempts use up the limit", () =>
  inTransaction(async (db) => {
    await fail(db, 0);
    const { ids } = await reserve(db, 0);
    expect(await reserve(db, 0)).toBe(null);
    expect(await count(db)).toBe(4);
    await db.owner.call("auth_api.settle_attempt", ids, false);
    expect((await reserve(db, 0)).ids).toHaveLength(2);
  }));

test("an attempt that is pending for a minute no longer counts", () =>
  inTransaction(async (db) => {
    await reserve(db, 0, [ADA], [1]);
    expect(await reserve(db, 0.9, [ADA], [1])).toBe(null);
    expect((await reserve(db, 1, [ADA], [1])).ids).toHaveLength(1);
  }));

test("begin_factor deletes the attempts at codes of the user, unless a factor is enabled", () =>
  inTransaction(async (db) => {
    const reserveCode = () => db.owner.call("auth_api.reserve_code", 1, 1, at(0), "15 minutes");
    const begin = () => db.owner.call("auth_api.begin_factor", 1, Buffer.from("sealed"), at(10), at(0));
    const { ids } = await reserveCode();
    await db.owner.call("auth_api.settle_attempt", ids, true);
    expect(await reserveCode()).toEqual({ retryAfter: 900, place: 1 });
    expect(await begin()).toMatchObject({ outcome: "begun" });
    const again = await reserveCode();
    expect(again.ids).toHaveLength(1);
    await db.owner.call("auth_api.settle_attempt", again.ids, true);
    const sealed = Buffer.from("sealed");
    await db.owner.call("auth_api.enable_factor", 1, null, sealed, sealed, 1, [], null, at(1));
    expect(await begin()).toMatchObject({ outcome: "enabled" });
    expect(await reserveCode()).toEqual({ retryAfter: 900, place: 1 });
  }));

test("purge deletes only expired rows", () =>
  inTransaction(async (db) => {
    await db.owner.rows(`
      insert into auth_private.attempts (key, at) values (sha256('a'), now() - interval '20 minutes'), (sha256('b'), now());
      insert into security_events (event, at) values ('old', now() - interval '91 days'), ('new', now());
      insert into auth_private.sessions (cookie_hash, user_id, epoch, started_at, seen_at, expires_at)
      values (sha256('a'), 1, 0, now(), now(), now() - interval '25 hours'), (sha256('b'), 2, 0, now(), now(), now() - interval '23 hours');
      insert into auth_private.api_keys (kind, name, prefix, key_hash, expires_at)
      values ('anon', 'old', 'a', sha256('a'), now() - interval '31 days'), ('anon', 'new', 'b', sha256('b'), now() - interval '29 days'),
        ('anon', 'ever', 'c', sha256('c'), null)`);
    await db.owner.call("auth_api.purge", new Date().toISOString(), "15 minutes", "90 days", "30 days");
    expect(await count(db)).toBe(1);
    const names = async (text: string) => (await db.owner.rows(text)).map(({ name }) => name);
    expect(await names("select event as name from security_events")).toEqual(["new"]);
    expect(await names("select user_id as name from auth_private.sessions")).toEqual([2]);
    expect(await names("select name from auth_private.api_keys order by 1")).toEqual(["ever", "new"]);
  }));

import type pg from "pg";
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { ConnectionPool, type PooledConnection, type PoolOptions } from "../../db/transaction/pool.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const SOON = { timeout: 120_000, interval: 20 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const errors: Error[] = [];

function open(options: Partial<PoolOptions> = {}): ConnectionPool {
  const pool = new ConnectionPool({ connectionString: database.url, max: 2, ...options }, (error) =>
    errors.push(error),
  );
  onTestFinished(() => pool.close());
  return pool;
}

const pidOf = ({ client }: PooledConnection) => (client as pg.Client & { processID: number }).processID;
const isOpen = async (pid: number) =>
  (await database.owner.query("select from pg_stat_activity where pid = $1", [pid])).rowCount === 1;

test("the connection that was used last is taken first", async () => {
  const pool = open();
  const [first, second] = [await pool.connect(), await pool.connect()];
  expect(pool.take()).toBeNull();
  pool.release(first);
  pool.release(second);
  expect(pool.available).toBe(2);
  expect(pool.take()).toBe(second);
  expect(pool.take()).toBe(first);
  for (const each of [first, second]) pool.release(each);
});

test("nothing waits here: a call beyond the maximum is an internal error", async () => {
  const pool = open({ max: 1 });
  const connection = await pool.connect();
  await expect(pool.connect()).rejects.toThrow("more transactions were admitted than the pool has connections");
  pool.release(connection);
  expect(await pool.connect()).toBe(connection);
  pool.release(connection);
});

test("a connection that cannot be used again is replaced", async () => {
  const pool = open({ max: 1 });
  const broken = await pool.connect();
  pool.release(broken, new Error("broken"));
  const replaced = await pool.connect();
  expect(pidOf(replaced)).not.toBe(pidOf(broken));
  await expect.poll(() => isOpen(pidOf(broken)), SOON).toBe(false);
  pool.release(replaced);
});

test("a free connection that the server closes is removed", async () => {
  const pool = open();
  const connection = await pool.connect();
  pool.release(connection);
  await database.owner.query("select pg_terminate_backend($1)", [pidOf(connection)]);
  await expect.poll(() => pool.available, SOON).toBe(0);
  expect(errors.map(({ message }) => message)).toContain("terminating connection due to administrator command");
  const next = await pool.connect();
  expect(next).not.toBe(connection);
  pool.release(next);
});

test("a connection that was not needed for the idle time is closed, and one that was needed is kept", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const pool = open({ idleTimeoutMillis: 60_000 });
  const [needed, unneeded] = [await pool.connect(), await pool.connect()];
  for (const each of [unneeded, needed]) pool.release(each);
  vi.advanceTimersByTime(60_000);
  expect(pool.available).toBe(2);
  pool.release(pool.take()!);
  vi.advanceTimersByTime(60_000);
  expect(pool.available).toBe(1);
  await expect.poll(() => isOpen(pidOf(unneeded)), SOON).toBe(false);
  expect(await isOpen(pidOf(needed))).toBe(true);
});

test("a connection that is too old is closed", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const pool = open({ idleTimeoutMillis: 60_000, maxAgeMillis: 90_000 });
  const connection = await pool.connect();
  for (const left of [1, 0]) {
    pool.release(connection);
    vi.advanceTimersByTime(60_000);
    expect(pool.available).toBe(left);
    if (left > 0) expect(pool.take()).toBe(connection);
  }
  await expect.poll(() => isOpen(pidOf(connection)), SOON).toBe(false);
});

test("closing waits for the connections in use and refuses new ones", async () => {
  const pool = open({ max: 1 });
  const connection = await pool.connect();
  let isClosed = false;
  const closed = pool.close().then(() => {
    isClosed = true;
  });
  await expect(pool.connect()).rejects.toMatchObject({ status: 503 });
  await connection.client.query("select");
  expect(isClosed).toBe(false);
  pool.release(connection);
  await closed;
  await expect(pool.connect()).rejects.toMatchObject({ status: 503 });
});

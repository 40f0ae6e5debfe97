import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Code } from "../../db/catalog/code.ts";
import { Transactions } from "../../db/transaction/transaction.ts";
import { DatabaseProxy } from "../support/database-proxy.ts";
import { admissionTo, anon, NO_CODE, useTransactionsDatabase } from "../support/transactions.ts";

const database = useTransactionsDatabase("create table notes (text text); grant all on notes to anon;");

const UNAVAILABLE = { status: 503, message: "the database is not available; try again" };
const OUTCOME_UNKNOWN = { status: 503, message: expect.stringContaining("check before you try again") };

test("a transaction is one write, one Sync and one ReadyForQuery, however many statements it has", async () => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  db.transactions.follow(NO_CODE);
  await db.run(anon, ["select 1"]);
  const before = { client: proxy.client.types.length, server: proxy.server.types.length, writes: proxy.writes };

  await db.run(anon, ["select 1"]);
  await db.run(anon, ["select 1", "insert into notes values ('x')", "select 2", "delete from notes"]);
  await db.run(anon, ["select 1", "select 2"], { snapshot: true });
  const sent = proxy.client.types.slice(before.client);
  // Known statements are only bound and executed; new ones are parsed first.
  expect(sent).toBe(`${"BE".repeat(2)}S${"BE".repeat(2)}${"PBE".repeat(3)}S${"PBE"}${"BE".repeat(3)}${"PBE"}S`);
  expect(proxy.server.types.slice(before.server).replace(/[^Z]/g, "")).toBe("ZZZ");
  expect(proxy.writes - before.writes).toBe(3);
  expect(db.transactions.syncs).toBe(4);
});

test("an error of the database has no stack, and later errors of JavaScript have one", async () => {
  const db = database().open();
  db.transactions.follow(NO_CODE);
  const received = await db.run(anon, ["select 1 / 0"]).catch((error: Error) => error);
  expect((received as Error).stack).toBe("error: division by zero");
  expect(new Error("of the test").stack).toContain("connection.test.ts");
});

test("an error takes no further Sync, except in a snapshot", async () => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  db.transactions.follow(NO_CODE);
  await expect(db.run(anon, ["select 1 / 0", "select 1"])).rejects.toMatchObject({ code: "22012" });
  await db.run(anon, ["select 1"]);
  expect(proxy.client.types.replace(/[^SQ]/g, "")).toBe("SS");
  await expect(db.run(anon, ["select 1 / 0", "select 1"], { snapshot: true })).rejects.toMatchObject({ code: "22012" });
  expect(proxy.client.types.replace(/[^SQ]/g, "")).toBe("SSSQ");
});

test("a terminated server process fails only its own transaction", async () => {
  const db = database().open();
  const run = expect(db.run(anon, ["insert into notes values ('lost')", "select pg_sleep(10)"])).rejects.toMatchObject({
    code: "57P01",
    severity: "FATAL",
  });
  await db.sleeping();
  await database().owner.query("select pg_terminate_backend($1)", await db.pids());
  await run;
  expect(await db.row(anon, "select count(*) from notes")).toEqual(["0"]);
});

test("a transaction that waits for a connection, which then ends, gets a new one", async () => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  db.transactions.follow(new Code(["pg_sleep"], false));
  await db.run(anon, ["select 1"]);
  const pids = await db.pids();
  const ready = () => proxy.server.types.replace(/[^Z]/g, "").length;
  const before = ready();
  proxy.hold();
  // The second runs code, so its connection has to be cleaned.
  const [first, second] = [db.row(anon, "select 1"), db.row(anon, "select pg_sleep(0)")];
  await expect.poll(ready).toBe(before + 1);
  await database().owner.query("select pg_terminate_backend($1)", pids);
  // The result of the first and the end of the connection arrive together.
  expect(await first).toEqual(["1"]);
  expect(await second).toEqual([""]);
  expect(await db.row(anon, "select 3")).toEqual(["3"]);
});

test("a server process that is terminated while idle is replaced", async () => {
  const db = database().open();
  db.transactions.follow(NO_CODE);
  await db.run(anon, ["select 1"]);
  const pids = await db.pids();
  await database().owner.query("select pg_terminate_backend($1)", pids);
  await expect.poll(() => db.errors.length).toBeGreaterThan(0);
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
  expect(await db.pids()).not.toEqual(pids);
});

test.each(["reset", "end"] as const)("the outcome is unknown when a TCP %s breaks the connection", async (how) => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  const run = expect(db.run(anon, ["select pg_sleep(10)"])).rejects.toMatchObject(OUTCOME_UNKNOWN);
  await db.sleeping();
  proxy[how]();
  await run;
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
});

test("the outcome is unknown when the connection is lost in a snapshot", async () => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  const run = db.run(anon, ["select pg_sleep(10)", "select 1"], { snapshot: true });
  const outcome = expect(run).rejects.toMatchObject(OUTCOME_UNKNOWN);
  await db.sleeping();
  proxy.reset();
  await outcome;
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
});

test("a connection that is lost while idle is replaced", async () => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = database().open({ pool: { connectionString: proxy.url } });
  await db.run(anon, ["select 1"]);
  proxy.reset();
  await expect.poll(() => db.errors.length).toBeGreaterThan(0);
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
});

test.each([
  ["a wrong password", (url: URL) => Object.assign(url, { password: "wrong" })],
  ["a server that is down", (url: URL) => Object.assign(url, { port: "1" })],
  ["a database that is not there", (url: URL) => Object.assign(url, { pathname: "/nowhere" })],
  // Without TLS the server responds with one byte, which is not a protocol message.
  ["TLS that the server does not speak", (url: URL) => Object.assign(url, { search: "?sslmode=verify-full" })],
])("the database is not available with %s", async (_what, change) => {
  const { href } = change(new URL(database().logins.data));
  const db = database().open({ pool: { connectionString: href, connectionTimeoutMillis: 2000 } });
  await expect(db.run(anon, ["select 1"])).rejects.toMatchObject(UNAVAILABLE);
});

test("TLS with a server that does not support it fails at once", async () => {
  const connectionString = `${database().logins.data}?sslmode=verify-full`;
  const db = database().open({ pool: { connectionString, connectionTimeoutMillis: 2000 } });
  await expect(db.run(anon, ["select 1"])).rejects.toMatchObject({
    cause: { message: "The server does not support SSL connections" },
  });
});

test("an abort cancels the statement over a Unix socket", async () => {
  const folder = await mkdtemp(join(tmpdir(), "content-socket-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const proxy = await new DatabaseProxy(database().logins.data).start(folder);
  const db = database().open({ pool: { connectionString: proxy.url }, statementTimeoutOf: () => 0 });
  const controller = new AbortController();
  // Only a cancellation ends this before the test times out.
  const run = expect(db.run(anon, ["select pg_sleep(600)"], { signal: controller.signal })).rejects.toThrow("aborted");
  await db.sleeping();
  controller.abort();
  await run;
});

test("a transaction that gets no connection in time fails with 504", async () => {
  const db = database().open({ pool: { connectionTimeoutMillis: 3000 }, statementTimeoutOf: () => 0 });
  const controller = new AbortController();
  const first = expect(db.run(anon, ["select pg_sleep(600)"], { signal: controller.signal })).rejects.toThrow(
    "aborted",
  );
  await db.sleeping();
  await expect(db.run(anon, ["select 1"])).rejects.toMatchObject({
    status: 504,
    message: "timed out waiting for a free database connection; try again",
  });
  controller.abort();
  await first;
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
});

test("a burst of transactions waits for the connections of the pool", async () => {
  const db = database().open({ pool: { max: 2 } });
  const rows = await Promise.all(Array.from({ length: 50 }, (_, i) => db.row(anon, "select $1::int", String(i))));
  expect(rows).toEqual(Array.from({ length: 50 }, (_, i) => [String(i)]));
  expect(await db.pids()).toHaveLength(2);
});

const TOO_LARGE = { status: 400, code: "VALIDATION_ERROR", message: expect.stringContaining("100000 bytes") };

test.each([
  ["one value", "select repeat('x', 200000)"],
  ["many rows", "select repeat('x', 100) from generate_series(1, 2000)"],
])("a result over maxResultBytes in %s is refused, and the next transaction succeeds", async (_, text) => {
  const db = database().open({ maxResultBytes: 100_000 });
  await expect(db.run(anon, [text])).rejects.toMatchObject(TOO_LARGE);
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
  // The limit applies per transaction.
  for (let i = 0; i < 5; i++) expect((await db.row(anon, "select repeat('x', 90000)"))[0]).toHaveLength(90_000);
});

test("unlimitedResult lifts the limit for one transaction", async () => {
  const db = database().open({ maxResultBytes: 100_000 });
  const [[row]] = (await db.run(anon, ["select repeat('x', 200000)"], { unlimitedResult: true })) as [[[string]]];
  expect(row[0]).toHaveLength(200_000);
  await expect(db.run(anon, ["select repeat('x', 200000)"])).rejects.toMatchObject(TOO_LARGE);
});

test("a server that rejects connections is not available, for any number of concurrent transactions", async () => {
  const pool = { connectionString: "postgres://unknown@127.0.0.1:1/none", max: 2, connectionTimeoutMillis: 5000 };
  const admission = admissionTo(pool.max);
  const closed = new Transactions({
    ...{ pool, admission },
    statementTimeoutOf: () => 0,
    maxPrepared: 0,
    onConnectionError: () => {},
  });
  const asked = await Promise.allSettled(Array.from({ length: 10 }, () => closed.run(anon, [])));
  const statuses = asked.map((each) => each.status === "rejected" && each.reason.status);
  expect(new Set(statuses)).toEqual(new Set([503]));
  await closed.close();
});

import { isDeepStrictEqual } from "node:util";
import pg from "pg";
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import { LiveCatalog } from "../../../db/catalog/live.ts";
import { createReader } from "../../support/catalog.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

const SCOPE = { schemas: ["public"], extraSearchPath: [] };
const SOON = { timeout: 120_000, interval: 20 };

let database: TestDatabase;
let reader: Awaited<ReturnType<typeof createReader>>;
let live: LiveCatalog;
let failures: Error[];
let reads: number;

beforeAll(async () => {
  database = await createTestDatabase();
  reader = await createReader(database, SCOPE);
  return async () => {
    await reader.end();
    await database.drop();
  };
});

beforeEach(async () => {
  await dba("drop table if exists public.later, public.latest; alter event trigger announce_schema_change enable");
  failures = [];
  reads = 0;
  const log = { onRead: () => reads++, onFailed: (error: Error) => failures.push(error) };
  live = new LiveCatalog({ ...SCOPE, pool: reader.pool, log });
  await live.start();
});

afterEach(async () => {
  vi.useRealTimers();
  await live.close();
});

/** Runs SQL as a DBA in psql. */
const dba = (sql: string) => database.owner.query(sql);
const withoutEventTrigger = () => dba("alter event trigger announce_schema_change disable");
const tableNames = () => [...live.current.schemas.get("public")!.tables.keys()];
/** Advances the clock. */
const later = (milliseconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + milliseconds });

/** Repeats what fails because the roles changed meanwhile: they belong to the whole server, which other tests use too. */
async function whileRolesStay(attempt: () => Promise<void>): Promise<void> {
  const catalogs: Catalog[] = [];
  live.onChange((catalog) => catalogs.push(catalog));
  for (;;) {
    const { roles } = live.current;
    catalogs.length = 0;
    try {
      return await attempt();
    } catch (error) {
      if (catalogs.every((catalog) => isDeepStrictEqual(catalog.roles, roles))) throw error;
      vi.useRealTimers();
    }
  }
}

test("an unchanged database keeps its catalog object", () =>
  whileRolesStay(async () => {
    live.soon();
    await live.refreshIfStale();
    const before = live.current;
    reads = 0;
    live.soon();
    expect(await live.refreshIfStale()).toBe(false);
    await dba(
      "insert into articles (author_id, title, content) values (1, 'A new row', 'does not change the catalog')",
    );
    later(3000);
    expect(await live.refreshIfStale()).toBe(false);
    expect(live.current).toBe(before);
    expect(reads).toBe(0);
  }));

test("requests that find something missing share one read", async () => {
  await withoutEventTrigger();
  await dba("create table public.later (id int)");
  later(3000);
  expect(await Promise.all([live.refreshIfStale(), live.refreshIfStale(), live.refreshIfStale()])).toEqual([
    true,
    true,
    true,
  ]);
  expect(tableNames()).toContain("later");
  expect(reads).toBe(2);
});

test("a request that finds something missing waits for a pending read", async () => {
  await withoutEventTrigger();
  await dba("create table public.later (id int)");
  live.soon();
  expect(await live.refreshIfStale()).toBe(true);
  expect(tableNames()).toContain("later");
});

test("a change during a read causes another read", async () => {
  await withoutEventTrigger();
  await dba("create table public.later (id int)");
  later(3000);
  const first = live.refreshIfStale();
  await dba("create table public.latest (id int)");
  live.soon();
  await first;
  await live.refreshIfStale();
  expect(tableNames()).toContain("latest");
});

test("a fresh catalog is not read again for a missing object", async () => {
  await withoutEventTrigger();
  later(3000);
  await live.refreshIfStale();
  await dba("create table public.later (id int)");
  expect(await live.refreshIfStale()).toBe(false);
  expect(tableNames()).not.toContain("later");
});

test("a failed read keeps the catalog and is repeated", async () => {
  const before = live.current;
  const login = database.owner.escapeIdentifier(`${database.name}_catalog`);
  await withoutEventTrigger();
  await dba(`create table public.later (id int); alter role ${login} nologin`);
  await dba(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${database.name}_catalog'`);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  live.soon();
  await vi.advanceTimersByTimeAsync(100);
  await expect.poll(() => failures.length, SOON).toBe(1);
  expect(live.current).toBe(before);
  expect(await live.refreshIfStale()).toBe(false);

  await dba(`alter role ${login} login`);
  await vi.advanceTimersByTimeAsync(1100);
  await expect.poll(tableNames, SOON).toContain("later");
});

test("DDL that waits for the read and for which the read waits succeeds, and is read afterwards", async () => {
  await dba("create table public.later (id int); create table public.latest (id int)");
  await dba("create view public.both_tables as select l.id from public.later as l join public.latest using (id)");
  // Postgres checks for a deadlock when a session has waited for a second: here only for the DBA, as if the read had begun to wait later.
  const login = database.owner.escapeIdentifier(`${database.name}_catalog`);
  await dba(`alter role ${login} set deadlock_timeout = '1min'`);
  await dba(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${database.name}_catalog'`);
  const report = new pg.Client({ connectionString: database.url });
  await report.connect();
  const queries = vi.spyOn(reader.pool, "query");
  const waiting = async () =>
    (await report.query("select from pg_locks where relation = 'public.latest'::regclass and not granted")).rowCount;
  try {
    await report.query("begin; lock table public.latest in access share mode");
    await dba("begin");
    const altered = dba("alter table public.latest add column note text");
    await expect.poll(waiting, SOON).toBe(1);
    // The read locks `later` and waits for `latest` behind the DBA.
    live.soon();
    const metLock = () => queries.mock.settledResults.some(({ type }) => type === "rejected");
    await expect.poll(async () => (await waiting()) === 2 || metLock(), SOON).toBe(true);
    await report.query("commit");
    await altered;
    await dba("alter table public.later add column note text; commit");
    const columns = () => [...live.current.schemas.get("public")!.tables.get("later")!.columns.keys()];
    live.soon();
    await expect.poll(columns, SOON).toEqual(["id", "note"]);
    expect([failures, live.loads.failed]).toEqual([[], 0]);
  } finally {
    queries.mockRestore();
    await report.end();
    await dba("rollback");
    await dba(`drop view public.both_tables; alter role ${login} reset deadlock_timeout`);
  }
});

test("start rejects when the first read fails", async () => {
  const url = new URL(database.url);
  url.pathname = "/missing";
  const pool = new pg.Pool({ connectionString: url.href });
  onTestFinished(() => pool.end());
  const nowhere = new LiveCatalog({ ...SCOPE, pool, log: { onRead: () => {}, onFailed: () => {} } });
  await expect(nowhere.start()).rejects.toMatchObject({ code: "3D000" });
  expect(() => nowhere.current).toThrow("the catalog has not been read yet");
});

test("a closed catalog does not read, and refreshIfStale does not wait", async () => {
  live.soon();
  const waiting = live.refreshIfStale();
  await live.close();
  expect(await waiting).toBe(false);
  live.soon();
  later(3000);
  expect(await live.refreshIfStale()).toBe(false);
});

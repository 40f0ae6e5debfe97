import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { LOCK } from "../../db/changes/election.ts";
import { type Command, nodeStart } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { followStream } from "../support/event-stream.ts";
import { kill, processesBelow } from "../support/processes.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table notes (id int primary key generated always as identity, title text not null);
  alter table notes enable row level security;
  create policy "everyone" on notes using (true);
  grant select, insert on notes to authenticated`;

const SLOTS = "select slot_name from pg_replication_slots where database = current_database()";

describe.runIf(hasRedis)("instances with the same REDIS_URL, one of which has two worker processes", () => {
  let redis: TestRedis;
  let service: TestService;
  let folder: string;
  let child: Command;
  beforeAll(async () => {
    redis = await startRedis();
    const database = await createTestDatabase();
    await database.owner.query(NOTES);
    folder = await mkdtemp(join(tmpdir(), "shared-feed-"));
    const settings = { REDIS_URL: redis.url, API_KEY_REQUIRED: "off", METRICS: "on" };
    const ofChild = { DATABASE_URL: database.url, JWT_SECRET, SEED: "none", WORKERS: "2", LOG_LEVEL: "warn" };
    child = nodeStart({ dataDir: folder, settings: { ...settings, ...ofChild }, shared: true });
    await child.ready();
    // One of its workers is elected before this process starts.
    await vi.waitUntil(async () => (await database.owner.query(SLOTS)).rows.length > 0, POLL);
    service = await startTestService(settings, database);
  });
  afterAll(async () => {
    await child?.end();
    await service?.stop();
    await redis?.kill();
    await rm(folder, { recursive: true, force: true });
  });

  const query = async (sql: string) => (await service.database.owner.query(sql)).rows;
  const insert = (titles: readonly string[]) =>
    service.database.owner.query("insert into notes (title) select unnest($1::text[])", [titles]);

  /** The backend of the elected process. */
  const elected = async () => {
    const locks = `select l.pid from pg_locks as l join pg_database as d on d.oid = l.database and d.datname = current_database()`;
    const rows = await query(`${locks} where locktype = 'advisory' and classid = ${LOCK} and mode = 'ExclusiveLock'`);
    return rows.map(({ pid }) => pid as number);
  };

  const pidOf = (reader: string | null) => Number(reader?.split(":")[1]);

  const follow = (url: () => string) =>
    followStream(() => `${url()}/rest/v1/notes`, { authorization: `Bearer ${service.token("ada")}` });

  test("have another reader when the elected process stands still, also before there are subscribers", async () => {
    await expect.poll(elected, POLL).toHaveLength(1);
    const [first] = await elected();
    const stopped = processesBelow(child.child.pid!);
    for (const pid of stopped) kill(pid, "SIGSTOP");
    onTestFinished(() => {
      for (const pid of stopped) kill(pid, "SIGCONT");
    });
    const others = async () => (await elected()).filter((pid) => pid !== first).length;
    await expect.poll(others, POLL).toBe(1);
  });

  test("share one replication slot; a killed process loses nothing for its clients, who go on at another one", async () => {
    const { url } = child;
    const own = follow(() => service.url);
    const theirs = Array.from({ length: 4 }, () => follow(() => url));
    for (const { count } of [own, ...theirs]) await expect.poll(() => count("snapshot"), POLL).toBe(1);
    const expected = ["1", "2", "3"];
    await insert(expected);
    for (const { titles } of [own, ...theirs]) await expect.poll(titles, POLL).toEqual(expected);
    expect(await query(SLOTS)).toHaveLength(1);

    const shared = async () => (await service.health()).details.changes.shared;
    const reader = async () => (await shared()).reader as string | null;
    let killed: string | null = null;
    // Until it is one that can be killed.
    const isWorker = async () => {
      const { reader, isReader } = await shared();
      killed = reader;
      if (isReader) for (const backend of await elected()) await query(`select pg_terminate_backend(${backend})`);
      return processesBelow(child.child.pid!).includes(pidOf(killed));
    };
    await expect.poll(isWorker, POLL).toBe(true);
    kill(pidOf(killed), "SIGKILL");
    const next = Array.from({ length: 20 }, (_, i) => `after ${i}`);
    await insert(next);
    for (const { titles } of [own, ...theirs]) await expect.poll(titles, POLL).toEqual([...expected, ...next]);
    await expect.poll(reader, POLL).not.toBe(killed);
    for (const { count } of [own, ...theirs]) expect([count("gap"), count("snapshot")]).toEqual([0, 1]);
    expect(await query(SLOTS)).toHaveLength(1);
    await expect
      .poll(async () => (await fetch(`${service.url}/metrics`)).text(), POLL)
      .toMatch(/^content_service_changes_log_readers [01]$/m);
  });

  test("when the process that reads stands still, another one takes over; woken up, it stores nothing twice", async () => {
    const { url } = child;
    const own = follow(() => service.url);
    const theirs = Array.from({ length: 4 }, () => follow(() => url));
    const all = [own, ...theirs];
    for (const { count } of all) await expect.poll(() => count("snapshot"), POLL).toBe(1);
    const reader = async () => (await service.health()).details.changes.shared.reader as string | null;
    const workers = () => processesBelow(child.child.pid!);
    const pidOf = (name: string | null) => Number(name?.split(":")[1]);
    // A process of the child is elected: this one cannot stand still.
    const isElected = async () => {
      if (workers().includes(pidOf(await reader()))) return true;
      await query(
        "select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database()",
      );
      return false;
    };
    await vi.waitUntil(isElected, { ...POLL, interval: 2000 });
    const stopped = pidOf(await reader());
    kill(stopped, "SIGSTOP");
    onTestFinished(() => kill(stopped, "SIGCONT"));
    const titles = Array.from({ length: 20 }, (_, i) => `stopped ${i}`);
    await insert(titles);
    await expect.poll(own.titles, POLL).toEqual(titles);
    await expect.poll(async () => pidOf(await reader()), POLL).not.toBe(stopped);
    kill(stopped, "SIGCONT");
    const woken = Array.from({ length: 20 }, (_, i) => `woken ${i}`);
    await insert(woken);
    for (const each of all) await expect.poll(each.titles, POLL).toEqual([...titles, ...woken]);
    for (const { count } of all) expect([count("gap"), count("snapshot")]).toEqual([0, 1]);
    expect(await query(SLOTS)).toHaveLength(1);
  });
});

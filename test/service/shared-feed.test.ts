import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Command, nodeStart, POLL } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { followStream } from "../support/event-stream.ts";
import { kill, processesBelow } from "../support/processes.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

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

  const follow = (url: () => string) =>
    followStream(() => `${url()}/rest/v1/notes`, { authorization: `Bearer ${service.token("ada")}` });

  test("share one replication slot; a killed process loses nothing for its clients, who go on at another one", async () => {
    const { url } = child;
    const own = follow(() => service.url);
    const theirs = Array.from({ length: 4 }, () => follow(() => url));
    for (const { count } of [own, ...theirs]) await expect.poll(() => count("snapshot"), POLL).toBe(1);
    const expected = ["1", "2", "3"];
    await insert(expected);
    for (const { titles } of [own, ...theirs]) await expect.poll(titles, POLL).toEqual(expected);
    expect(await query(SLOTS)).toHaveLength(1);

    const reader = async () => (await service.health()).details.changes.shared.reader as string | null;
    const killed = await reader();
    const [, pid] = killed!.split(":");
    expect(processesBelow(child.child.pid!)).toContain(Number(pid));
    kill(Number(pid), "SIGKILL");
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
});

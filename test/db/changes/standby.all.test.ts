import type pg from "pg";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { findChanges } from "../../../db/changes/changes-config.ts";
import { inspectServer } from "../../../db/changes/requirements.ts";
import { followStream } from "../../support/event-stream.ts";
import { hasRedis, startRedis } from "../../support/redis.ts";
import { type ReplicaRig, startReplicaRig } from "../../support/replica-rig.ts";
import { startTestService } from "../../support/service.ts";
import type { TestReplica } from "../../support/streaming-replica.ts";
import { POLL } from "../../support/until.ts";

const NOTES = `
  create table notes (id int primary key generated always as identity, title text not null);
  alter table notes enable row level security;
  create policy "everyone" on notes using (true);
  grant select on notes to anon`;

const SLOTS = "select slot_name, active, wal_status from pg_replication_slots where slot_type = 'logical'";

let rig: ReplicaRig;
let standby: TestReplica;
beforeAll(async () => {
  rig = await startReplicaRig(1);
  [standby] = rig.replicas as [TestReplica];
  // The primary keeps rows of the catalog for the slot also while the standby is away.
  await dba("select pg_create_physical_replication_slot('standby')");
  await standby.query("alter system set primary_slot_name = 'standby'");
  await standby.query("select pg_reload_conf()");
});
afterAll(() => rig?.remove());

/** At the primary. */
const dba = async (sql: string, ...values: unknown[]) => (await rig.primary.owner.query(sql, values)).rows;
const insert = (...titles: string[]) => dba("insert into notes (title) select unnest($1::text[])", titles);

async function feedBack(isOn: boolean): Promise<void> {
  await standby.query(`alter system set hot_standby_feedback = ${isOn ? "on" : "off"}`);
  await standby.query("select pg_reload_conf()");
  // The slots of earlier tests do not hold it back.
  const held = "select xmin is not null as held from pg_replication_slots where slot_name = 'standby'";
  await vi.waitUntil(async () => (await dba(held))[0]?.held === isOn, POLL);
}

/** Those of services that have ended. */
const dropSlots = async () =>
  void (await standby.query(
    "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_type = 'logical'",
  ));

async function start(settings: Readonly<Record<string, string>> = {}) {
  const warnings: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void warnings.push(JSON.parse(line).msg) });
  const all = { CHANGES_URL: standby.url, API_KEY_REQUIRED: "off", ...settings };
  onTestFinished(dropSlots);
  const service = await startTestService(all, rig.primary, log);
  onTestFinished(() => service.stop());
  await dba("drop table if exists notes");
  await dba(NOTES);
  const follow = () => followStream(() => `${service.url}/rest/v1/notes`, {});
  return { service, warnings, follow };
}

describe("changes that a standby decodes", () => {
  beforeEach(() => feedBack(true));

  test.each(hasRedis ? ["alone", "for all processes"] : ["alone"])("reach subscribers, read %s", async (how) => {
    const redis = how === "alone" ? null : await startRedis();
    onTestFinished(() => redis?.kill());
    const { follow, service, warnings } = await start({ INSTANCE_ID: "web", ...(redis && { REDIS_URL: redis.url }) });
    const notes = follow();
    await expect.poll(() => notes.count("snapshot"), POLL).toBe(1);
    const expected = Array.from({ length: 20 }, (_, i) => `note ${i}`);
    for (const title of expected) await insert(title);
    await expect.poll(notes.titles, POLL).toEqual(expected);
    expect(await dba(SLOTS)).toEqual([]);
    expect(await standby.query(SLOTS)).toEqual([expect.objectContaining({ active: true })]);

    // What the standby has not replayed yet is late, and not lost.
    await standby.pause();
    await insert("late");
    await expect.poll(async () => (await service.health()).details.changes.lag.bytes, POLL).toBeGreaterThan(0);
    await standby.resume();
    await expect.poll(notes.titles, POLL).toEqual([...expected, "late"]);

    // So is what it decodes after a restart.
    await standby.stop();
    await insert("meanwhile");
    await standby.start();
    await expect.poll(notes.titles, POLL).toEqual([...expected, "late", "meanwhile"]);
    expect([notes.count("gap"), notes.count("snapshot")]).toEqual([0, 1]);
    expect(warnings.filter((text) => text.includes("hot_standby_feedback"))).toEqual([]);
  });

  test("are an explicit gap when the slot conflicts with what is replayed", async () => {
    const { follow, warnings } = await start({ INSTANCE_ID: "conflict" });
    const notes = follow();
    await expect.poll(() => notes.count("snapshot"), POLL).toBe(1);
    await insert("before");
    await expect.poll(notes.titles, POLL).toEqual(["before"]);
    await feedBack(false);
    await expect.poll(() => warnings, POLL).toContainEqual(expect.stringContaining("hot_standby_feedback is off"));
    // Rows of the catalog that the slot still needs.
    await dba("create table removed (id int); drop table removed");
    await dba("vacuum (full) pg_catalog.pg_class");
    await expect.poll(() => notes.count("gap"), POLL).toBeGreaterThan(0);
    await insert("after");
    await expect.poll(() => [...notes.titles(), ...notes.snapshots()], POLL).toContain("after");
  });

  test("leave no slot of the same name at the primary", async () => {
    const name = (
      await dba("select format('content_%s_moved', oid) as name from pg_database where datname = current_database()")
    )[0].name;
    await dba("select pg_create_logical_replication_slot($1, 'pgoutput')", name);
    const { follow } = await start({ INSTANCE_ID: "moved" });
    const notes = follow();
    await expect.poll(() => notes.count("snapshot"), POLL).toBe(1);
    await insert("moved");
    await expect.poll(notes.titles, POLL).toEqual(["moved"]);
    expect(await dba(SLOTS)).toEqual([]);
  });
});

describe("CHANGES_URL with MIGRATE=off", () => {
  const urlAtStandby = () => Object.assign(new URL(rig.primary.url), { host: new URL(standby.url).host }).href;

  test("may name a standby, where the publication cannot be changed", async () => {
    await dba("create table if not exists published (id int primary key)");
    await dba("drop publication if exists content_changes");
    await dba("create publication content_changes for table published");
    await standby.catchUp();
    expect(await findChanges(rig.primary.url, { schemas: ["public"], changesUrl: urlAtStandby() })).toMatchObject({
      missing: null,
      manager: "dba",
      url: rig.primary.url,
      standbyUrl: urlAtStandby(),
    });
  });

  test("must not name a standby with a PostgreSQL that cannot decode there", async () => {
    const server = { isStandby: true, version: 150_012, name: "15.12", system: "7" };
    const client = (of: object) => ({ query: async () => ({ rows: [of] }) }) as unknown as pg.ClientBase;
    expect((await inspectServer(client(server))).refusals).toEqual([
      "CHANGES_URL names a standby with PostgreSQL 15.12: only from 16 on can a standby decode its log",
    ]);
    expect((await inspectServer(client({ ...server, version: 160_000 }))).refusals).toEqual([]);
    expect((await inspectServer(client({ ...server, isStandby: false }))).refusals).toEqual([]);
  });
});

import { setTimeout } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { followStream } from "../support/event-stream.ts";
import { startReplicaRig } from "../support/replica-rig.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { startReplicatedCluster } from "../support/standby.ts";
import type { TestReplica } from "../support/streaming-replica.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table notes (id int primary key generated always as identity, title text not null);
  alter table notes enable row level security;
  create policy "everyone" on notes using (true);
  grant select, insert on notes to anon`;

/** A service whose changes a standby decodes. `other` is the host of the server that may be promoted. */
async function start(primary: string, other: string, standby: string) {
  const url = `${primary.replace("@", `@${other},`)}?target_session_attrs=read-write`;
  const settings = { API_KEY_REQUIRED: "off", DATABASE_URL: url, CHANGES_URL: standby, INSTANCE_ID: "web" };
  const owner = null as never;
  const service = await startTestService(settings, { name: "", url, owner, drop: async () => {} });
  onTestFinished(() => service.stop());
  await withClient(primary, (client) => client.query(NOTES));
  return service;
}

async function write(service: TestService, title: string): Promise<boolean> {
  const { status } = await fetch(`${service.url}/rest/v1/notes`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ title }),
  });
  return status === 201;
}

/** A subscriber gets everything that is written before, during (as `failOver` says) and after the failover, once and in order, and no gap. */
async function expectNoGap(service: TestService, failOver: () => Promise<readonly string[]>): Promise<void> {
  const notes = followStream(() => `${service.url}/rest/v1/notes`, {});
  await expect.poll(() => notes.count("snapshot"), POLL).toBe(1);
  const titles = ["before 1", "before 2"];
  for (const title of titles) expect(await write(service, title)).toBe(true);
  await expect.poll(notes.titles, POLL).toEqual(titles);
  titles.push(...(await failOver()));
  for (const title of ["after 1", "after 2", "after 3"]) {
    while (!(await write(service, title))) await setTimeout(20);
    titles.push(title);
  }
  await expect.poll(notes.titles, POLL).toEqual(titles);
  expect([notes.count("gap"), notes.count("snapshot")]).toEqual([0, 1]);
}

test("when the standby that decodes the log is promoted, subscribers continue from its slot", async () => {
  const servers = await startReplicatedCluster();
  onTestFinished(() => servers.remove());
  const { primary, standby, database } = servers;
  const host = `127.0.0.1:${standby.port}`;
  const service = await start(primary.url(database), host, `postgres://${host}`);
  await expectNoGap(service, async () => {
    process.kill(primary.pid, "SIGKILL");
    await primary.ended;
    await servers.promote();
    return [];
  });
}, 180_000);

/**
 * Removes the dead rows that DDL has left in the catalog, once the slot no longer needs them. Otherwise the new primary, which does not know
 * the slot until its server follows it, could remove them, and the slot would be lost.
 */
const removeDeadRows = (primary: string, decoding: TestReplica) =>
  withClient(primary, async (client) => {
    const { rows } = await client.query("select pg_snapshot_xmax(pg_current_snapshot())::text as next");
    const isPast = async () => {
      await client.query("select pg_log_standby_snapshot(), txid_current()");
      const slots = await decoding.query(
        `select catalog_xmin::text::bigint >= ${rows[0].next} as past from pg_replication_slots where slot_type = 'logical'`,
      );
      return slots.every(({ past }: { past: boolean }) => past);
    };
    await expect.poll(isPast, POLL).toBe(true);
    await client.query("vacuum");
  });

test("when another standby is promoted, they continue as soon as the one that decodes follows it", async () => {
  const rig = await startReplicaRig(2);
  onTestFinished(() => rig.remove());
  const [promoted, decoding] = rig.replicas as [TestReplica, TestReplica];
  await decoding.query("alter system set hot_standby_feedback = on");
  // It would leave dead rows in the catalog.
  for (const server of [rig.primary.owner, promoted]) await server.query("alter system set autovacuum = off");
  for (const server of [rig.primary.owner, promoted, decoding]) await server.query("select pg_reload_conf()");
  const service = await start(rig.primary.url, promoted.name, decoding.url);
  await expectNoGap(service, async () => {
    await removeDeadRows(rig.primary.url, decoding);
    await Promise.all([promoted.catchUp(), decoding.catchUp()]);
    await rig.killPrimary();
    await promoted.query("select pg_promote()");
    await vi.waitUntil(() => write(service, "between"), POLL);
    await decoding.follow(Number(promoted.name.split(":")[1]));
    return ["between"];
  });
}, 180_000);

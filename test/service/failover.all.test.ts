import { rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { withOneHost } from "../../config/postgres-url.ts";
import { parseStartIn, textOfStart } from "../../db/changes/position.ts";
import { withClient } from "../../db/cluster/client.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { findPrimary } from "../../db/wire/primary.ts";
import { followStream } from "../support/event-stream.ts";
import { type Haproxy, hasHaproxy, startHaproxy } from "../support/haproxy.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { type ReplicatedCluster, startReplicatedCluster } from "../support/standby.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table notes (id int primary key generated always as identity, title text not null);
  alter table notes enable row level security;
  create policy "everyone" on notes using (true);
  grant select, insert on notes to authenticated`;

let servers: ReplicatedCluster;
let haproxy: Haproxy | undefined;
/** The first one knows both servers, and has a slot that the standby copies. The second one has a temporary slot, and one address. */
let services: readonly [TestService, TestService];

beforeAll(async () => {
  servers = await startReplicatedCluster();
  const primary = servers.primary.url(servers.database);
  await withClient(primary, (owner) => owner.query(NOTES));
  const standby = servers.standby.url(servers.database);
  // The standby comes first, so that the service must look for the primary.
  const both = `${primary.replace("@", `@127.0.0.1:${servers.standby.port},`)}?target_session_attrs=read-write`;
  if (hasHaproxy) haproxy = await startHaproxy([primary, standby]);
  const one = haproxy ? Object.assign(new URL(primary), { port: String(haproxy.port) }).href : both;
  const start = (url: string, settings: Readonly<Record<string, string>>) =>
    startTestService(
      { API_KEY_REQUIRED: "off", TASK_CONCURRENCY: "1", DATABASE_URL: url, ...settings },
      { name: servers.database, url, owner: null as never, drop: async () => {} },
    );
  services = [await start(both, { INSTANCE_ID: "first" }), await start(one, {})];
}, 180_000);
afterAll(async () => {
  for (const service of services ?? []) await service.stop();
  await haproxy?.stop();
  await servers?.remove();
});

const headersOf = ({ token }: TestService) => ({ authorization: `Bearer ${token("ada")}` });

type Written = { readonly title: string; readonly status: number; readonly retryAfter: string | null };

/** Inserts a note, then the next, until `isDone`. */
async function write(service: TestService, name: string, isDone: (written: readonly Written[]) => boolean) {
  const written: Written[] = [];
  while (!isDone(written)) {
    const title = `${name} ${written.length}`;
    const { status, headers } = await fetch(`${service.url}/rest/v1/notes`, {
      method: "POST",
      headers: { ...headersOf(service), "content-type": "application/json" },
      body: JSON.stringify({ title }),
    });
    written.push({ title, status, retryAfter: headers.get("retry-after") });
    if (status !== 201) await setTimeout(20);
  }
  return written;
}

const follow = (service: TestService) => followStream(() => `${service.url}/rest/v1/notes`, headersOf(service));

/**
 * The standby copies a slot when the slot has moved past what the standby had at first. The service lets it move when the write-ahead
 * log is 64 MB further.
 */
const moveSlots = () =>
  withClient(servers.primary.url(servers.database), async (owner) => {
    for (let segment = 0; segment < 6; segment++)
      await owner.query(
        "select pg_log_standby_snapshot(), pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()",
      );
  });

const slotsOnStandby = async () => {
  await moveSlots();
  return withClient(servers.standby.url(servers.database), async (owner) => {
    const { rows } = await owner.query("select slot_name from pg_replication_slots where synced and not temporary");
    return rows.map(({ slot_name }) => slot_name as string);
  });
};

test("after a failover, writes go on by themselves, none that was acknowledged is lost, and subscribers continue or get a gap", async () => {
  const [first, second] = services;
  const [kept, lost] = [follow(first), follow(second)];
  for (const { count } of [kept, lost]) await expect.poll(() => count("snapshot"), POLL).toBe(1);
  await expect
    .poll(slotsOnStandby, { timeout: 120_000, interval: 500 })
    .toContainEqual(expect.stringMatching(/_first$/));

  let isPromoted = false;
  const written = services.flatMap((service, at) =>
    [1, 2, 3].map((writer) => {
      // Ten after the first one that the new primary accepts.
      let after = 0;
      return write(service, `${at}.${writer}`, (notes) => {
        if (isPromoted && notes.at(-1)?.status === 201) after++;
        return after === 10;
      });
    }),
  );
  await expect.poll(() => kept.count("INSERT"), POLL).toBeGreaterThan(50);
  process.kill(servers.primary.pid, "SIGKILL");
  await servers.primary.ended;
  await setTimeout(200);
  await servers.promote();
  isPromoted = true;

  const notes = (await Promise.all(written)).flat();
  const refused = notes.filter(({ status }) => status !== 201);
  expect(refused.length).toBeGreaterThan(0);
  expect([...new Set(refused.map(({ status, retryAfter }) => `${status} ${retryAfter}`))]).toEqual(["503 5"]);

  const acknowledged = notes.flatMap(({ title, status }) => (status === 201 ? [title] : []));
  const { rows } = await withClient(servers.standby.url(servers.database), (owner) =>
    owner.query("select title from notes order by id"),
  );
  const stored = rows.map(({ title }) => title as string);
  expect(stored).toEqual(expect.arrayContaining(acknowledged));

  // A commit that the standby had got, and of which the client heard nothing, is delivered too.
  await expect.poll(() => [...new Set(kept.titles())].toSorted(), POLL).toEqual(stored.toSorted());
  expect([kept.count("gap"), kept.count("snapshot")]).toEqual([0, 1]);
  await expect.poll(() => [...lost.snapshots(), ...lost.titles()], POLL).toEqual(expect.arrayContaining(stored));
  expect(lost.count("gap")).toBe(1);
}, 180_000);

test("changes are read from a promoted server that lacks the history of its timeline", async () => {
  // The first one has a slot that begins on the previous timeline: PostgreSQL itself needs the history to read it.
  const [, second] = services;
  await rm(join(servers.standbyDir, "pg_wal", "00000002.history"));
  await withClient(servers.standby.url(servers.database), (owner) =>
    owner.query("select pg_terminate_backend(pid) from pg_stat_replication"),
  );
  const notes = follow(second);
  await expect.poll(() => notes.count("snapshot"), POLL).toBeGreaterThan(0);
  await write(second, "later", ([note]) => note?.status === 201);
  await expect.poll(() => [...notes.titles(), ...notes.snapshots()], POLL).toContain("later 0");
});

test("a position of the previous primary is one of the new primary only up to the promotion, and without a snapshot", () => {
  const ancestors = new Map([["before", 100n]]);
  const inNew = (stream: string, lsn: bigint, snapshot = {}) =>
    parseStartIn("after", ancestors, textOfStart({ lsn, index: 3, ...snapshot }, stream))!.lsn;
  const isGap = -1n;
  expect([inNew("after", 200n), inNew("before", 100n), inNew("before", 101n), inNew("other", 50n)]).toEqual([
    ...[200n, 100n],
    ...[isGap, isGap],
  ]);
  const snapshot = { snapshot: { end: 7n, running: new Set([5n]) } };
  expect([inNew("after", 50n, snapshot), inNew("before", 50n, snapshot)]).toEqual([50n, isGap]);
});

test("a start without a primary names what each server answers", async () => {
  const [one, two] = [await findFreePort(), await findFreePort()];
  const url = withOneHost(`postgres://owner:secret@127.0.0.1:${one},127.0.0.1:${two}/shop`);
  await expect(withClient(url, async () => {})).rejects.toThrow(
    new RegExp(
      `^cannot connect to the database: no server is the primary and accepts connections: 127.0.0.1:${one}: .*ECONNREFUSED.*; 127.0.0.1:${two}: .*ECONNREFUSED`,
    ),
  );
});

test("the search for the primary does not wait for a server that accepts connections and then says nothing", async () => {
  // AuthenticationOk and ReadyForQuery.
  const ready = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
  const silent = createServer((socket) => socket.on("error", () => {}).once("data", () => socket.write(ready)));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as AddressInfo;
  const url = withOneHost(`postgres://owner:secret@127.0.0.1:${port},127.0.0.1:${await findFreePort()}/shop`);
  // The second one would wait for the first one.
  for (let search = 0; search < 2; search++)
    await expect(findPrimary(url)).rejects.toThrow(`127.0.0.1:${port}: Query read timeout`);
});

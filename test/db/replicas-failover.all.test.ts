import pino from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type ReplicaRig, startReplicaRig, usesAll } from "../support/replica-rig.ts";
import { sendRest } from "../support/rest-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import type { TestReplica } from "../support/streaming-replica.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table public.notes (id int primary key, text text not null default repeat('-', 200));
  grant select, insert on public.notes to anon, authenticated;
  create function public.on_replica() returns boolean language sql stable return pg_is_in_recovery();
  grant execute on function public.on_replica() to anon, authenticated`;

let rig: ReplicaRig;
/** Promoted; follows it; has more of the log of the previous primary than both. */
let [promoted, follower, ahead] = [] as unknown as [TestReplica, TestReplica, TestReplica];
let service: TestService;
const warnings: { readonly msg: string; readonly replica?: string }[] = [];

beforeAll(async () => {
  rig = await startReplicaRig(3);
  [promoted, follower, ahead] = rig.replicas as [TestReplica, TestReplica, TestReplica];
  const both = rig.primary.url.replace("@", `@${promoted.name},`);
  const log = pino({ level: "info" }, { write: (line: string) => void warnings.push(JSON.parse(line)) });
  const settings = {
    GRAPHQL_DOCUMENTS: "none",
    METRICS: "on",
    SEED: "demo",
    DATABASE_URL: `${both}?target_session_attrs=read-write`,
    DATABASE_REPLICA_URLS: [follower.url, ahead.url].join(),
    // None of them is excluded because it is behind.
    replicaMaxLag: 60_000,
    replicaMaxWait: 0,
  };
  service = await startTestService(settings, rig.primary, log);
  await rig.primary.owner.query(NOTES);
  await vi.waitUntil(() => usesAll([follower, ahead], service), POLL);
});
afterAll(async () => {
  await service?.service.stop();
  await rig?.remove();
});

const ask = (path: string, sent: object = {}) => sendRest(service, path, { as: "ada", ...sent });
const onReplica = async () => (await ask("rpc/on_replica")).json;

test("after a failover, a replica with a part of the log that the new primary never got answers nothing, and one that follows does", async () => {
  await expect.poll(onReplica, POLL).toBe(true);
  for (const replica of [promoted, follower]) await replica.follow(null);
  await vi.waitUntil(async () => (await promoted.query("select from pg_stat_wal_receiver")).length === 0, POLL);
  await vi.waitUntil(async () => (await follower.query("select from pg_stat_wal_receiver")).length === 0, POLL);
  // So much more that the new primary does not reach this position in the test.
  await rig.primary.owner.query("insert into notes (id) select generate_series(1000, 20000)");
  await ahead.catchUp();
  await rig.killPrimary();
  await promoted.query("select pg_promote()");
  const port = Number(promoted.name.split(":")[1]);
  await follower.follow(port);

  let last = 0;
  /** Writes at the new primary as soon as it can, and reads the write, with its position and without. */
  const isSeen = async () => {
    const id = ++last;
    const { status, headers } = await ask("notes", { body: { id } });
    if (status !== 201) return null;
    const path = `notes?select=id&id=eq.${id}`;
    const position = headers.get("change-position");
    const named = await ask(path, position === null ? {} : { headers: { "Change-Position": position } });
    return [named.json, (await ask(path)).json].every((rows) => rows.length === 1);
  };
  const isBack = async () => (await isSeen()) !== null;
  await vi.waitUntil(isBack, POLL);
  const seen: (boolean | null)[] = [];
  const isDecided = async () => {
    seen.push(await isSeen());
    return (await usesAll([follower], service)) && !(await usesAll([ahead], service));
  };
  await vi.waitUntil(isDecided, POLL);
  for (let i = 0; i < 20; i++) seen.push(await isSeen());
  expect(new Set(seen)).toEqual(new Set([true]));
  expect(await usesAll([ahead], service)).toBe(false);
  expect(warnings).toContainEqual(
    expect.objectContaining({
      replica: ahead.name,
      msg: "no reads go to the replica: it does not follow the primary (yet)",
    }),
  );
  // Those who have written nothing lately are answered by the follower.
  await expect.poll(async () => (await ask("rpc/on_replica", { as: "bob" })).json, POLL).toBe(true);
});

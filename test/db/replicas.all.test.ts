import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import pg from "pg";
import { beforeAll, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { PrimaryPosition } from "../../db/replicas/primary-position.ts";
import { Replica } from "../../db/replicas/replica.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import {
  metricOf,
  pauseReplicas as pauseAll,
  type ReplicaRig,
  startReplicaRig,
  untilUsed,
} from "../support/replica-rig.ts";
import { type RestSent, sendRest } from "../support/rest-client.ts";
import { type DemoUser, startTestService, type TestService, type TestSettings } from "../support/service.ts";
import { type TestReplica, whileDisturbed } from "../support/streaming-replica.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table public.notes (id int primary key, text text not null);
  grant select, insert, update, delete on public.notes to anon, authenticated;
  create function public.on_replica() returns boolean language sql stable return pg_is_in_recovery();
  create function public.log_end() returns pg_lsn language sql stable return pg_current_wal_lsn();
  create function public.add_note(id int) returns void language sql
  begin atomic; insert into public.notes values (id, 'added'); end;
  create function public.add_notes(id int) returns setof public.notes language sql
  begin atomic; insert into public.notes values (id, 'added') returning *; end;
  create function public.wait_for_rows() returns setof boolean language plpgsql stable as $$
  begin
    perform from public.notes;
    if pg_is_in_recovery() then perform pg_sleep(600); end if;
    return next pg_is_in_recovery();
  end $$;
  create function public.wait_on_replica() returns boolean language plpgsql stable as $$
  begin
    perform from public.notes;
    if pg_is_in_recovery() then perform pg_sleep(600); end if;
    return pg_is_in_recovery();
  end $$;
  grant execute on all functions in schema public to anon, authenticated, service_role;`;

const HOUR = 3_600_000;
let rig: ReplicaRig;
let second: TestReplica;
/** Does not wait for replicas, however far behind they are. */
let service: TestService;
/** Waits for replicas, however long it takes. */
let patient: TestService;

const startService = (settings: TestSettings) =>
  startTestService(
    {
      GRAPHQL_DOCUMENTS: "none",
      METRICS: "on",
      SEED: "demo",
      DATABASE_REPLICA_URLS: urls(),
      replicaMaxLag: HOUR,
      replicaSticky: HOUR,
      ...settings,
    },
    rig.primary,
  );
const urls = () => rig.replicas.map(({ url }) => url).join();
const ask = (path: string, sent: RestSent = {}, at = service) => sendRest(at, path, sent);
const asksReplica = async (at = service, sent: RestSent = {}) => (await ask("rpc/on_replica", sent, at)).json;
const metric = (name: string, at = service) => metricOf(at, name);

const answered = async () => (await metric("db_replica_reads_total")).reduce((sum, [, value]) => sum + value, 0);

beforeAll(async () => {
  rig = await startReplicaRig(2);
  second = rig.replicas[1]!;
  const foreign = new URL(inject("clusterUrl"));
  const isNoReplica = `${urls()},postgres://${foreign.host}`;
  service = await startService({ replicaMaxWait: 0, DATABASE_REPLICA_URLS: isNoReplica });
  await rig.primary.owner.query(NOTES);
  patient = await startService({ replicaMaxWait: 60_000 });
  await usesReplicas();
  return async () => {
    await service.stop();
    await patient.stop();
    await rig.remove();
  };
});

async function usesReplicas(): Promise<void> {
  await untilUsed(rig, service, patient);
  for (const caller of [{}, { as: "ada" }, { as: "bob" }] as const)
    await vi.waitUntil(() => asksReplica(service, caller), POLL);
}

const pauseReplicas = () => pauseAll(rig, service, patient);
const resumeReplicas = () => Promise.all(rig.replicas.map((replica) => replica.resume()));

const write = (id: number, as: "ada" | "bob" = "ada", at = service) =>
  ask("notes", { as, body: { id, text: `of ${as}` } }, at);
const textOf = async (id: number, sent: RestSent = {}, at = service) =>
  (await ask(`notes?select=text&id=eq.${id}`, sent, at)).json[0]?.text ?? null;
const sending = (position: string | null) => ({ headers: { "change-position": position! } });

describe("a replica answers", () => {
  test("reads of tables and functions that are not volatile, whatever the method", async () => {
    const before = await answered();
    for (const sent of [{}, { method: "HEAD" }, { body: {} }])
      expect((await ask("rpc/on_replica", sent)).status).toBe(200);
    expect(
      (await ask("notes", { method: "QUERY", headers: { "content-type": "application/x-www-form-urlencoded" } }))
        .status,
    ).toBe(200);
    expect((await answered()) - before).toBe(4);
  });

  test.each(["application/x-ndjson", "text/csv"])("results of any size as %s", async (accept) => {
    const before = await answered();
    const exported = await ask("notes", { as: "bob", headers: { accept } });
    expect([exported.status, exported.headers.get("content-type")]).toEqual([200, expect.stringContaining(accept)]);
    const counted = await ask("notes", { as: "bob", headers: { accept }, prefer: "count=exact" });
    expect(counted.text).toBe(exported.text);
    expect((await answered()) - before).toBe(2);
    await ask("notes", { as: "bob", headers: { accept }, prefer: "read=primary" });
    expect((await answered()) - before).toBe(2);
  });

  test("the rows of a stream of changes", async () => {
    const before = await answered();
    const apikey = service.service.tokens.issueKey("anon");
    const stream = new EventStreamClient(`${service.url}/rest/v1/notes`, { headers: { apikey } });
    await stream.take(1, "snapshot");
    expect((await answered()) - before).toBe(1);
  });

  test("for every caller, with their rights", async () => {
    for (const as of [undefined, "ada", "bob", "admin", "service"] as const) {
      const [caller, path] = [as === undefined ? {} : { as }, "articles?select=id,status&order=id"];
      expect(await asksReplica(service, caller)).toBe(true);
      expect((await ask(path, caller)).text).toBe((await ask(path, { ...caller, prefer: "read=primary" })).text);
    }
  });
});

describe("the primary answers", () => {
  test("writes, and volatile functions", async () => {
    expect((await ask("notes", { body: { id: 1, text: "one" } })).status).toBe(201);
    expect((await ask("rpc/add_note", { body: { id: 2 } })).status).toBe(204);
  });

  test("with Prefer: read=primary, which the response repeats", async () => {
    const { json, headers } = await ask("rpc/on_replica", { prefer: "read=primary" });
    expect([json, headers.get("preference-applied")]).toEqual([false, "read=primary"]);
  });

  test("all reads of a role with content.read = 'primary'", async () => {
    await usesReplicas();
    const reload = "notify pgrst, 'reload schema'";
    await rig.primary.owner.query(`alter role anon set content.read = 'primary'; ${reload}`);
    await expect.poll(() => asksReplica(), POLL).toBe(false);
    expect(await asksReplica(service, { as: "bob" })).toBe(true);
    await rig.primary.owner.query(`alter role anon reset content.read; ${reload}`);
    await expect.poll(() => asksReplica(), POLL).toBe(true);
  });

  test("a function that a replica cannot execute", async () => {
    const { status, text } = await ask("rpc/log_end");
    expect([status, text]).toEqual([200, expect.stringMatching(/^"[0-9A-F]+\/[0-9A-F]+"$/)]);
  });

  test("with the error that is true there", async () => {
    await pauseReplicas();
    expect((await ask("nothing")).status).toBe(404);
    await rig.primary.owner.query(
      "create table public.later (id int); insert into public.later values (1); grant select on public.later to anon",
    );
    await expect.poll(async () => (await ask("later")).json, POLL).toEqual([{ id: 1 }]);
    await rig.primary.owner.query("alter table public.later add name text not null default 'new'");
    await expect.poll(async () => (await ask("later?select=name")).json, POLL).toEqual([{ name: "new" }]);
    await rig.primary.owner.query(`
      create function public.count_later() returns bigint language sql stable as 'select count(*) from public.later';
      grant execute on function public.count_later() to anon`);
    await expect.poll(async () => (await ask("rpc/count_later")).json, POLL).toBe(1);
    await rig.primary.owner.query("drop function public.count_later(); drop table public.later");
  });
});

describe("while the replicas are behind", () => {
  test("a write returns its position, and a read that sends it sees the write", async () => {
    await pauseReplicas();
    const { headers } = await write(10);
    const position = headers.get("change-position");
    expect(position).toMatch(/^[a-z0-9]+-[a-z0-9]+-0$/);
    expect(await textOf(10, { as: "bob" })).toBeNull();
    expect(await textOf(10, { as: "bob", ...sending(position) })).toBe("of ada");
  });

  test("a write whose position is unknown returns one with which the primary answers", async () => {
    const execute = "execute on function pg_current_wal_insert_lsn()";
    // It remembers for an hour that the position of its client is unknown.
    const other = await startService({ replicaMaxWait: 0 });
    onTestFinished(() => other.stop());
    await untilUsed(rig, other);
    await pauseReplicas();
    await rig.primary.owner.query(`revoke ${execute} from public`);
    onTestFinished(async () => void (await rig.primary.owner.query(`grant ${execute} to public`)));
    const { status, headers } = await write(31, "ada", other);
    expect([status, headers.get("change-position")]).toEqual([201, "0-0-0"]);
    const sent = { as: "bob" as const, ...sending(headers.get("change-position")) };
    expect(await textOf(31, sent, other)).toBe("of ada");
  });

  test("the OpenAPI documents describe the position of a write, which the response has", async () => {
    const tables = await ask("openapi.json", { as: "ada" });
    const resources = await fetch(`${service.url}/openapi.json`);
    for (const { paths } of [tables.json, (await resources.json()) as any])
      expect(paths["/articles"].post.responses[201].headers).toHaveProperty("Change-Position");
  });

  test("the client of the documentation sees its last write at every instance", async () => {
    const other = await startService({ replicaMaxWait: 0 });
    onTestFinished(() => other.stop());
    await untilUsed(rig, other);
    await pauseReplicas();
    const [, block] = /```js\n([^`]*)```/.exec(await readFile("docs/deployment.md", "utf8"))!;
    const code = `${block!.replace("http://127.0.0.1:3000", other.url)}; return client;`;
    // Writes reach one instance and reads the other, as behind a load balancer.
    const balanced = (url: string, options: RequestInit) =>
      fetch(options.method === "GET" ? url.replace(other.url, service.url) : url, options);
    const apikey = service.service.tokens.issueKey("anon");
    const env = { ANON_KEY: apikey };
    const client: SupabaseClient = new Function("createClient", "process", "fetch", code)(
      createClient,
      { env },
      balanced,
    );
    expect((await client.from("notes").insert({ id: 20, text: "new" })).error).toBeNull();
    expect((await client.from("notes").select("text").eq("id", 20)).data).toEqual([{ text: "new" }]);
    expect(await textOf(20)).toBeNull();
  });

  test("the caller sees their own write without a position", async () => {
    await pauseReplicas();
    await write(11, "ada");
    expect([await textOf(11, { as: "ada" }), await textOf(11, { as: "bob" })]).toEqual(["of ada", null]);
    await ask("rpc/add_note", { as: "bob", body: { id: 12 } });
    expect(await textOf(12, { as: "bob" })).toBe("added");
  });

  test("a resource is read on a replica, or where the write is that the request names", async () => {
    await pauseReplicas();
    const article = async (as: DemoUser, sent: RequestInit = {}) => {
      const headers = { authorization: `Bearer ${service.token(as)}`, ...sent.headers };
      const response = await fetch(`${service.url}/articles/1`, { ...sent, headers });
      return { response, body: (await response.json()) as { title: string } };
    };
    const { title } = (await article("bob")).body;
    const change = { method: "PATCH", headers: { "content-type": "application/json" }, body: '{"title":"Changed"}' };
    const { response } = await article("ada", change);
    expect(response.status).toBe(200);
    expect((await article("ada")).body.title).toBe("Changed");
    expect((await article("bob")).body.title).toBe(title);
    expect((await article("bob", sending(response.headers.get("change-position")))).body.title).toBe("Changed");
    const primary = await article("bob", { headers: { prefer: "read=primary" } });
    expect([primary.body.title, primary.response.headers.get("preference-applied")]).toEqual([
      "Changed",
      "read=primary",
    ]);
  });

  test("a read waits until a replica has what it must see", async () => {
    await pauseReplicas();
    const { headers } = await write(13, "ada", patient);
    const text = textOf(13, { as: "bob", ...sending(headers.get("change-position")) }, patient);
    const answer = asksReplica(patient, { as: "ada" });
    await second.resume();
    expect([await text, await answer]).toEqual(["of ada", true]);
  });

  test("the primary answers a position of another server, and one that is none", async () => {
    for (const position of ["k3vd81-1c4e8-2", "tomorrow", ""])
      expect(await asksReplica(service, { headers: { "change-position": position } })).toBe(false);
  });

  test("a stream from the position of a read on a replica misses nothing", async () => {
    await pauseReplicas();
    await write(14, "ada");
    const { headers, json } = await ask("notes?id=eq.14", { as: "bob" });
    expect(json).toEqual([]);
    const apikey = service.service.tokens.issueKey("anon");
    const stream = new EventStreamClient(`${service.url}/rest/v1/notes?id=eq.14`, {
      headers: { apikey },
      lastEventId: headers.get("change-position")!,
    });
    expect((await stream.take(1, "INSERT"))[0]!.data.new).toEqual({ id: 14, text: "of ada" });
  });

  test("an export contains what its caller has written, also with an export", async () => {
    await pauseReplicas();
    await write(16, "ada");
    const headers = { accept: "application/x-ndjson" };
    const has = async (id: number, as: "ada" | "bob") =>
      (await ask(`notes?id=eq.${id}`, { as, headers })).text.includes(`"id":${id}`);
    expect([await has(16, "ada"), await has(16, "bob")]).toEqual([true, false]);
    expect((await ask("rpc/add_notes", { as: "bob", headers, body: { id: 17 } })).text).toContain('"id":17');
    expect(await has(17, "bob")).toBe(true);
  });

  test("the rows of a stream contain every change that the service has sent before", async () => {
    await pauseReplicas();
    const headers = { apikey: service.service.tokens.issueKey("anon") };
    const url = `${service.url}/rest/v1/notes?id=eq.18`;
    const first = new EventStreamClient(url, { headers });
    await first.take(1, "snapshot");
    await write(18, "ada");
    await first.take(1, "INSERT");
    const second = new EventStreamClient(url, { headers });
    expect((await second.take(1, "snapshot"))[0]!.data).toEqual([{ id: 18, text: "of ada" }]);
  });

  test("a replica that is behind by more than `replicaMaxLag` answers nothing until it has caught up", async () => {
    const strict = await startService({ replicaMaxLag: 1000, replicaMaxWait: 0 });
    onTestFinished(() => strict.stop());
    await expect.poll(() => asksReplica(strict, { as: "bob" }), POLL).toBe(true);
    await pauseReplicas();
    await write(15, "ada");
    await expect.poll(() => asksReplica(strict, { as: "bob" }), POLL).toBe(false);
    await resumeReplicas();
    await expect.poll(() => asksReplica(strict, { as: "bob" }), POLL).toBe(true);
  });

  test("no read of 100 writers is stale, while replicas stop and go on to replay", async () => {
    const stale: string[] = [];
    const pairs = async (at: TestService, start: number) => {
      for (let id = start; id < start + 50; id++) {
        const { headers } = await write(id, "ada", at);
        if ((await textOf(id, { as: "ada" }, at)) === null) stale.push(`own ${id}`);
        const sent = { as: "bob" as const, headers: sending(headers.get("change-position")).headers };
        // At the other instance, which does not know who has written.
        if ((await textOf(id, sent, at === service ? patient : service)) === null) stale.push(`position ${id}`);
      }
    };
    await whileDisturbed(rig.replicas, () => Promise.all([pairs(service, 1000), pairs(patient, 2000)]));
    await usesReplicas();
    expect(stale).toEqual([]);
  });
});

test("without the right to write a message into the log, a replica must replay what others write", async () => {
  const { owner, url } = rig.primary;
  const emits = await owner.query(
    "select oid::regprocedure::text as emit from pg_proc where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype",
  );
  const emit = `execute on function ${emits.rows[0].emit}`;
  await owner.query(`create role plain login password 'plain'; revoke ${emit} from public`);
  const connectionString = Object.assign(new URL(url), { username: "plain", password: "plain" }).href;
  const pool = new pg.Pool({ connectionString });
  onTestFinished(async () => {
    await pool.end();
    await owner.query(`drop role plain; grant ${emit} to public`);
  });
  const primary = new PrimaryPosition(pool, 1000);
  const before = await primary.mark();
  await owner.query("insert into notes values (77, 'written')");
  expect(await primary.mark()).toBeGreaterThan(before);
});

test("a replica is looked at less often while a read waits for a position that does not come", async () => {
  const pool = new pg.Pool({ connectionString: rig.primary.url });
  const primary = new PrimaryPosition(pool, 1000);
  await primary.sample();
  let looks = 0;
  const replica = new Replica({
    url: Object.assign(new URL(rig.primary.url), { host: new URL(second.url).host }).href,
    ...{ name: second.name, transactions: {} as never, primary, maxLag: 3_600_000 },
    onState: () => {},
    onLook: () => void looks++,
  });
  onTestFinished(async () => {
    await replica.close();
    await pool.end();
  });
  await replica.look(() => true);
  await vi.waitUntil(() => replica.fault === null, POLL);
  await pauseReplicas();
  looks = 0;
  await sleep(2000);
  expect(looks).toBeGreaterThan(5);
  // Every 2 milliseconds it would be up to 1000.
  expect(looks).toBeLessThan(150);
});

describe("a replica that cannot answer", () => {
  test.each([
    ["a read", "rpc/wait_on_replica", "application/json", "false", 1],
    ["an export", "rpc/wait_for_rows", "application/x-ndjson", "false\n", 2],
  ])("because it must replay what conflicts with %s: the primary answers", async (_, path, accept, text, conflicts) => {
    const answer = ask(path, { as: "bob", headers: { accept } });
    await isWaiting();
    await rig.primary.owner.query(`alter table public.notes add more${conflicts} text`);
    expect([(await answer).status, (await answer).text]).toEqual([200, text]);
    expect(await metric("db_replica_fallbacks_total")).toContainEqual(['{reason="conflict"}', conflicts]);
    await usesReplicas();
  });

  test("because it stops: the primary answers, until it is back", async () => {
    const answer = ask("rpc/wait_on_replica", { as: "bob" });
    await isWaiting();
    await Promise.all(rig.replicas.map((replica) => replica.stop()));
    expect([(await answer).status, (await answer).json]).toEqual([200, false]);
    expect(await asksReplica()).toBe(false);
    await Promise.all(rig.replicas.map((replica) => replica.start()));
    await usesReplicas();
  });

  test("because it is no replica of this database is not used", async () => {
    const { host } = new URL(inject("clusterUrl"));
    expect(await metric("db_replica_used")).toContainEqual([`{replica="${host}"}`, 0]);
  });
});

/** Whether a read waits on one of the replicas. */
const isWaiting = () =>
  expect
    .poll(async () => {
      const running = "select from pg_stat_activity where wait_event = 'PgSleep'";
      return (await Promise.all(rig.replicas.map((replica) => replica.query(running)))).flat().length;
    }, POLL)
    .toBe(1);

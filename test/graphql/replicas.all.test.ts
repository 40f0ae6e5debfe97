import { beforeAll, describe, expect, test, vi } from "vitest";
import { connect } from "../support/graphql-client.ts";
import {
  metricOf,
  pauseReplicas as pauseAll,
  type ReplicaRig,
  startReplicaRig,
  untilUsed,
} from "../support/replica-rig.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { whileDisturbed } from "../support/streaming-replica.ts";
import { POLL } from "../support/until.ts";

const NOTES = `
  create table public.notes (id int primary key, text text not null);
  grant select, insert on public.notes to anon, authenticated;
  create function public.on_replica() returns boolean language sql stable return pg_is_in_recovery();
  create function public.count_notes() returns bigint language sql stable return (select count(*) from public.notes);
  create function public.write_note() returns int language plpgsql volatile as $$
  begin insert into public.notes values (900, 'of a query'); return 1; end $$;
  create function public.written_by_query() returns int language plpgsql stable as $$ begin return public.write_note(); end $$;
  grant execute on all functions in schema public to anon, authenticated, service_role;`;

let rig: ReplicaRig;
/** Does not wait for replicas, however far behind they are. */
let service: TestService;
/** Another instance. */
let other: TestService;

beforeAll(async () => {
  rig = await startReplicaRig(2);
  const settings = {
    ...{ METRICS: "on", SEED: "demo", replicaMaxLag: 3_600_000, replicaSticky: 3_600_000 },
    DATABASE_REPLICA_URLS: rig.replicas.map(({ url }) => url).join(),
  };
  service = await startTestService({ ...settings, replicaMaxWait: 0 }, rig.primary);
  await rig.primary.owner.query(NOTES);
  other = await startTestService({ ...settings, replicaMaxWait: 60_000 }, rig.primary);
  for (const at of [service, other])
    await vi.waitUntil(async () => !(await at.gql("{ countNotes onReplica }")).errors, POLL);
  await untilUsed(rig, service, other);
  return async () => {
    await service.stop();
    await other.stop();
    await rig.remove();
  };
});

const pauseReplicas = () => pauseAll(rig, service, other);

type Extensions = Readonly<Record<string, unknown>>;
type Sent = { as?: DemoUser; headers?: Readonly<Record<string, string>>; extensions?: Extensions; at?: TestService };

/** `extensions` are those of the request. */
async function send(query: string, { as = "ada", headers = {}, extensions, at = service }: Sent = {}) {
  const authorization = `Bearer ${at.token(as)}`;
  const response = await fetch(`${at.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization, ...headers },
    body: JSON.stringify({ query, extensions }),
  });
  const json: any = await response.json();
  if (json.errors) throw new Error(JSON.stringify(json.errors));
  return { headers: response.headers, ...json };
}
const create = (id: number, sent?: Sent) =>
  send(`mutation { createNote(input: { id: ${id}, text: "new" }) { text } }`, sent);
/** One statement. */
const ids = async (sent?: Sent) =>
  (await send("{ notes { edges { node { id } } } }", sent)).data.notes.edges.map(({ node }: any) => Number(node.id));
/** Several statements, which share a snapshot. */
const BOTH = "{ onReplica countNotes notes { totalCount } }";
const answered = async (at = service) =>
  (await metricOf(at, "db_replica_reads_total")).reduce((sum, [, value]) => sum + value, 0);

describe("a replica answers", () => {
  test("a query of one statement", async () => {
    const before = await answered();
    await ids({ as: "bob" });
    expect((await answered()) - before).toBe(1);
  });

  test("a query of several statements, in one transaction", async () => {
    const before = await answered();
    const { data } = await send(BOTH, { as: "bob" });
    expect(data).toEqual({ onReplica: true, countNotes: String(data.notes.totalCount), notes: expect.anything() });
    expect((await answered()) - before).toBe(1);
  });

  test("a query over WebSocket, and one whose result is an event", async () => {
    expect((await connect(service, { as: "bob" }).run("{ onReplica }")).data).toEqual({ onReplica: true });
    const accept = "text/event-stream";
    const response = await fetch(`${service.url}/graphql?query={onReplica}`, { headers: { accept } });
    expect(await response.text()).toContain('{"data":{"onReplica":true}}');
  });
});

describe("the primary answers", () => {
  test("the fields of a mutation, which see what it has written", async () => {
    await pauseReplicas();
    const created = await send('mutation { createNote(input: { id: 1, text: "new" }) { id text } }');
    expect(created.data).toEqual({ createNote: { id: "1", text: "new" } });
  });

  test("with Prefer: read=primary or extensions.read", async () => {
    for (const prefer of ["read=primary", 'handling=lenient, read="primary"'])
      expect((await send("{ onReplica }", { as: "bob", headers: { prefer } })).data).toEqual({ onReplica: false });
    expect((await send("{ onReplica }", { as: "bob", extensions: { read: "primary" } })).data.onReplica).toBe(false);
    expect((await send("{ onReplica }", { as: "bob", headers: { prefer: "read=primary-2" } })).data.onReplica).toBe(
      true,
    );
  });

  test("a table, and an error, that a replica does not have yet", async () => {
    await pauseReplicas();
    await rig.primary.owner.query(`
      create table public.laters (id int primary key);
      insert into public.laters values (1);
      grant select on public.laters to anon, authenticated`);
    const query = "{ onReplica laters { totalCount } }";
    await expect
      .poll(async () => (await send(query, { as: "bob" })).data, POLL)
      .toEqual({ onReplica: false, laters: { totalCount: 1 } });
    await rig.primary.owner.query("drop table public.laters");
  });

  test("a query whose function writes after all, and its caller sees what it has written", async () => {
    await pauseReplicas();
    expect((await send("{ writtenByQuery }", { as: "admin" })).data).toEqual({ writtenByQuery: 1 });
    expect([await ids({ as: "admin" }), await ids({ as: "bob" })]).toEqual([
      expect.arrayContaining([900]),
      expect.not.arrayContaining([900]),
    ]);
  });
});

describe("while the replicas are behind", () => {
  test("a mutation returns its position, and a query that sends it sees what was written", async () => {
    await pauseReplicas();
    const { headers, extensions } = await create(10);
    const { changePosition } = extensions;
    expect([changePosition, headers.get("change-position")]).toEqual([expect.any(String), changePosition]);
    expect(await ids({ as: "bob" })).not.toContain(10);
    expect(await ids({ as: "bob", extensions: { changePosition } })).toContain(10);
    expect(await ids({ as: "bob", headers: { "change-position": changePosition } })).toContain(10);
    const { data } = await send(BOTH, { as: "bob", extensions: { changePosition } });
    expect([data.onReplica, data.countNotes]).toEqual([false, String(data.notes.totalCount)]);
  });

  test("the position of a mutation over WebSocket is in its extensions", async () => {
    await pauseReplicas();
    const [ada, bob] = [connect(service, { as: "ada" }), connect(service, { as: "bob" })];
    const { extensions } = await ada.run('mutation { createNote(input: { id: 11, text: "new" }) { id } }');
    const read = "{ notes(filter: { id: { equalTo: 11 } }) { totalCount } }";
    expect((await bob.run(read)).data.notes.totalCount).toBe(0);
    expect((await bob.run(read, undefined, { changePosition: extensions!.changePosition })).data.notes.totalCount).toBe(
      1,
    );
  });

  test("the caller sees their own mutation without a position", async () => {
    await pauseReplicas();
    await create(12, { as: "ada" });
    expect([await ids({ as: "ada" }), await ids({ as: "bob" })]).toEqual([
      expect.arrayContaining([12]),
      expect.not.arrayContaining([12]),
    ]);
  });

  test("a subscription from the position of a query on a replica misses nothing", async () => {
    await pauseReplicas();
    await create(13, { as: "ada" });
    const client = connect(service, { as: "bob" });
    for (const query of ["{ notes { edges { node { id } } } }", BOTH]) {
      const { extensions } = await client.run(query, undefined, { changePosition: true });
      const events = await client.subscribe("subscription { onNoteCreated { id } }", undefined, {
        after: extensions!.changePosition,
      });
      await expect.poll(() => events.events, POLL).toContainEqual({ onNoteCreated: { id: "13" } });
    }
  });

  test("no query of 60 writers is stale, while replicas stop and go on to replay", async () => {
    const stale: string[] = [];
    const pairs = async (at: TestService, start: number) => {
      for (let id = start; id < start + 30; id++) {
        const { extensions } = await create(id, { at });
        const query = `{ onReplica countNotes notes(filter: { id: { equalTo: ${id} } }) { totalCount } }`;
        if ((await send(query, { at })).data.notes.totalCount !== 1) stale.push(`own ${id}`);
        // At the other instance, which does not know who has written.
        const [reader, asked] = [at === service ? other : service, { changePosition: extensions.changePosition }];
        const { data } = await send(query, { as: "bob", at: reader, extensions: asked });
        if (data.notes.totalCount !== 1) stale.push(`position ${id}`);
      }
    };
    await whileDisturbed(rig.replicas, () => Promise.all([pairs(service, 1000), pairs(other, 2000)]));
    expect(stale).toEqual([]);
  });
});
